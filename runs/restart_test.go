package runs

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"durafs/cas"
	"durafs/wal"
)

// TestRestarts: the first boot after a life interrupts what was running, and
// 50 more change nothing.
func TestRestarts(t *testing.T) {
	w := newWorld(t)
	a := w.start(StartRequest{Labels: Labels{"thread": "T"}, ResumeRequest: []byte("x")})
	a.mustAppend(`{"a":1}`)
	a.mustPut("p", strings.Repeat("p", 30<<10))
	b := w.start(StartRequest{ID: "exec_b"})
	b.mustSettle("answer")
	boot := w.s.BootID()
	w.reopen()
	if w.s.BootID() == boot {
		t.Error("two boots have one id")
	}
	if got := w.ownTypes(a.id); got != "accepted paused" {
		t.Errorf("the log tells: %s", got)
	}
	rec, _ := w.s.Record(w.ref(a.id))
	if rec.Phase != "paused-interruption" || rec.Pause == nil || rec.Pause.Reason != "restart" || rec.Pause.At.IsZero() || rec.BootID != boot || rec.Revision != 2 {
		t.Errorf("the record is %s", mustJSON(rec))
	}
	before, durable := w.picture(), w.log.Durable()
	for range 50 {
		w.reopen()
	}
	if after := w.picture(); after != before || w.log.Durable() != durable {
		t.Errorf("50 boots changed %s", cmp.Diff(before, after))
	}
	_, err := a.append(`{"a":2}`)
	wantCode(t, err, AttachRequired)
	st, err := w.s.Attach(ctx, a.c, a.id, AttachRequest{})
	if err != nil || st.Writer != a.c.Writer || st.Epoch != 1 || st.Record.Phase != "running" || st.Record.BootID != w.s.BootID() || st.Record.Pause != nil {
		t.Fatalf("attach: %+v, %v", st, err)
	}
	a.mustAppend(`{"a":2}`)
	if got := strings.Join(w.agentRows(a.id), ""); got != `{"a":1}{"a":2}` {
		t.Errorf("the log has %s", got)
	}
	if got := w.ownTypes(a.id); got != "accepted paused attached" {
		t.Errorf("the log tells: %s", got)
	}
	a.mustSettle("")
	if got := w.ownTypes(a.id); got != "accepted paused attached terminal" {
		t.Errorf("the log tells: %s", got)
	}
}

// TestBeat: a beat is freshness and nothing else.
func TestBeat(t *testing.T) {
	w := newWorld(t)
	a := w.start(StartRequest{})
	before, _ := w.s.Record(w.ref(a.id))
	rec, err := w.s.Beat(ctx, a.c, a.id, "still here")
	if err != nil || !rec.HeartbeatAt.After(before.HeartbeatAt) || rec.Revision != 1 || rec.ChangedAt != before.ChangedAt || rec.ProgressCount != 0 {
		t.Fatalf("beat: %+v, %v", rec, err)
	}
	w.reopen()
	after, _ := w.s.Record(w.ref(a.id))
	if after.HeartbeatAt != rec.HeartbeatAt {
		t.Errorf("after a restart the heartbeat is %s, not %s", after.HeartbeatAt, rec.HeartbeatAt)
	}
}

// TestNumbersAreNotReused, also when starts are refused.
func TestNumbersAreNotReused(t *testing.T) {
	w := newWorld(t)
	a := w.start(StartRequest{ID: "exec_a"})
	for range 3 {
		_, err := w.s.Start(ctx, Caller{}, StartRequest{ID: "exec_a"})
		wantCode(t, err, RunExists)
	}
	w.reopen()
	b := w.start(StartRequest{ID: "exec_b"})
	if w.ref(b.id) <= w.ref(a.id) || w.s.Newest() != w.ref(b.id) {
		t.Errorf("runs %d and %d, newest %d", w.ref(a.id), w.ref(b.id), w.s.Newest())
	}
}

func TestPut(t *testing.T) {
	w := newWorld(t)
	a := w.start(StartRequest{})
	contents := map[string]string{
		"empty": "", "inline": "x", "edge": strings.Repeat("e", 16<<10), "packed": strings.Repeat("p", 16<<10+1),
		"large": strings.Repeat("0123456789", 100<<10), "ä b.txt": "\x00\xff",
	}
	order := []string{"large", "empty", "packed", "inline", "edge", "ä b.txt"}
	for i, name := range order {
		info, replayed, err := a.put(name, contents[name])
		if err != nil || replayed || info.Ordinal != uint32(i) || info.Bytes != int64(len(contents[name])) || info.At.IsZero() {
			t.Fatalf("%s: %+v, %v, %v", name, info, replayed, err)
		}
		if again, replayed, err := a.put(name, contents[name]); err != nil || !replayed || again != info {
			t.Fatalf("%s again: %+v, %v, %v", name, again, replayed, err)
		}
	}
	check := func() {
		list, err := w.s.PayloadList(w.ref(a.id))
		if err != nil || len(list) != len(order) || w.info(a.id).Payloads != uint32(len(order)) {
			t.Fatalf("the list is %+v, %v", list, err)
		}
		for i, p := range list {
			if p.Name != order[i] || p.Ordinal != uint32(i) {
				t.Errorf("payload %d is %+v", i, p)
			}
			if got, err := w.payload(a.id, p.Name); err != nil || got != contents[p.Name] {
				t.Errorf("%s has %d bytes (%v)", p.Name, len(got), err)
			}
		}
	}
	check()
	w.reopen()
	check()
}

func TestList(t *testing.T) {
	w := newWorld(t)
	var ids []string
	parent := w.start(StartRequest{})
	for i := range 25 {
		r := StartRequest{Task: "Task", Labels: Labels{"thread": "T", "n": string(rune('a' + i%5))}}
		if i%2 == 0 {
			r.Parent, r.Labels["thread"], r.Task = parent.id, "U", "other"
		}
		ids = append([]string{w.start(r).id}, ids...)
	}
	ids = append(ids, parent.id)
	pages := func(c Caller, q ListQuery) (got []string) {
		t.Helper()
		for {
			p, err := w.s.List(c, q)
			if err != nil || p.Policy != DefaultPolicy {
				t.Fatal(p, err)
			}
			for _, r := range p.Runs {
				got = append(got, r.ID)
			}
			if q.After = p.Next; q.After == "" {
				return got
			}
		}
	}
	owner := Caller{Owner: true}
	for range 2 {
		for _, limit := range []int{0, 1, 7, 26, 1000} {
			if d := cmp.Diff(pages(owner, ListQuery{Limit: limit}), ids); d != "" {
				t.Errorf("limit %d: %s", limit, d)
			}
		}
		for name, tt := range map[string]struct {
			q ListQuery
			n int
		}{
			"thread": {ListQuery{Thread: "T"}, 12}, "parent": {ListQuery{Parent: parent.id, Limit: 3}, 13},
			"label": {ListQuery{Labels: Labels{"n": "b"}}, 5}, "both": {ListQuery{Thread: "U", Labels: Labels{"n": "b"}}, 2},
			"text": {ListQuery{Text: "tAsK", Limit: 5}, 12}, "none": {ListQuery{Thread: "V"}, 0},
			"terminal": {ListQuery{Phase: "terminal"}, 0},
		} {
			if got := pages(owner, tt.q); len(got) != tt.n {
				t.Errorf("%s: %d runs, want %d", name, len(got), tt.n)
			}
		}
		if got := pages(Caller{UID: 7}, ListQuery{}); len(got) != len(ids) {
			t.Errorf("its own agent sees %d runs", len(got))
		}
		if got := pages(Caller{UID: 8}, ListQuery{}); len(got) != 0 {
			t.Errorf("another agent sees %d runs", len(got))
		}
		w.reopen()
	}
}

// TestChanged: a channel taken before a change is closed by it, and Listen
// hears of everything that became visible.
func TestChanged(t *testing.T) {
	w := newWorld(t)
	a, b := w.start(StartRequest{}), w.start(StartRequest{})
	ca, cb := w.s.Changed(w.ref(a.id)), w.s.Changed(w.ref(b.id))
	if w.s.Changed(w.ref(a.id)) != ca {
		t.Error("two waiters have two channels")
	}
	a.mustAppend(`{}`)
	<-ca
	select {
	case <-cb:
		t.Error("a change of one run wakes those of another")
	default:
	}
}

func TestListen(t *testing.T) {
	w := newWorld(t)
	w.close()
	logs, chunks := fastDir(t), fastDir(t)
	t.Cleanup(w.close) // before the directories go
	s := New(Options{StoreKey: []byte("k")})
	var kinds ChangeKinds
	s.Listen(func(changes []Change) {
		for _, c := range changes {
			if _, ok := s.Info(c.Ref); !ok {
				t.Error("a change is told before it can be seen")
			}
			kinds |= c.Kinds
		}
	})
	log, err := openLog(w.fs, logs, wal.Options{Derived: s}, s.Replay)
	if err != nil {
		t.Fatal(err)
	}
	w.log, w.s = log, s
	if w.cas, err = openChunks(w.fs, chunks, new(memLedger), nil); err != nil {
		t.Fatal(err)
	}
	if err := s.Boot(ctx, log, w.cas); err != nil {
		t.Fatal(err)
	}
	for _, step := range []struct {
		do   func(a *agent)
		want ChangeKinds
	}{
		{func(a *agent) { a.mustAppend(`{}`) }, ChangedLog},
		{func(a *agent) { a.mustPut("p", "x") }, ChangedPayload},
		{func(a *agent) { a.mustSettle("") }, ChangedLog | ChangedRecord | ChangedSealed | ChangedPhase},
	} {
		a := w.start(StartRequest{})
		if want := ChangedAdmitted | ChangedRecord | ChangedLog; kinds != want {
			t.Errorf("a start tells %b, want %b", kinds, want)
		}
		kinds = 0
		step.do(a)
		if kinds != step.want {
			t.Errorf("told %b, want %b", kinds, step.want)
		}
		kinds = 0
	}
}

// TestPlacementIsNotShown: nothing that a reader sees depends on where a
// payload's bytes are, since a rewritten log has them elsewhere.
func TestPlacementIsNotShown(t *testing.T) {
	w := newWorld(t)
	a := w.start(StartRequest{Labels: Labels{"thread": "T"}, ResumeRequest: []byte("x")})
	a.mustAppend(`{"a":1}`, `{"b":"`+strings.Repeat("b", 100<<10)+`"}`)
	a.mustPut("inline", "x")
	a.mustPut("packed", strings.Repeat("p", 30<<10))
	a.mustSettle("answer")
	w.reopen()
	moved := 0
	var frames []wal.Frame
	for _, f := range w.frames {
		b, err := decodeBatch(f.Payload)
		if err != nil {
			t.Fatal(err)
		}
		for i, e := range b.entries {
			if e.kind == kindPayload {
				p, _ := parsePayload(e)
				p.ref.Inline, p.ref.Hint = nil, cas.Hint{Pack: 9, Offset: 9, End: 9}
				b.entries[i] = p.entry(e.run)
				moved++
			}
		}
		f.Payload = appendStamp(appendEntries(nil, b.entries), b.stamp)
		frames = append(frames, f)
	}
	elsewhere := w.copyFramesOf(t, frames)
	elsewhere.mustOpen()
	seen := func(w *world) string {
		list, err := w.s.PayloadList(1)
		if err != nil {
			t.Fatal(err)
		}
		rec, _ := w.s.Record(1)
		return w.logText(a.id) + string(mustJSON(list)) + string(mustJSON(rec))
	}
	if d := cmp.Diff(seen(w), seen(elsewhere)); moved != 5 || d != "" {
		t.Errorf("%d payloads were moved, and that shows: %s", moved, d)
	}
}
