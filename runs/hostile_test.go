package runs

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"durafs/internal/clock"
	"durafs/internal/vfs"
	"durafs/wal"
)

// TestLargestOutcome: whatever its agent has filled a record with, the outcome
// of a call still fits into one batch, and nobody else is hurt if it does not.
func TestLargestOutcome(t *testing.T) {
	w := newWorld(t)
	labels := Labels{"thread": "T"}
	for i := range LabelsMax - 1 {
		labels[fmt.Sprintf("%02d", i)+strings.Repeat("<", NameBytesMax-2)] = strings.Repeat("\x01", LabelBytesMax)
	}
	a := w.start(StartRequest{Labels: labels, Task: strings.Repeat("\x02", PreviewBytesMax)})
	w.claimMany(1)
	images := [][]byte{}
	for i := range 60 {
		images = append(images, jpeg(3000+i, byte(i)))
	}
	outcome := `{"x":"` + strings.Repeat("y", OutcomeBytesMax-8) + `"}`
	for call, from := range []string{textCandidate(strings.Repeat("z", 256<<10-60)), imageCandidate(images...)} {
		got, err := a.project(uint64(call+1), outcome, candidate(from))
		if err != nil || got.Refused != "" {
			t.Fatalf("outcome: %v, %s", err, got.Refused)
		}
	}
	a.mustAppend(`{"x":1}`)
	a.mustSettle("answer")
	w.checkEnd(a.id)
}

// claimMany claims as many calls as can be open, with the longest labels, in one
// batch.
func (w *world) claimMany(num uint32) {
	w.t.Helper()
	was, err := w.s.current(num)
	if err != nil {
		w.t.Fatal(err)
	}
	rec, entries := was, []entry{}
	w.s.mu.RLock()
	known := w.s.view(num).tools
	w.s.mu.RUnlock()
	for i := range OpenCallsMax {
		id := fmt.Sprintf("%03d", i) + strings.Repeat([]string{"<", "\"", "\u2028"}[i%3], []int{252, 252, 84}[i%3])
		cl := newClaim(known, &ClaimRequest{CallID: id, Name: strings.Repeat("t", ToolNameBytesMax)}, UnknownSafety)
		cl.Call, cl.Index = uint64(i+1), uint64(i)
		rec, _ = rec.withClaim(cl, 1, keyOf("k", [32]byte{}))
		entries = append(entries, cl.entry(num), callRow(num, cl, nil))
	}
	rec.revision = was.revision + 1
	b := newBatch(num, append([]entry{rec.entry(num)}, entries...)...)
	err = w.s.do(ctx, wal.Ordinary, func(lsn uint64) wal.Decision { return w.s.accept(w.s.view(num), lsn, b) })
	if err != nil {
		w.t.Fatal(err)
	}
}

// TestTooLargeBatch: what does not fit into the log is refused before anything
// of it counts as accepted.
func TestTooLargeBatch(t *testing.T) {
	w := newWorld(t)
	a := w.start(StartRequest{})
	b := newBatch(1, entry{kind: kindBeat, run: 1, body: make([]byte, wal.BatchBytesMax)}, (&row{text: []byte(`{}`)}).entry(1))
	err := w.s.do(ctx, wal.Ordinary, func(lsn uint64) wal.Decision { return w.s.accept(w.s.view(1), lsn, b) })
	wantCode(t, err, TooLarge)
	if got := a.mustAppend(`{"x":1}`); got.FirstSeq != 2 {
		t.Errorf("the next row has the number %d", got.FirstSeq)
	}
}

// TestRollbackKeepsFormerRows: what an agent wrote in a former life of the
// daemon counts, and what it wrote before its lease ended.
func TestRollbackKeepsFormerRows(t *testing.T) {
	for name, leave := range map[string]func(w *world, a *agent){
		"restart": func(w *world, a *agent) { w.reopen() },
		"pause": func(w *world, a *agent) {
			err := w.s.do(ctx, wal.Reserved, func(lsn uint64) wal.Decision {
				l := w.s.view(1)
				return w.s.accept(l, lsn, w.s.lost(1, l.rec, "lease", "")...)
			})
			if err != nil {
				w.t.Fatal(err)
			}
		},
	} {
		for what, write := range map[string]func(a *agent){
			"row":     func(a *agent) { a.mustAppend(`{"kept":1}`) },
			"payload": func(a *agent) { a.mustPut("p", "x") },
		} {
			t.Run(name+" "+what, func(t *testing.T) {
				w, full := newFull(t)
				a := w.start(StartRequest{ResumeRequest: []byte("x")})
				write(a)
				leave(w, a)
				a.mustAttach()
				a.deny(full)
				wantCode(t, w.s.Rollback(ctx, a.c, a.id), RollbackRefused)
			})
		}
	}
}

// TestRacesWithRollback: a run that is gone in the middle of a request is not
// there, and nothing else happens.
func TestRacesWithRollback(t *testing.T) {
	for name, cause := range map[string]error{"a full disk": new(wal.NoSpaceError), "a full store": refuse(StoreBytes, "full")} {
		t.Run(name, func(t *testing.T) { racesWithRollback(t, cause) })
	}
}

func racesWithRollback(t *testing.T, cause error) {
	w := newWorld(t)
	gone := func() *agent {
		a := w.start(StartRequest{IdempotencyKey: fmt.Sprint(time.Now())})
		if err := w.s.denied(uint32(w.ref(a.id)), cause); err == nil {
			t.Fatal("it was not denied")
		}
		return a
	}
	a := gone()
	after := readerFunc(func([]byte) (int, error) {
		if err := w.s.Rollback(ctx, a.c, a.id); err != nil {
			t.Error(err)
		}
		return 0, io.EOF
	})
	_, err := w.s.Settle(ctx, a.c, a.id, SettleRequest{Status: Success, Payload: after})
	wantCode(t, err, UnknownRun)
	a = gone()
	_, _, err = w.s.Put(ctx, a.c, a.id, "p", SourceNamed, "", after)
	wantCode(t, err, UnknownRun)
	for range 20 {
		a = gone()
		var wg sync.WaitGroup
		for _, ask := range []func() error{
			func() error { return w.s.Rollback(ctx, a.c, a.id) },
			func() error { return w.s.Rollback(ctx, a.c, a.id) },
			func() error { _, err := a.beat(); return err },
			func() error { _, err := a.append(`{}`); return err },
			func() error { _, err := a.claim("c", "t", "read-only"); return err },
			func() error { _, err := a.outcome(1, `{}`); return err },
			func() error { _, err := a.settle(Success, ""); return err },
			func() error { _, _, err := w.s.AckAbort(ctx, a.c, a.id, AbortExited); return err },
			func() error { return w.cancel(a.id) },
		} {
			wg.Go(func() {
				if err := ask(); err != nil && CodeOf(err) == "" {
					t.Errorf("it is answered %v", err)
				}
			})
		}
		wg.Wait()
	}
}

type readerFunc func(p []byte) (int, error)

func (f readerFunc) Read(p []byte) (int, error) { return f(p) }

// TestGoneWaits: that a run is not there is told only when it is so for good.
func TestGoneWaits(t *testing.T) {
	held := newBarrier()
	faulty := vfs.NewFaulty(held)
	w := &world{t: t, fs: faulty, dir: fastDir(t), ledger: new(memLedger)}
	w.mustOpen()
	t.Cleanup(w.close)
	a := w.start(StartRequest{})
	a.deny(faulty)
	held.hold()
	undone := make(chan error)
	go func() { undone <- w.s.Rollback(ctx, a.c, a.id) }()
	<-held.entered
	asks := map[string]func() error{
		"beat":     func() error { _, err := a.beat(); return err },
		"rollback": func() error { return w.s.Rollback(ctx, a.c, a.id) },
		"cancel":   func() error { return w.cancel(a.id) },
		"prepare": func() error {
			_, err := w.s.Prepare(ctx, owner, a.id, PrepareRequest{IfMatch: `"1-1"`})
			return err
		},
	}
	type answer struct {
		what string
		err  error
	}
	answers := make(chan answer, len(asks))
	for what, ask := range asks {
		go func() { answers <- answer{what, ask()} }()
	}
	select {
	case got := <-answers:
		t.Errorf("%s is answered before the barrier: %v", got.what, got.err)
		answers <- got
	case <-time.After(100 * time.Millisecond):
	}
	held.letGo(nil)
	if err := <-undone; err != nil {
		t.Error(err)
	}
	for range asks {
		got := <-answers
		if CodeOf(got.err) != UnknownRun {
			t.Errorf("%s is answered %v", got.what, got.err)
		}
	}
}

// TestRefusedCancel: a cancel that was refused has never been, and nobody is
// told to abort.
func TestRefusedCancel(t *testing.T) {
	f := clock.NewFake(time.Date(2026, 5, 4, 3, 2, 1, 0, time.UTC))
	faulty := vfs.NewFaulty(vfs.OS)
	w := &world{t: t, fs: faulty, dir: fastDir(t), ledger: new(memLedger), clock: f}
	w.mustOpen()
	t.Cleanup(w.close)
	a := w.start(StartRequest{})
	x := w.watch(a.c, WatchQuery{Run: a.id})
	w.told(x)
	faulty.Inject(vfs.Fault{Ops: vfs.OpWrite, Nth: 1, Err: syscall.ENOSPC, Match: isGroup})
	if err := w.cancel(a.id); err == nil {
		t.Fatal("a cancel found room on a full disk")
	}
	w.pass(f, 30*time.Second)
	if events := w.told(x); len(events) > 0 {
		t.Errorf("the agent is told %s", mustJSON(events))
	}
	a.mustAppend(`{"x":1}`)
	w.wantPhase(a.id, "running")
	if err := w.cancel(a.id); err != nil {
		t.Fatal(err)
	}
	w.pass(f, 30*time.Second)
	w.wantPhase(a.id, "cancelled")
}

// TestRefusedPrepare: a prepare that was refused leaves the agent its time.
func TestRefusedPrepare(t *testing.T) {
	w, full := newFull(t)
	a := w.start(StartRequest{})
	w.reopen()
	full.Inject(vfs.Fault{Ops: vfs.OpWrite, Nth: 1, Err: syscall.ENOSPC, Match: isGroup})
	if _, err := w.prepare(a.id, PrepareRequest{Force: true}); err == nil {
		t.Fatal("a prepare found room on a full disk")
	}
	_, err := w.prepare(a.id, PrepareRequest{})
	wantCode(t, err, AttachWindow)
	a.mustAttach()
}

// TestRefusedReset: a store that was not to be emptied, since a write before that
// found no room, takes writes on.
func TestRefusedReset(t *testing.T) {
	for range 50 { // until the end comes into the group of the write before it
		if refusedReset(t) {
			return
		}
	}
	t.Error("the write before the end was each time refused before that came")
}

func refusedReset(t *testing.T) (met bool) {
	w, full := newFull(t)
	a := w.start(StartRequest{})
	full.Inject(vfs.Fault{Ops: vfs.OpWrite, Nth: 1, Err: syscall.ENOSPC, Match: isGroup})
	num := uint32(w.ref(a.id))
	before := w.s.decide(wal.Lazy, func(lsn uint64) wal.Decision { // it waits for company
		return w.s.accept(w.s.view(num), lsn, newBatch(num, ownRow(num, "type", "test")))
	})
	_, refused := w.s.EndForReset(ctx, owner, true)
	if err := before.Wait(ctx); err == nil {
		t.Fatal("on a full disk a write found room")
	}
	if refused == nil {
		return false
	}
	a.mustAppend(`{"x":1}`)
	if _, err := w.s.EndForReset(ctx, owner, true); err != nil {
		t.Fatal(err)
	}
	_, err := a.append(`{"x":1}`)
	if !errors.Is(err, wal.ErrClosed) {
		t.Errorf("after the end a row is answered %v", err)
	}
	return true
}

// TestRefusedStarts: a start that was refused costs no number, and so no memory.
func TestRefusedStarts(t *testing.T) {
	w := newWorld(t)
	w.start(StartRequest{Lock: "L"})
	for range 100 {
		_, err := w.s.Start(ctx, Caller{}, StartRequest{Target: "agent:none"})
		wantCode(t, err, TargetNotEnrolled)
		_, err = w.s.Start(ctx, Caller{}, StartRequest{Lock: "L"})
		wantCode(t, err, LockHeld)
	}
	if ref := w.ref(w.start(StartRequest{}).id); ref != 2 {
		t.Errorf("the second run has the number %d", ref)
	}
}

// TestSettingsAtLimit: where no more fit, those that are there can be changed.
func TestSettingsAtLimit(t *testing.T) {
	w := newWorld(t)
	w.s.mu.Lock()
	x := &settings{scopes: map[string]Grant{}, targets: map[string]Target{}, classes: map[string]Safety{}}
	for i := range 10_000 {
		name := fmt.Sprint("agent:", i)
		x.scopes[name], x.targets[name], x.classes[fmt.Sprint(i)] = Grant{Scope: name}, Target{name, 1, true, uint32(i + 1)}, Mutating
	}
	w.s.acc.settings, w.s.index.settings = x, x
	w.s.mu.Unlock()
	if got, err := w.s.Enrol(ctx, owner, "agent:7", false); err != nil || got.Enrolled {
		t.Errorf("disenrol: %v", err)
	}
	if _, err := w.s.Enrol(ctx, owner, "agent:7", true); err != nil {
		t.Errorf("enrol again: %v", err)
	}
	_, err := w.s.Enrol(ctx, owner, "agent:new", true)
	wantCode(t, err, TooLarge)
	if err := w.s.SetToolClass(ctx, owner, "7", Idempotent); err != nil {
		t.Errorf("change a class: %v", err)
	}
	wantCode(t, w.s.SetToolClass(ctx, owner, "new", Mutating), TooLarge)
	if err := w.s.SetToolClass(ctx, owner, "7", ""); err != nil {
		t.Errorf("take a class back: %v", err)
	}
}

// TestReadsAreHeardOf: an agent that reads its run is there.
func TestReadsAreHeardOf(t *testing.T) {
	w, f := newTimed(t)
	for name, read := range map[string]func(a *agent) error{
		"record": func(a *agent) error { _, _, err := w.s.Get(a.c, a.id); return err },
		"log":    func(a *agent) error { _, err := w.s.Look(a.c, a.id); return err },
		"request": func(a *agent) error {
			_, err := w.s.OpenResumeRequest(a.c, a.id)
			return err
		},
	} {
		a := w.start(StartRequest{Lease: 10 * time.Second, ResumeRequest: []byte("x")})
		for range 3 {
			w.pass(f, 8*time.Second)
			if err := read(a); err != nil {
				t.Fatal(err)
			}
		}
		if rec := w.record(a.id); rec.Phase != "running" {
			t.Errorf("who reads the %s is %s", name, rec.Phase)
		}
	}
}

// TestFailNamesItsDispatch: a dispatch is given up by whom it was given to, and
// not by those before.
func TestFailNamesItsDispatch(t *testing.T) {
	w := newWorld(t)
	a := w.start(StartRequest{})
	w.reopen()
	old := w.mustPrepare(a.id, PrepareRequest{Force: true})
	if _, _, err := w.s.FailDispatch(ctx, owner, a.id, FailRequest{}); err != nil {
		t.Fatal(err)
	}
	w.mustPrepare(a.id, PrepareRequest{Force: true})
	_, _, err := w.s.FailDispatch(ctx, Caller{Resume: old.Token}, a.id, FailRequest{})
	wantCode(t, err, StaleWriter)
	err = w.s.failDispatch(ctx, 1, "late", func(l *live) error { return w.s.resumeFence(l, Caller{Resume: old.Token}, old.Epoch, evFail) })
	wantCode(t, err, StaleWriter)
	w.wantPhase(a.id, "resume-dispatching")
}

// TestLockIsWaitedFor: a start that says that it waits is not refused because
// another one was faster.
func TestLockIsWaitedFor(t *testing.T) {
	w := newWorld(t)
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 50 {
				st, err := w.s.Start(ctx, Caller{UID: 7}, StartRequest{Lock: "L", LockWait: time.Minute})
				if err != nil {
					t.Errorf("start: %v", err)
					return
				}
				_, err = w.s.Settle(ctx, Caller{UID: 7, Writer: st.Writer}, st.Record.ID, SettleRequest{Status: Success})
				if err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
}

// TestKeyOfSomebodyElse: an Idempotency-Key tells nobody of the run of another
// user.
func TestKeyOfSomebodyElse(t *testing.T) {
	w := newWorld(t)
	a := w.start(StartRequest{IdempotencyKey: "k", Task: "private"})
	for _, body := range [][32]byte{{}, {1}} {
		st, err := w.s.Start(ctx, Caller{UID: 8}, StartRequest{IdempotencyKey: "k", BodyHash: body})
		if r := wantCode(t, err, IdempotencyMismatch); st.Record != nil || strings.Contains(r.Error()+r.Holder, a.id) {
			t.Errorf("another user is told %s, %v", mustJSON(st), err)
		}
	}
	a.mustAppend(`{"x":1}`) // and has not fenced the agent
	if st, err := w.s.Start(ctx, owner, StartRequest{IdempotencyKey: "k"}); err != nil || !st.Replayed || st.Writer != "" {
		t.Errorf("an owner is told %v", err)
	}
}

// TestLockThroughSomebodyElse: to name the holder of a lock as parent does not
// let another user's run in.
func TestLockThroughSomebodyElse(t *testing.T) {
	w := newWorld(t)
	a := w.start(StartRequest{Lock: "L"})
	child := StartRequest{Lock: "L", Parent: a.id}
	_, err := w.s.Start(ctx, Caller{UID: 8}, child)
	wantCode(t, err, LockHeld)
	for _, c := range []Caller{{UID: 7}, owner} {
		if _, err := w.s.Start(ctx, c, child); err != nil {
			t.Errorf("who may list the holder: %v", err)
		}
	}
}

// TestJournalAfterRollback: what a journal was before is told right after a row
// of it was taken out, too.
func TestJournalAfterRollback(t *testing.T) {
	w, full := newFull(t)
	w.start(StartRequest{})
	a := w.start(StartRequest{})
	a.deny(full)
	if err := w.s.Rollback(ctx, a.c, a.id); err != nil {
		t.Fatal(err)
	}
	w.s.mu.RLock()
	accepted, published := w.s.journalVersion("master"), w.s.index.journals["master"].version
	w.s.mu.RUnlock()
	if accepted != published {
		t.Errorf("the journal's last change has the LSN %d, and %d counts as accepted", published, accepted)
	}
}

// TestClockGoesBack: the time of a run's last change, which is that of its
// directory in the mount, never does.
func TestClockGoesBack(t *testing.T) {
	w, f := newTimed(t)
	a := w.start(StartRequest{})
	before := w.info(a.id).ChangedAt
	f.JumpWall(-time.Hour)
	a.mustAppend(`{"x":1}`)
	if got := w.info(a.id).ChangedAt; got.Before(before) {
		t.Errorf("it goes back from %s to %s", before, got)
	}
}
