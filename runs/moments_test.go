package runs

import (
	"fmt"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// lines is what OpenHistory tells, as one text.
func (a *agent) lines() string {
	a.w.t.Helper()
	l, err := a.w.s.OpenHistory(a.w.ref(a.id))
	if err != nil {
		a.w.t.Fatal(err)
	}
	return textOf(a.w.t, l)
}

// textOf reads lines from the last to the first: none depends on one before.
func textOf(t testing.TB, l HistoryLines) (text string) {
	t.Helper()
	for i := l.Len() - 1; i >= 0; i-- {
		line, err := l.Append(nil, i)
		if err != nil {
			t.Fatal(err)
		}
		text = string(line) + text
	}
	return text
}

// TestMomentsOfARun: what a moment of a run tells is what the store told then,
// whatever comes after.
func TestMomentsOfARun(t *testing.T) {
	w := newWorld(t)
	a := w.start(StartRequest{})
	type moment struct {
		lines HistoryLines
		calls CallLog
		text  string
		want  []Call
	}
	var moments []moment
	note := func() {
		t.Helper()
		l, err := w.s.OpenHistory(w.ref(a.id))
		c, cerr := w.s.OpenCalls(w.ref(a.id))
		want, werr := w.s.Calls(w.ref(a.id), 0, 0)
		if err != nil || cerr != nil || werr != nil {
			t.Fatal(err, cerr, werr)
		}
		moments = append(moments, moment{l, c, a.history(HistoryRequest{}), want})
	}
	note()
	a.mustClaim("c1", "bash", "read-only")
	note()
	a.mustClaim("c2", "bash", "read-only")
	a.mustProject(2, `{"exit":0}`, textCandidate("two"))
	note()
	a.mustAppend(`{"type":"note"}`)
	a.mustProject(1, `{"exit":1}`, textCandidate("one"))
	note()
	a.mustSettle("")
	check := func() {
		t.Helper()
		note()
		for i, m := range moments {
			if d := cmp.Diff(m.text, textOf(t, m.lines)); d != "" {
				t.Errorf("history %d: %s", i, d)
			}
			got := []Call{}
			for n := range m.calls.Len() {
				c, err := m.calls.Call(n + 1)
				if err != nil {
					t.Fatal(err)
				}
				got = append(got, c)
			}
			if d := cmp.Diff(m.want, got); d != "" {
				t.Errorf("calls %d: %s", i, d)
			}
		}
	}
	check()
	moments = nil
	w.reopen()
	check()
}

// TestCallLogOfACallRunAgain: the attempt is that of the newest claim.
func TestCallLogOfACallRunAgain(t *testing.T) {
	w := newWorld(t)
	c := &callLog{store: w.s}
	for _, cl := range []claim{{Call: 1, Attempt: 1}, {Call: 2, Attempt: 1}, {Call: 1, Attempt: 2}} {
		if err := c.claimed(&cl, entryPlace{}); err != nil {
			t.Fatal(err)
		}
	}
	if c.Len() != 2 || c.calls[0].attempt != 2 {
		t.Errorf("%+v", c.calls)
	}
	if err := c.claimed(&claim{Call: 4, Attempt: 1}, entryPlace{}); err == nil {
		t.Error("a call is missing, and nobody says so")
	}
}

// TestThreadsByNumber: a thread's number is the LSN of its first message; it is
// the same after a restart, and found again.
func TestThreadsByNumber(t *testing.T) {
	w := newWorld(t)
	for i := range 20 {
		name := fmt.Sprintf("t%d", i*7%10)
		if _, err := w.s.Post(ctx, owner, name, PostRequest{Message: mustJSON(fmt.Sprint("turn ", i))}); err != nil {
			t.Fatal(err)
		}
	}
	a := w.start(StartRequest{Labels: Labels{"thread": "t0"}})
	a.mustClaim("c1", "bash", "read-only")
	a.mustSettle("")
	w.start(StartRequest{Labels: Labels{"thread": "silent"}})
	picture := func() (list []ThreadHead) {
		t.Helper()
		for from := uint64(0); ; from = list[len(list)-1].Number + 1 {
			page := w.s.ThreadsFrom(from, 3)
			if list = append(list, page...); len(page) < 3 {
				break
			}
		}
		for _, h := range list {
			byName, ok := w.s.ThreadByName(h.Name)
			c, open := w.s.OpenThread(h.Name)
			if !ok || !open || byName != h || c.Len() != h.Messages {
				t.Fatalf("%+v, %+v", h, byName)
			}
			page, err := w.s.Thread(owner, h.Name, 0, 0)
			if err != nil || page.Messages[0].LSN != h.Number || page.Messages[c.Len()-1].LSN != h.Last || !page.Messages[c.Len()-1].At.Equal(w.s.ThreadLastAt(h.Name)) {
				t.Fatalf("%+v: %+v, %v", h, page, err)
			}
			for i, m := range page.Messages {
				if got, err := c.Message(i); err != nil || !cmp.Equal(got, m) {
					t.Errorf("%s: message %d: %v, %s", h.Name, i, err, cmp.Diff(m, got))
				}
			}
		}
		return list
	}
	want := picture()
	if len(want) != 10 || !slices.IsSortedFunc(want, func(a, b ThreadHead) int { return int(a.Number) - int(b.Number) }) {
		t.Fatalf("%+v", want)
	}
	if _, ok := w.s.ThreadByName("silent"); ok {
		t.Error("a thread without messages is one")
	}
	for range 2 {
		w.reopen()
		if d := cmp.Diff(want, picture()); d != "" {
			t.Errorf("after a restart: %s", d)
		}
		w.replays = true
	}
}

// TestThreadOrder: a thread whose first message goes has the next one's number.
func TestThreadOrder(t *testing.T) {
	x := newIndex()
	add := func(name string, lsn uint64, run uint32) {
		x.changeThread(&threadEvent{name: name, message: message{lsn: lsn, run: run, at: place{1, 1, 1}}})
	}
	add("a", 1, 7)
	add("b", 2, 8)
	add("a", 3, 9)
	x.forgetInThread("a", 7)
	if want := (threadOrder{{2, "b"}, {3, "a"}}); !slices.Equal(x.threadOrder, want) {
		t.Errorf("%v, want %v", x.threadOrder, want)
	}
	x.forgetInThread("b", 8)
	x.forgetInThread("a", 9)
	if len(x.threadOrder) != 0 {
		t.Errorf("%v is left", x.threadOrder)
	}
}

// TestInPhase: runs by phase, of those that live and of those that ended.
func TestInPhase(t *testing.T) {
	w := newWorld(t)
	var live, ended []Ref
	for i := range 30 {
		a := w.start(StartRequest{Lease: -1})
		if i%3 == 0 {
			a.mustSettle("")
			ended = append(ended, w.ref(a.id))
			continue
		}
		live = append(live, w.ref(a.id))
	}
	at := w.s.PhasedAt()
	all := func(p Phase) (list []Ref) {
		for from := Ref(0); ; from = list[len(list)-1] + 1 {
			page := w.s.InPhase(p, from, 4)
			if list = append(list, page...); len(page) < 4 {
				return list
			}
		}
	}
	if got := all(Running); !slices.Equal(got, live) {
		t.Errorf("running: %v, want %v", got, live)
	}
	if got := all(Terminal); !slices.Equal(got, ended) {
		t.Errorf("terminal: %v, want %v", got, ended)
	}
	w.reopen()
	if got := all(PausedInterruption); !slices.Equal(got, live) {
		t.Errorf("interrupted: %v, want %v", got, live)
	}
	if w.s.PhasedAt().Before(at) {
		t.Errorf("the time went back from %v to %v", at, w.s.PhasedAt())
	}
}

// TestTargetNumbers: targets are numbered in the order of their enrolment, for
// good, and no caller is told.
func TestTargetNumbers(t *testing.T) {
	w := newWorld(t)
	for _, name := range []string{"agent:z", "agent:a", "site:https://example.org"} {
		if got, err := w.s.Enrol(ctx, owner, name, true); err != nil || got.Number != 0 {
			t.Fatalf("%+v, %v", got, err)
		}
	}
	for range 2 {
		if _, err := w.s.Enrol(ctx, owner, "agent:z", false); err != nil {
			t.Fatal(err)
		}
		numbers := map[string]uint32{}
		for _, x := range w.s.JournalTargets() {
			numbers[x.Name] = x.Number
		}
		if d := cmp.Diff(map[string]uint32{"master": 0, "agent:z": 1, "agent:a": 2, "site:https://example.org": 3}, numbers); d != "" {
			t.Error(d)
		}
		if told, err := w.s.Targets(owner); err != nil || told[1].Number != 0 {
			t.Errorf("%+v, %v", told, err)
		}
		w.reopen()
	}
}
