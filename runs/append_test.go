package runs

import (
	"bytes"
	"fmt"
	"strings"
	"sync"
	"testing"

	"durafs/cas"
)

func TestAppendKeys(t *testing.T) {
	w := newWorld(t)
	a := w.start(StartRequest{})
	app := func(rows ...string) Appended {
		t.Helper()
		got, err := w.s.Append(ctx, a.c, a.id, rowsOf(rows...), "k")
		if err != nil {
			t.Fatal(err)
		}
		return got
	}
	if got := app(`{"k":"a"}`, `{"k":"b"}`); got != (Appended{2, 3, 2, false}) {
		t.Errorf("first: %+v", got)
	}
	for range 2 {
		if got := app(`{"k":"b"}`); got != (Appended{3, 3, 1, true}) {
			t.Errorf("again: %+v", got)
		}
		w.reopen()
		a.mustAttach()
	}
	seq := w.info(a.id).LastSeq
	if got := app(`{"k":"a"}`, `{"k":"c"}`, `{"k":"c"}`, `{"k":"d"}`); got != (Appended{2, seq + 2, 4, false}) {
		t.Errorf("some new: %+v, after %d", got, seq)
	}
	if got := app(); got != (Appended{}) {
		t.Errorf("nothing: %+v", got)
	}
	if got := w.agentRows(a.id); strings.Join(got, "") != `{"k":"a"}{"k":"b"}{"k":"c"}{"k":"d"}` {
		t.Errorf("the log has %q", got)
	}
	b := w.start(StartRequest{}) // another run's keys are its own
	if got, err := w.s.Append(ctx, b.c, b.id, rowsOf(`{"k":"a","x":1}`), "k"); err != nil || got.FirstSeq != 2 {
		t.Errorf("in another run: %+v, %v", got, err)
	}
}

// TestAppendKeyRace: of many appends of one key at once, one writes.
func TestAppendKeyRace(t *testing.T) {
	w := newWorld(t)
	a := w.start(StartRequest{})
	var wg sync.WaitGroup
	for range 16 {
		wg.Go(func() {
			for i := range 20 {
				got, err := w.s.Append(ctx, a.c, a.id, rowsOf(fmt.Sprintf(`{"k":%d}`, i), fmt.Sprintf(`{"k":%d}`, i+1)), "k")
				if err != nil || got.FirstSeq == 0 || got.LastSeq == 0 {
					t.Errorf("append: %+v, %v", got, err)
				}
			}
		})
	}
	wg.Wait()
	if n := len(w.agentRows(a.id)); n != 21 {
		t.Errorf("21 keys made %d rows", n)
	}
}

func TestAppendLarge(t *testing.T) {
	w := newWorld(t)
	a := w.start(StartRequest{})
	large := `{"type":"t","body":"` + strings.Repeat("x", 300<<10) + `"}`
	edge := `{"a":"` + strings.Repeat("y", RowTextBytesMax-len(`{"a":""}`)) + `"}`
	a.mustAppend(edge, large, large)
	a.mustAppend(large)
	w.reopen()
	rows := w.agentRows(a.id)
	if len(rows) != 4 || rows[0] != edge || rows[1] != rows[2] || len(rows[1]) > RowTextBytesMax {
		t.Fatalf("the log has %d rows", len(rows))
	}
	list, err := w.s.PayloadList(w.ref(a.id))
	if err != nil || len(list) != 1 || list[0].Source != SourceLogBody || list[0].Bytes != int64(len(large)) {
		t.Fatalf("the payloads are %+v, %v", list, err)
	}
	if !strings.Contains(rows[1], `"payload":"`+list[0].Name+`"`) || !strings.Contains(rows[1], list[0].B3.String()) {
		t.Errorf("the row does not name its body: %.300s", rows[1])
	}
	if got, err := w.payload(a.id, list[0].Name); err != nil || got != large || list[0].B3 != cas.Sum([]byte(large)) {
		t.Errorf("the body is not the row (%v)", err)
	}
}

// TestAppendManyBatches: an append of more than one batch holds is one unit.
func TestAppendManyBatches(t *testing.T) {
	w := newWorld(t)
	a := w.start(StartRequest{})
	var rows []string
	for i := range 100 {
		rows = append(rows, fmt.Sprintf(`{"n":%d,"x":"%s"}`, i, strings.Repeat("z", 40<<10)))
	}
	if got := a.mustAppend(rows...); got != (Appended{2, 101, 100, false}) {
		t.Errorf("%+v", got)
	}
	if n := w.log.Durable(); n < 4 {
		t.Errorf("4 MB of rows are in %d batches", n)
	}
	if got := w.agentRows(a.id); strings.Join(got, "\n") != strings.Join(rows, "\n") {
		t.Error("the rows are not those that were appended")
	}
	w.reopen()
	if got := w.agentRows(a.id); strings.Join(got, "\n") != strings.Join(rows, "\n") {
		t.Error("after a restart, the rows are not those that were appended")
	}
}

// TestAppendTogether: writers of several runs, and several of one, at once:
// every run's numbers are dense and each writer's rows in its order.
func TestAppendTogether(t *testing.T) {
	w := newWorld(t)
	const writers, runs, each = 16, 4, 60
	agents := make([]*agent, runs)
	for i := range agents {
		agents[i] = w.start(StartRequest{})
	}
	var wg sync.WaitGroup
	for n := range writers {
		a := agents[n%runs]
		wg.Go(func() {
			var last uint64
			for i := range each {
				got, err := a.append(fmt.Sprintf(`{"w":%d,"i":%d}`, n, 2*i), fmt.Sprintf(`{"w":%d,"i":%d}`, n, 2*i+1))
				if err != nil || got.FirstSeq <= last || got.LastSeq != got.FirstSeq+1 {
					t.Errorf("append: %+v, %v", got, err)
				}
				last = got.LastSeq
				if n == 0 { // a reader at the same time sees whole rows
					run := w.info(a.id)
					text := make([]byte, run.LogBytes)
					k, err := w.s.ReadLogAt(run.Ref, text, 0)
					if k != len(text) || err != nil || text[k-1] != '\n' || bytes.Count(text, []byte("\n")) != int(run.Rows) {
						t.Errorf("of %d bytes %d are there, with %d of %d rows (%v)", len(text), k, bytes.Count(text, []byte("\n")), run.Rows, err)
					}
				}
			}
		})
	}
	wg.Wait()
	check := func() {
		for _, a := range agents {
			next := map[string]int{}
			rows := w.agentRows(a.id) // checks that seq is dense
			if len(rows) != writers/runs*each*2 {
				t.Errorf("there are %d rows", len(rows))
			}
			for _, r := range rows {
				var n, i int
				fmt.Sscanf(r, `{"w":%d,"i":%d}`, &n, &i)
				if k := fmt.Sprint(n); next[k] != i {
					t.Fatalf("row %s of writer %d comes after %d", r, n, next[k]-1)
				} else {
					next[k]++
				}
			}
		}
	}
	check()
	w.reopen()
	check()
}

func TestAppendStartKeepsOrder(t *testing.T) {
	w := newWorld(t)
	a := w.start(StartRequest{})
	var waits []func() error
	for i := range 200 {
		wait, err := w.s.AppendStart(ctx, a.c, a.id, rowsOf(fmt.Sprintf(`{"i":%d}`, i)), "", nil)
		if err != nil {
			t.Fatal(err)
		}
		waits = append(waits, func() error {
			got, err := wait(ctx)
			if err == nil && got.FirstSeq != uint64(i+2) {
				err = fmt.Errorf("row %d got number %d", i, got.FirstSeq)
			}
			return err
		})
	}
	for _, wait := range waits {
		if err := wait(); err != nil {
			t.Fatal(err)
		}
	}
}

// TestLogOffset: each row begins where LogOffset says, and a read from there
// begins with it.
func TestLogOffset(t *testing.T) {
	w := newWorld(t)
	a, b := w.start(StartRequest{}), w.start(StartRequest{})
	for i := range 300 { // runs interleave, and stretches pass their bounds
		a.mustAppend(fmt.Sprintf(`{"i":%d,"x":"%s"}`, i, strings.Repeat("x", i*7)))
		if i%3 == 0 {
			b.mustAppend(`{"y":"` + strings.Repeat("y", 1000*(i%70)) + `"}`)
		}
	}
	check := func() {
		for _, id := range []string{a.id, b.id} {
			run, text, off := w.info(id), w.logText(id), int64(0)
			for seq, line := range strings.SplitAfter(text, "\n") {
				got, err := w.s.LogOffset(run.Ref, uint64(seq+1))
				if err != nil || got != off {
					t.Fatalf("row %d begins at %d, not %d (%v)", seq+1, off, got, err)
				}
				buf := make([]byte, len(line))
				if n, _ := w.s.ReadLogAt(run.Ref, buf, off); string(buf[:n]) != line {
					t.Fatalf("row %d reads as %.50q", seq+1, buf)
				}
				off += int64(len(line))
			}
		}
	}
	check()
	w.reopen()
	check()
}

func TestReadLogAtAnyOffset(t *testing.T) {
	w := newWorld(t)
	a := w.start(StartRequest{})
	for i := range 40 {
		a.mustAppend(fmt.Sprintf(`{"i":%d}`, i), `{}`)
	}
	text := []byte(w.logText(a.id))
	ref := w.ref(a.id)
	for off := 0; off <= len(text)+2; off += 7 {
		for _, n := range []int{0, 1, 13, 500, len(text) + 5} {
			buf := make([]byte, n)
			got, err := w.s.ReadLogAt(ref, buf, int64(off))
			want := text[min(off, len(text)):min(off+n, len(text))]
			if !bytes.Equal(buf[:got], want) || (err == nil) != (got == n) {
				t.Fatalf("%d bytes at %d: %q, %v", n, off, buf[:got], err)
			}
		}
	}
}

// TestRunFull: a run that has the highest number takes no more rows, and can
// still be settled.
func TestRunFull(t *testing.T) {
	w := newWorld(t)
	a := w.start(StartRequest{})
	w.s.mu.Lock() // as if it had them
	c, i := w.s.index.at(1)
	c.lastSeq[i] = SeqMax - 1
	w.s.acc.runs[1].seq = SeqMax - 1
	w.s.mu.Unlock()
	_, err := a.append(`{}`, `{}`)
	wantCode(t, err, RunFull)
	if got := a.mustAppend(`{}`); got.LastSeq != SeqMax {
		t.Errorf("the last row got %d", got.LastSeq)
	}
	_, err = a.append(`{}`)
	wantCode(t, err, RunFull)
	a.mustSettle("answer")
}
