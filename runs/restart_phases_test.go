package runs

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"durafs/wal"
)

// cutSettlement lets a run be settled as far as its first steps: what a crash
// leaves.
func (w *world) cutSettlement(a *agent, steps int) {
	w.t.Helper()
	num := uint32(w.ref(a.id))
	was, err := w.s.current(num)
	if err != nil {
		w.t.Fatal(err)
	}
	pk := newPacket(&SettleRequest{Status: Success, Summary: "cut short"}, was, nil)
	batches := w.s.settlement(&settling{num: num, rec: was}, pk)[:steps]
	err = w.s.do(ctx, wal.Reserved, func(lsn uint64) wal.Decision { return w.s.accept(w.s.view(num), lsn, batches...) })
	if err != nil {
		w.t.Fatal(err)
	}
}

// everyPhase makes runs in every phase that a crash can find, and in some
// twice.
func (w *world) everyPhase() {
	bound := &Binding{Provider: "p", Model: "m", Scope: "mail"}
	lost := func(id string, claims ...string) *agent {
		a := w.start(StartRequest{ID: id, ResumeRequest: []byte("x"), Binding: bound, Labels: Labels{"thread": "T"}})
		for i, safety := range claims {
			a.mustClaim(fmt.Sprint("c", i), "t", safety)
		}
		return a
	}
	interrupted, uncertain := lost("exec_interrupted", "read-only"), lost("exec_uncertain", "read-only", "mutating")
	prepared, again := lost("exec_prepared"), lost("exec_again", "unknown")
	w.reopen()
	for _, a := range []*agent{interrupted, prepared} {
		w.wantPhase(a.id, "paused-interruption")
	}
	w.wantPhase(uncertain.id, "paused-side-effect-uncertain")
	if err := w.s.GrantScope(ctx, owner, "mail", true); err != nil {
		w.t.Fatal(err)
	}
	w.mustPrepare(prepared.id, PrepareRequest{Force: true})
	w.wantPhase(prepared.id, "resume-dispatching")
	w.resume(again.id, PrepareRequest{Binding: bound, Retry: []uint64{1}})

	lost("exec_running").mustAppend(`{"a":1}`)
	w.start(StartRequest{ID: "exec_by_hand", Lease: 0, Labels: Labels{"thread": "T"}})
	for id, reason := range map[string]PauseReason{"exec_permission": ForPermission, "exec_provider": ForProviderChange} {
		if _, _, err := w.s.Pause(ctx, lost(id).c, id, PauseRequest{Reason: reason, Binding: bound}); err != nil {
			w.t.Fatal(err)
		}
	}
	cancelled := lost("exec_cancel", "mutating")
	if _, err := w.s.Cancel(ctx, owner, cancelled.id, CancelRequest{}); err != nil {
		w.t.Fatal(err)
	}
	w.wantPhase(cancelled.id, "cancel-requested")
	over := lost("exec_cancelled")
	if _, err := w.s.Cancel(ctx, owner, over.id, CancelRequest{}); err != nil {
		w.t.Fatal(err)
	}
	if _, _, err := w.s.AckAbort(ctx, over.c, over.id, AbortAcknowledged); err != nil {
		w.t.Fatal(err)
	}
	lost("exec_terminal").mustSettle("answer")
	for steps := 1; steps <= 4; steps++ {
		w.cutSettlement(lost(fmt.Sprint("exec_settling", steps)), steps)
	}
	w.wantPhase("exec_settling2", "settling")
}

// answers is what readers are told: lists, records and offers.
func (w *world) answers() string {
	w.t.Helper()
	page, err := w.s.List(owner, ListQuery{Limit: 1000})
	if err != nil {
		w.t.Fatal(err)
	}
	offers, err := w.resumable()
	if err != nil {
		w.t.Fatal(err)
	}
	messages, err := w.s.Thread(owner, "T", 0, 100)
	if err != nil {
		w.t.Fatal(err)
	}
	return w.picture() + string(mustJSON(page)) + string(mustJSON(offers)) + string(mustJSON(messages)) + string(mustJSON(w.outbox()))
}

// bytesOfLog are all batches that are in the log now.
func (w *world) bytesOfLog() string {
	w.t.Helper()
	w.readFrames()
	var b strings.Builder
	for _, f := range w.frames {
		fmt.Fprintf(&b, "%d %x\n", f.LSN, f.Payload)
	}
	return b.String()
}

// TestRestartsInEveryPhase: 50 restarts of a store that has a run in every phase
// change nothing after the first, neither what is told nor a byte of the log;
// and nothing is running that no agent of this boot holds.
func TestRestartsInEveryPhase(t *testing.T) {
	w, _ := newTimed(t)
	w.sinks = []string{"mail", "gone"}
	w.reopen()
	w.everyPhase()
	w.tell("mail", "")
	w.tell("gone", "it is full")
	w.sinks = []string{"mail"}
	w.reopen()
	want, log, durable := w.answers(), w.bytesOfLog(), w.log.Durable()
	for _, p := range []Phase{Running, Settling, ResumeDispatching, CancelRequested} {
		if nums := w.s.index.inPhase(p); len(nums) > 0 {
			t.Errorf("after a boot there are runs %v in phase %s", nums, p)
		}
	}
	restarts := 50
	if testing.Short() {
		restarts = 10
	}
	for n := range restarts {
		w.reopen()
		if got := w.answers(); got != want {
			t.Fatalf("restart %d changed %s", n, cmp.Diff(want, got))
		}
	}
	if w.bytesOfLog() != log || w.log.Durable() != durable {
		t.Errorf("the restarts wrote to the log, durable up to %d and %d: %s", durable, w.log.Durable(), cmp.Diff(log, w.bytesOfLog()))
	}
}

// TestAdoptionIsOfFormerBoots: what began or was taken back in this boot is
// nobody's to interrupt as long as its lease lives, or for ever where it has
// none; and no longer.
func TestAdoptionIsOfFormerBoots(t *testing.T) {
	w, f := newTimed(t)
	back := w.start(StartRequest{ID: "exec_back", Lease: 10 * time.Second})
	w.reopen()
	back.mustAttach()
	fresh, hand := w.start(StartRequest{ID: "exec_fresh", Lease: 10 * time.Second}), w.start(StartRequest{ID: "exec_hand"})
	running := func(want ...string) {
		t.Helper()
		var got []string
		for _, num := range w.s.index.inPhase(Running) {
			rec, err := w.s.Record(Ref(num))
			if err != nil {
				t.Fatal(err)
			}
			if rec.BootID != w.s.BootID() {
				t.Errorf("%s is running, and of the boot %s", rec.ID, rec.BootID)
			}
			got = append(got, rec.ID)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("running: %s", diff)
		}
	}
	w.pass(f, 9*time.Second)
	running("exec_back", "exec_fresh", "exec_hand")
	if _, err := fresh.beat(); err != nil {
		t.Fatal(err)
	}
	w.pass(f, 5*time.Second)
	running("exec_fresh", "exec_hand")
	w.pass(f, 60*time.Second)
	running("exec_hand")
	hand.mustAppend(`{"a":1}`)
}
