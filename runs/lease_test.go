package runs

import (
	"syscall"
	"testing"
	"time"

	"durafs/internal/clock"
	"durafs/internal/vfs"
)

// newTimed is a store whose time the test moves.
func newTimed(t testing.TB) (*world, *clock.Fake) {
	f := clock.NewFake(time.Date(2026, 5, 4, 3, 2, 1, 0, time.UTC))
	w := &world{t: t, fs: vfs.OS, dir: fastDir(t), ledger: new(memLedger), clock: f}
	w.mustOpen()
	t.Cleanup(w.close)
	return w, f
}

// pass lets time pass, with a tick every second as the daemon makes them.
func (w *world) pass(f *clock.Fake, d time.Duration) {
	for ; d > 0; d -= time.Second {
		f.Advance(min(d, time.Second))
		w.s.Tick(ctx)
	}
}

func (a *agent) beat() (*Record, error) { return a.w.s.Beat(ctx, a.c, a.id, "") }

func (w *world) wantPhase(id, phase string) *Record {
	w.t.Helper()
	rec := w.record(id)
	if rec.Phase != phase {
		w.t.Fatalf("the run is %s, want %s: %s", rec.Phase, phase, mustJSON(rec))
	}
	return rec
}

// TestLease: a run lives as long as its agent is heard of within the lease; the
// wall clock has no say in it.
func TestLease(t *testing.T) {
	w, f := newTimed(t)
	a := w.start(StartRequest{Lease: 10 * time.Second})
	byHand := w.start(StartRequest{Lease: 0})
	lost := w.start(StartRequest{Lease: 10 * time.Second})
	for range 12 {
		w.pass(f, 5*time.Second)
		if _, err := a.beat(); err != nil {
			t.Fatal(err)
		}
		f.JumpWall(8 * time.Hour)
		f.JumpWall(-9 * time.Hour)
	}
	w.wantPhase(a.id, "running")
	w.wantPhase(byHand.id, "running")
	rec := w.wantPhase(lost.id, "paused-interruption")
	if rec.Pause.Reason != "lease" || rec.Epoch != 1 {
		t.Errorf("the record is %s", mustJSON(rec))
	}
	if got := w.ownTypes(lost.id); got != "accepted paused" {
		t.Errorf("its log tells: %s", got)
	}
	for _, ask := range []func() error{
		func() error { _, err := lost.beat(); return err },
		func() error { _, err := lost.append(`{}`); return err },
		func() error { _, err := lost.settle(Success, ""); return err },
	} {
		wantCode(t, ask(), AttachRequired)
	}
	lost.mustAttach()
	w.pass(f, 9*time.Second)
	w.wantPhase(lost.id, "running")
	w.pass(f, 3*time.Second)
	w.wantPhase(lost.id, "paused-interruption")
}

// TestHeardOf: every request with the run's token counts, however it is
// answered; one with a former token does not.
func TestHeardOf(t *testing.T) {
	w, f := newTimed(t)
	a := w.start(StartRequest{Lease: 10 * time.Second, IdempotencyKey: "k"})
	stale := *a
	a = w.start(StartRequest{Lease: 10 * time.Second, IdempotencyKey: "k"})
	for range 5 {
		w.pass(f, 8*time.Second)
		_, err := a.append(`not JSON`)
		wantCode(t, err, RowInvalid)
	}
	w.wantPhase(a.id, "running")
	for range 2 {
		w.pass(f, 6*time.Second)
		_, err := stale.append(`{}`)
		wantCode(t, err, StaleWriter)
	}
	w.wantPhase(a.id, "paused-interruption")
}

// TestDaemonWasStopped: what the daemon slept through was not the agents'
// silence. After a SIGSTOP, or with the machine, every run has a whole lease.
func TestDaemonWasStopped(t *testing.T) {
	for name, sleep := range map[string]func(f *clock.Fake){
		"with the machine":      func(f *clock.Fake) { f.Advance(8 * time.Hour) },
		"alone":                 func(f *clock.Fake) { f.Advance(time.Minute) },
		"and the clock set":     func(f *clock.Fake) { f.AdvanceBoot(8 * time.Hour); f.JumpWall(-time.Hour) },
		"and the clock forward": func(f *clock.Fake) { f.Advance(time.Hour); f.JumpWall(8 * time.Hour) },
	} {
		t.Run(name, func(t *testing.T) {
			w, f := newTimed(t)
			a := w.start(StartRequest{Lease: 10 * time.Second})
			w.pass(f, 8*time.Second)
			sleep(f)
			w.s.Tick(ctx)
			w.wantPhase(a.id, "running")
			w.pass(f, 9*time.Second)
			w.wantPhase(a.id, "running")
			w.pass(f, 3*time.Second)
			w.wantPhase(a.id, "paused-interruption")
		})
	}
}

// TestSlowStore: a store that keeps agents waiting does not count their
// silence, until a lease after it has recovered.
func TestSlowStore(t *testing.T) {
	w, f := newTimed(t)
	a := w.start(StartRequest{Lease: 10 * time.Second})
	w.pass(f, 9*time.Second)
	w.s.NoteBarrier(time.Second + 1)
	w.pass(f, 9*time.Second)
	w.wantPhase(a.id, "running")
	w.s.NoteBarrier(time.Second)
	w.pass(f, 3*time.Second)
	w.wantPhase(a.id, "paused-interruption")
}

// TestFullDisk: neither does one whose disk is full.
func TestFullDisk(t *testing.T) {
	w, f := newTimed(t)
	w.close()
	faulty := vfs.NewFaulty(vfs.OS)
	w.fs = faulty
	w.mustOpen()
	a := w.start(StartRequest{Lease: 10 * time.Second})
	w.pass(f, 9*time.Second)
	faulty.Inject(vfs.Fault{Ops: vfs.OpWrite, Nth: 1, Err: syscall.ENOSPC, Match: isGroup})
	if _, err := a.append(`{}`); err == nil {
		t.Fatal("a full disk took a row")
	}
	w.pass(f, 9*time.Second)
	w.wantPhase(a.id, "running")
	w.pass(f, 3*time.Second)
	w.wantPhase(a.id, "paused-interruption")
}

// TestQueuedIsHeard: a run that has something on its way to the disk is not
// lost, however long that takes.
func TestQueuedIsHeard(t *testing.T) {
	w, f := newTimed(t)
	w.close()
	b := newBarrier()
	w.fs = b
	w.mustOpen()
	a := w.start(StartRequest{Lease: 10 * time.Second})
	b.hold()
	done := make(chan error, 1)
	go func() { _, err := a.append(`{}`); done <- err }()
	<-b.entered
	w.pass(f, 30*time.Second)
	b.letGo(nil)
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	w.wantPhase(a.id, "running")
	w.s.Tick(ctx)
	w.wantPhase(a.id, "paused-interruption")
}

// TestLeaseByClass: the end of a lease decides as a restart does.
func TestLeaseByClass(t *testing.T) {
	w, f := newTimed(t)
	a := w.start(StartRequest{Lease: 10 * time.Second})
	b := w.start(StartRequest{Lease: 10 * time.Second})
	a.mustClaim("c", "t", "idempotent")
	b.mustClaim("c", "t", "mutating")
	b.mustOutcome(1, `{}`)
	w.pass(f, 12*time.Second)
	w.wantPhase(a.id, "paused-interruption")
	w.wantPhase(b.id, "paused-side-effect-uncertain")
}
