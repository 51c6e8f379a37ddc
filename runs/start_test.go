package runs

import (
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestStart(t *testing.T) {
	w := newWorld(t)
	parent := w.start(StartRequest{Labels: Labels{"a": "parent's", "b": "parent's"}})
	binding := Binding{Provider: "p", Model: "m", Scope: "s", Local: true}
	st, err := w.s.Start(ctx, Caller{UID: 7}, StartRequest{
		Labels: Labels{"thread": "T", "a": "own"}, Parent: parent.id, Task: "do with Bearer abcdefgh12345678",
		Lease: 5 * time.Second, Binding: &binding, ResumeRequest: []byte("argv"), Message: []byte(`{"text":"hi"}`),
	})
	if err != nil {
		t.Fatal(err)
	}
	rec := st.Record
	if !isUUID(rec.ID) || rec.ID[14] != '7' || rec.Phase != "running" || rec.Revision != 1 || rec.Epoch != 1 ||
		rec.BootID != w.s.BootID() || rec.LeaseMS != 5000 || rec.UID != 7 || !rec.Resume.Available || rec.StartedAt.IsZero() ||
		rec.Preview != "do with Bearer [masked]" || *rec.Binding != binding || st.ETag != `"2-1"` || len(st.Writer) != 64 {
		t.Errorf("the start is %+v\n%s", st, mustJSON(rec))
	}
	if d := cmp.Diff(rec.Labels, Labels{"thread": "T", "a": "own", "b": "parent's"}); d != "" {
		t.Errorf("labels: %s", d)
	}
	if got := strings.Join(rec.Actions, " "); got != "beat log payload claim outcome settle pause" {
		t.Errorf("actions: %s", got)
	}
	text := string(mustJSON(rec)) + w.logText(rec.ID)
	for _, private := range []string{"argv", "resume-request", "target", "abcdefgh", st.Writer} {
		if strings.Contains(text, private) {
			t.Errorf("%q is shown", private)
		}
	}
	if list, err := w.s.PayloadList(w.ref(rec.ID)); err != nil || len(list) != 0 {
		t.Errorf("the resume request is listed: %+v, %v", list, err)
	}
	if _, err := w.payload(rec.ID, resumeRequestName); CodeOf(err) != UnknownPayload {
		t.Errorf("the resume request is read by its name: %v", err)
	}
	w.reopen()
	num := uint32(w.ref(rec.ID))
	if w.count(num, kindJournal, 0) != 2 || w.count(num, kindThread, 0) != 1 { // started; paused by this boot comes after the replay
		w.reopen()
	}
	if j, th := w.count(num, kindJournal, 0), w.count(num, kindThread, 0); j != 2 || th != 1 {
		t.Errorf("there are %d journal rows and %d messages", j, th)
	}
}

func TestStartLargeResumeRequest(t *testing.T) {
	w := newWorld(t)
	request := []byte(strings.Repeat("r", 100<<10))
	a := w.start(StartRequest{ResumeRequest: request})
	w.reopen()
	f, err := w.s.findPayload(uint32(w.ref(a.id)), resumeRequestName)
	if err != nil || f == nil {
		t.Fatal(f, err)
	}
	if got, err := w.s.readRef(f.ref, 1<<20); err != nil || string(got) != string(request) {
		t.Errorf("the request has %d bytes (%v)", len(got), err)
	}
}

// TestStartAgain: a key and its body name one run for ever.
func TestStartAgain(t *testing.T) {
	w := newWorld(t)
	req := StartRequest{IdempotencyKey: "k", BodyHash: [32]byte{1}, Lease: -1}
	first, err := w.s.Start(ctx, Caller{UID: 7}, req)
	if err != nil {
		t.Fatal(err)
	}
	second, err := w.s.Start(ctx, Caller{UID: 7}, req)
	if err != nil || !second.Replayed || second.Record.ID != first.Record.ID || second.Epoch != 2 || second.Writer == "" || second.Record.Revision != 2 {
		t.Fatalf("again: %+v, %v", second, err)
	}
	old := &agent{w, first.Record.ID, Caller{UID: 7, Writer: first.Writer}}
	cur := &agent{w, first.Record.ID, Caller{UID: 7, Writer: second.Writer}}
	before := w.info(old.id)
	_, err = old.append(`{"a":1}`, `{"b":"`+strings.Repeat("x", 10000)+`"}`)
	wantCode(t, err, StaleWriter)
	_, _, err = old.put("p", "x")
	wantCode(t, err, StaleWriter)
	_, err = old.settle(Success, "")
	wantCode(t, err, StaleWriter)
	_, _, err = w.s.Get(old.c, old.id)
	wantCode(t, err, StaleWriter)
	after := w.info(old.id)
	if after.LastSeq != before.LastSeq || after.Revision != before.Revision || after.LateRows != 4 {
		t.Errorf("a stale writer changed %+v to %+v", before, after)
	}
	late := w.late(old.id)
	if !strings.Contains(late, `{\"a\":1}`) || strings.Count(late, `"code":"stale-writer"`) != 4 || !strings.Contains(late, `"what":"settle"`) {
		t.Errorf("late is %.500s", late)
	}
	for line := range strings.Lines(late) {
		if len(line) > LateRowBytesMax {
			t.Errorf("a late line has %d bytes", len(line))
		}
	}
	cur.mustAppend(`{}`)
	_, err = w.s.Start(ctx, Caller{UID: 8}, req)
	wantCode(t, err, IdempotencyMismatch)
	other, err := w.s.Start(ctx, owner, req)
	if err != nil || !other.Replayed || other.Writer != "" || other.Record.Epoch != 2 {
		t.Errorf("by an owner: %+v, %v", other, err)
	}
	w.reopen()
	third, err := w.s.Start(ctx, Caller{UID: 7}, req)
	if err != nil || !third.Replayed || third.Epoch != 3 || third.Record.ID != cur.id || third.Record.Phase != "paused-interruption" {
		t.Errorf("after a restart: %+v, %v", third, err)
	}
	_, err = w.s.Attach(ctx, cur.c, cur.id, AttachRequest{})
	wantCode(t, err, StaleWriter)
	cur.c.Writer = third.Writer
	_, err = cur.append(`{}`)
	wantCode(t, err, AttachRequired)
	cur.mustAttach()
	cur.mustAppend(`{}`)
	cur.mustSettle("")
	fourth, err := w.s.Start(ctx, Caller{UID: 7}, req)
	if err != nil || !fourth.Replayed || fourth.Writer != "" || fourth.Record.Phase != "terminal" {
		t.Errorf("after the end: %+v, %v", fourth, err)
	}
	if w.s.Newest() != 1 {
		t.Errorf("there are %d runs", w.s.Newest())
	}
}

// TestStartTogether: starts with one key at once make one run, and one token
// that works.
func TestStartTogether(t *testing.T) {
	w := newWorld(t)
	const n = 16
	got := make([]Started, n)
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() {
			var err error
			if got[i], err = w.s.Start(ctx, Caller{UID: 7}, StartRequest{IdempotencyKey: "k", ResumeRequest: []byte("x")}); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	fresh, works := 0, 0
	for _, st := range got {
		if st.Record.ID != got[0].Record.ID {
			t.Errorf("two runs: %s and %s", st.Record.ID, got[0].Record.ID)
		}
		if !st.Replayed {
			fresh++
		}
		a := &agent{w, st.Record.ID, Caller{Writer: st.Writer}}
		if _, err := a.append(`{}`); err == nil {
			works++
		} else {
			wantCode(t, err, StaleWriter)
		}
	}
	if fresh != 1 || works != 1 || w.s.Counts()["running"] != 1 {
		t.Errorf("%d starts were first, %d tokens work, there are %v", fresh, works, w.s.Counts())
	}
}

func TestStartSameIDTogether(t *testing.T) {
	w := newWorld(t)
	errs := make(chan error)
	for range 8 {
		go func() {
			_, err := w.s.Start(ctx, Caller{}, StartRequest{ID: "exec_x"})
			errs <- err
		}()
	}
	won := 0
	for range 8 {
		if err := <-errs; err == nil {
			won++
		} else {
			wantCode(t, err, RunExists)
		}
	}
	if won != 1 {
		t.Errorf("%d starts got the id", won)
	}
}

// TestLateIsBounded: a stale writer fills its file and no more.
func TestLateIsBounded(t *testing.T) {
	w := newWorld(t)
	a := w.start(StartRequest{IdempotencyKey: "k"})
	w.start(StartRequest{IdempotencyKey: "k"}) // raises the epoch
	rows := make([]string, 400)
	for i := range rows {
		rows[i] = `{"x":"` + strings.Repeat("\x7f", 5000) + `"}`
	}
	for range 4 {
		_, err := a.append(rows...)
		wantCode(t, err, StaleWriter)
	}
	if run := w.info(a.id); run.LateRows != LateRowsMax || run.LateBytes > LateRowsMax*LateRowBytesMax {
		t.Errorf("late has %d rows and %d bytes", run.LateRows, run.LateBytes)
	}
	before := w.late(a.id)
	w.reopen()
	if w.late(a.id) != before {
		t.Error("a restart changed late")
	}
}
