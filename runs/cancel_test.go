package runs

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"durafs/wal"
)

func (w *world) cancel(id string) error {
	_, err := w.s.Cancel(ctx, owner, id, CancelRequest{})
	return err
}

// TestCancel: the tombstone is durable at once; the agent is told by its next
// beat, and its word ends the run.
func TestCancel(t *testing.T) {
	w, _ := newTimed(t)
	a := w.start(StartRequest{Labels: Labels{"thread": "T"}})
	a.mustClaim("c1", "t", "mutating")
	a.mustClaim("c2", "t", "mutating")
	_, err := w.s.Cancel(ctx, a.c, a.id, CancelRequest{})
	wantCode(t, err, NotOwner)
	_, err = w.s.Cancel(ctx, owner, a.id, CancelRequest{IfMatch: `"1-9"`})
	wantCode(t, err, RevisionMismatch)
	got, err := w.s.Cancel(ctx, owner, a.id, CancelRequest{IfMatch: w.etag(a.id)})
	if err != nil || got.Record.Phase != "cancel-requested" || got.Record.Cancel.ByUID != owner.UID || got.Record.Cancel.RequestedAt.IsZero() {
		t.Fatalf("cancel: %s, %v", mustJSON(got), err)
	}
	if r := wantCode(t, w.cancel(a.id), CancelRequestedCode); r.At != got.Record.Cancel.RequestedAt {
		t.Errorf("the second cancel is told of %s", r.At)
	}
	if rec, err := a.beat(); err != nil || rec.Phase != "cancel-requested" {
		t.Errorf("the beat: %v", err)
	}
	a.mustOutcome(1, `{"status":"ok"}`) // an open call's outcome is still taken
	for what, ask := range map[string]func() error{
		"row":     func() error { _, err := a.append(`{"x":1}`); return err },
		"payload": func() error { _, _, err := a.put("p", "x"); return err },
		"claim":   func() error { _, err := a.claim("c3", "t", "read-only"); return err },
		"settle":  func() error { _, err := a.settle(Success, ""); return err },
	} {
		wantCode(t, ask(), CancelRequestedCode)
		if !strings.Contains(w.late(a.id), `"what":"`+what+`","code":"cancel-requested"`) {
			t.Errorf("%s is not among the late: %s", what, w.late(a.id))
		}
	}
	_, _, err = w.s.AckAbort(ctx, a.c, a.id, "sorry")
	wantCode(t, err, BadReason)
	rec, _, err := w.s.AckAbort(ctx, a.c, a.id, AbortAcknowledged)
	if err != nil || rec.Phase != "cancelled" || rec.Cancel.Abort != "acknowledged" || rec.Cancel.Attempts != 1 || len(rec.OpenCalls) != 0 {
		t.Fatalf("acknowledged: %s, %v", mustJSON(rec), err)
	}
	_, err = a.outcome(2, `{"status":"ok"}`)
	wantCode(t, err, Finished)
	wantCode(t, w.cancel(a.id), Finished)
	_, err = a.beat()
	wantCode(t, err, Finished)
	if got := w.ownTypes(a.id); got != "accepted tool-call tool-call cancel-requested tool-result tool-result cancelled" {
		t.Errorf("the log tells: %s", got)
	}
	w.checkEnd(a.id)
}

// checkEnd checks what holds of every run that is over: one terminal row in its
// journal and its log, one message in its thread, and no restart changes it.
func (w *world) checkEnd(id string) {
	w.t.Helper()
	before := w.picture()
	w.reopen()
	if after := w.picture(); after != before {
		w.t.Errorf("a restart changed\n%s\nto\n%s", before, after)
	}
	num := uint32(w.ref(id))
	for k, flags := range map[kind]uint8{kindJournal: onceTerminal, kindThread: onceTerminal, kindOutboxDone: 0} {
		if n := w.count(num, k, flags); n != 1 {
			w.t.Errorf("there are %d entries of kind %d, want 1", n, k)
		}
	}
	types := strings.Fields(w.ownTypes(id))
	ends := slices.DeleteFunc(slices.Clone(types), func(s string) bool { return s != "terminal" && s != "cancelled" })
	if len(ends) != 1 || types[len(types)-1] != ends[0] {
		w.t.Errorf("the log tells: %s", types)
	}
}

// TestAbortTimes: an agent that does not answer is asked twice, five seconds
// each; then the run ends all the same, and the record tells what was.
func TestAbortTimes(t *testing.T) {
	for _, tt := range []struct {
		beats bool
		abort string
	}{{true, AbortTimedOut}, {false, AbortNoListener}} {
		w, f := newTimed(t)
		a := w.start(StartRequest{Labels: Labels{"thread": "T"}})
		if err := w.cancel(a.id); err != nil {
			t.Fatal(err)
		}
		w.pass(f, 4*time.Second)
		if tt.beats {
			if _, err := a.beat(); err != nil {
				t.Fatal(err)
			}
		}
		w.pass(f, 5*time.Second)
		w.wantPhase(a.id, "cancel-requested")
		w.pass(f, 2*time.Second)
		rec := w.wantPhase(a.id, "cancelled")
		if rec.Cancel.Abort != tt.abort || rec.Cancel.Attempts != 2 {
			t.Errorf("the cancel is %s, want %s", mustJSON(rec.Cancel), tt.abort)
		}
		w.checkEnd(a.id)
	}
}

// TestCancelPaused: a run that no agent has is over at once, from every pause.
func TestCancelPaused(t *testing.T) {
	w, _ := newTimed(t)
	w.everyPhase()
	w.reopen()
	for p := Running; int(p) < phaseCount; p++ {
		page, err := w.s.List(owner, ListQuery{Phase: p.String()})
		if err != nil {
			t.Fatal(err)
		}
		for _, rec := range page.Runs {
			err := w.cancel(rec.ID)
			if p.sealed() {
				wantCode(t, err, Finished)
				continue
			}
			if err != nil {
				t.Errorf("%s: %v", p, err)
			}
			if now := w.wantPhase(rec.ID, "cancelled"); now.Cancel.Abort != AbortNoListener {
				t.Errorf("%s: %s", p, mustJSON(now.Cancel))
			}
		}
	}
}

// TestCancelDamagedChild: a descendant that takes no cancel keeps no other from
// it, and the answer names both.
func TestCancelDamagedChild(t *testing.T) {
	w, _ := newTimed(t)
	top := w.start(StartRequest{ID: "exec_top"})
	for n := range 4 {
		w.start(StartRequest{ID: fmt.Sprint("exec_", n), Parent: top.id}).mustAppend(`{"a":1}`)
	}
	w.start(StartRequest{ID: "exec_below", Parent: "exec_1"})
	w.readFrames()
	var rotten wal.Position
	for _, f := range w.frames {
		if f.Run == uint64(w.ref("exec_1")) {
			rotten = f.Pos // its newest batch
		}
	}
	w.close()
	w.rotFrame(rotten)
	w.replays = true
	w.mustOpen()
	got, err := w.s.Cancel(ctx, owner, top.id, CancelRequest{Children: true})
	if err != nil || got.Record.Phase != "cancelled" || strings.Join(got.Children, " ") != "exec_0 exec_2 exec_3 exec_below" {
		t.Errorf("cancelled: %s, %v", mustJSON(got), err)
	}
	if len(got.NotCancelled) != 1 || got.NotCancelled[0].ID != "exec_1" || got.NotCancelled[0].Code != RunDamaged || got.NotCancelled[0].Detail == "" {
		t.Errorf("not cancelled: %s", mustJSON(got.NotCancelled))
	}
}

// TestCancelChildren: descendants are cancelled only when that is asked for.
func TestCancelChildren(t *testing.T) {
	w, _ := newTimed(t)
	top := w.start(StartRequest{ID: "exec_0"})
	for i := 1; i < 5; i++ {
		w.start(StartRequest{ID: fmt.Sprint("exec_", i), Parent: fmt.Sprint("exec_", (i-1)/2)})
	}
	w.start(StartRequest{ID: "exec_loop", Parent: "exec_loop"})
	done := w.start(StartRequest{ID: "exec_done", Parent: top.id})
	done.mustSettle("")
	if err := w.cancel("exec_2"); err != nil {
		t.Fatal(err)
	}
	w.wantPhase("exec_1", "running")
	got, err := w.s.Cancel(ctx, owner, top.id, CancelRequest{Children: true})
	if err != nil || strings.Join(got.Children, " ") != "exec_1 exec_3 exec_4" {
		t.Errorf("cancelled with it: %v, %v", got.Children, err)
	}
	w.wantPhase("exec_4", "cancel-requested")
	w.wantPhase(done.id, "terminal")
	if got, err = w.s.Cancel(ctx, owner, "exec_loop", CancelRequest{Children: true}); err != nil || len(got.Children) != 0 {
		t.Errorf("a run that is its own parent: %v, %v", got.Children, err)
	}
}

// TestCancelInterleaved takes cancel, outcome, settle and the agent's word in
// every order, then crashes between any two batches, and lets everyone try
// again: what the run came to first is what it stays.
func TestCancelInterleaved(t *testing.T) {
	states := 0
	for _, order := range permutations([]string{"cancel", "outcome", "settle", "ack"}) {
		w, _ := newTimed(t)
		a := w.start(StartRequest{ID: "exec_i", Labels: Labels{"thread": "T"}})
		a.mustClaim("c1", "t", "mutating")
		begun := int(w.log.Durable())
		end := ""
		for _, step := range order {
			a.try(step)
			end = w.stays(a, end)
		}
		for n := begun; n <= int(w.log.Durable()); n++ {
			if len(w.frames) != int(w.log.Durable()) {
				w.reopen()
			}
			states++
			w.cut(t, a, n)
			if t.Failed() {
				t.Fatalf("in the order %v, cut behind batch %d", order, n)
			}
		}
		w.close()
	}
	t.Logf("%d states", states)
	if states < 200 {
		t.Error("too few")
	}
}

// try makes one of the requests; it may be refused.
func (a *agent) try(step string) {
	switch step {
	case "cancel":
		_ = a.w.cancel(a.id)
	case "outcome":
		_, _ = a.outcome(1, `{"status":"ok"}`)
	case "settle":
		_, _ = a.settle(Success, "the answer")
	case "ack":
		_, _, _ = a.w.s.AckAbort(ctx, a.c, a.id, AbortAcknowledged)
	}
}

// stays checks that a run that is over is what it was, and returns what it is:
// "" as long as it is not over.
func (w *world) stays(a *agent, was string) string {
	w.t.Helper()
	rec := w.record(a.id)
	now := ""
	if w.info(a.id).Sealed() {
		now = fmt.Sprint(rec.Phase, string(mustJSON(rec.Cancel)), string(mustJSON(rec.Terminal)), rec.Revision, w.logText(a.id))
	}
	if was != "" && now != was {
		w.t.Errorf("it was\n%s\nand is now\n%s", was, now)
	}
	return now
}

// cut opens what the first n batches leave, and lets everyone go on.
func (w *world) cut(t *testing.T, a *agent, n int) {
	c := w.copyFrom(t, n)
	defer c.close()
	c.mustOpen()
	b := &agent{c, a.id, a.c}
	end := c.stays(b, "")
	if rec := c.record(b.id); !c.info(b.id).Sealed() {
		if rec.Phase != "paused-side-effect-uncertain" {
			t.Errorf("then it is %s", rec.Phase)
			return
		}
		b.attachEnded()
	}
	for range 2 {
		for _, step := range []string{"cancel", "settle", "outcome", "ack"} {
			b.try(step)
			end = c.stays(b, end)
		}
	}
	if end == "" {
		t.Error("it does not come to an end")
	}
	c.checkEnd(b.id)
	c.stays(b, end)
}

func permutations(all []string) (out [][]string) {
	if len(all) == 0 {
		return [][]string{nil}
	}
	for i, first := range all {
		rest := append(append([]string(nil), all[:i]...), all[i+1:]...)
		for _, p := range permutations(rest) {
			out = append(out, append([]string{first}, p...))
		}
	}
	return out
}

// TestCancelRaces lets cancel, outcome and settle race: whoever wins, the run
// has one end, and everybody is told the truth about it.
func TestCancelRaces(t *testing.T) {
	w, _ := newTimed(t)
	ends := map[string]int{}
	for i := range 60 {
		a := w.start(StartRequest{ID: fmt.Sprint("exec_", i), Labels: Labels{"thread": "T"}})
		a.mustClaim("c1", "t", "mutating")
		var wg sync.WaitGroup
		var cancelled, settled error
		wg.Go(func() { cancelled = w.cancel(a.id) })
		wg.Go(func() { a.try("outcome") })
		wg.Go(func() { _, settled = a.settle(Success, "the answer") })
		wg.Wait()
		a.try("ack")
		rec := w.record(a.id)
		ends[rec.Phase]++
		if (cancelled == nil) != (rec.Phase == "cancelled") || (settled == nil) != (rec.Phase == "terminal") {
			t.Fatalf("it is %s, cancel answered %v, settle %v", rec.Phase, cancelled, settled)
		}
	}
	t.Logf("%v", ends)
	for i := range 60 {
		if i%20 == 0 {
			w.checkEnd(fmt.Sprint("exec_", i))
		}
	}
}

// TestTombstoneAlone: a crash behind the tombstone leaves a cancellation that
// the next boot carries to its end.
func TestTombstoneAlone(t *testing.T) {
	w, _ := newTimed(t)
	a := w.start(StartRequest{Labels: Labels{"thread": "T"}})
	if err := w.cancel(a.id); err != nil {
		t.Fatal(err)
	}
	w.reopen()
	if rec := w.wantPhase(a.id, "cancelled"); rec.Cancel.Abort != AbortNoListener {
		t.Errorf("the cancel is %s", mustJSON(rec.Cancel))
	}
	w.checkEnd(a.id)
}
