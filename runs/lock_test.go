package runs

import (
	"fmt"
	"testing"
	"time"
)

// TestLock: a lock is held as long as its run is active, and no longer; who is
// refused is told by whom it is held; descendants enter it.
func TestLock(t *testing.T) {
	w, f := newTimed(t)
	start := func(id, parent string) error {
		_, err := w.s.Start(ctx, Caller{UID: 7}, StartRequest{ID: id, Parent: parent, Lock: "L", Lease: 10 * time.Second})
		return err
	}
	a := w.start(StartRequest{ID: "exec_a", Lock: "L", IdempotencyKey: "k", Lease: 10 * time.Second})
	if r := wantCode(t, start("exec_b", ""), LockHeld); r.Holder != "exec_a" {
		t.Errorf("held by %q", r.Holder)
	}
	again, err := w.s.Start(ctx, Caller{UID: 7}, StartRequest{ID: "exec_a", Lock: "L", IdempotencyKey: "k", Lease: 10 * time.Second})
	if err != nil || !again.Replayed {
		t.Errorf("a known key waits for the lock: %v", err)
	}
	a.c.Writer = again.Writer
	w.start(StartRequest{ID: "exec_child", Parent: "exec_a"})
	if err := start("exec_grandchild", "exec_child"); err != nil {
		t.Errorf("a descendant: %v", err)
	}
	wantCode(t, start("exec_stranger", "exec_none"), LockHeld)
	w.pass(f, 12*time.Second) // both are lost, and paused runs hold nothing
	w.wantPhase("exec_a", "paused-interruption")
	if err := start("exec_c", ""); err != nil {
		t.Fatalf("the lock of a paused run: %v", err)
	}
	_, err = w.s.Attach(ctx, a.c, a.id, AttachRequest{})
	wantCode(t, err, LockHeld)
	p := w.mustPrepare("exec_a", PrepareRequest{Force: true})
	_, err = w.s.Activate(ctx, Caller{Resume: p.Token}, a.id, ActivateRequest{})
	wantCode(t, err, LockHeld)
	w.wantPhase("exec_a", "resume-dispatching")
	if err := w.cancel("exec_c"); err != nil {
		t.Fatal(err)
	}
	wantCode(t, start("exec_d", ""), LockHeld) // its agent still has it
	w.pass(f, 12*time.Second)
	w.wantPhase("exec_c", "cancelled")
	if _, err := w.s.Activate(ctx, Caller{Resume: p.Token}, a.id, ActivateRequest{}); err != nil {
		t.Errorf("the lock is free: %v", err)
	}
	wantCode(t, start("exec_d", ""), LockHeld)
	w.reopen() // nothing is active then
	if err := start("exec_d", ""); err != nil {
		t.Errorf("after a restart: %v", err)
	}
}

// TestLockWait: who waits gets the lock in the order of coming, or is refused
// when its time is over.
func TestLockWait(t *testing.T) {
	w, _ := newTimed(t)
	holder := w.start(StartRequest{ID: "exec_0", Lock: "L"})
	const n = 5
	var order []string
	done := make(chan struct{})
	got := make(chan string)
	for i := 1; i <= n; i++ {
		id := fmt.Sprint("exec_", i)
		go func() {
			st, err := w.s.Start(ctx, Caller{UID: 7}, StartRequest{ID: id, Lock: "L", LockWait: time.Minute})
			if err != nil {
				t.Error(err)
			}
			got <- st.Record.ID
			a := &agent{w, id, Caller{UID: 7, Writer: st.Writer}}
			a.mustSettle("")
			done <- struct{}{}
		}()
		for w.waiters("L") < i {
			yield()
		}
	}
	_, err := w.s.Start(ctx, Caller{UID: 7}, StartRequest{ID: "exec_x", Lock: "L", LockWait: time.Millisecond})
	wantCode(t, err, LockHeld)
	holder.mustSettle("")
	for range n {
		order = append(order, <-got)
		<-done
	}
	if fmt.Sprint(order) != "[exec_1 exec_2 exec_3 exec_4 exec_5]" {
		t.Errorf("the order is %v", order)
	}
	if n := len(w.s.locks); n != 0 {
		t.Errorf("%d locks are left", n)
	}
}

func (w *world) waiters(name string) int {
	w.s.mu.Lock()
	defer w.s.mu.Unlock()
	if l := w.s.locks[name]; l != nil {
		return len(l.queue)
	}
	return 0
}

// TestLockThroughForeignParents: naming another user's run as parent opens its
// lock to nobody: not at a start, not when a run that had the lock for itself
// comes back to it, and not further up.
func TestLockThroughForeignParents(t *testing.T) {
	w, f := newTimed(t)
	start := func(uid uint32, r StartRequest) (*agent, error) {
		r.Lease = 10 * time.Second
		st, err := w.s.Start(ctx, Caller{UID: uid}, r)
		if err != nil {
			return nil, err
		}
		return &agent{w, r.ID, Caller{UID: uid, Writer: st.Writer}}, nil
	}
	must := func(a *agent, err error) *agent {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return a
	}
	holder := must(start(7, StartRequest{ID: "exec_holder"}))
	thief := must(start(8, StartRequest{ID: "exec_thief", Parent: "exec_holder", Lock: "L"})) // nobody has it yet
	again := must(start(8, StartRequest{ID: "exec_again", Parent: "exec_thief"}))
	friend := must(start(7, StartRequest{ID: "exec_friend", Parent: "exec_holder", Lock: "M"}))
	w.pass(f, 12*time.Second) // all are lost, and hold nothing
	p := w.mustPrepare("exec_holder", PrepareRequest{Force: true})
	_, err := w.s.Activate(ctx, Caller{Resume: p.Token}, holder.id, ActivateRequest{})
	if err != nil {
		t.Fatal(err)
	}
	for _, l := range []string{"L", "M"} {
		must(start(7, StartRequest{ID: "exec_" + l, Lock: l, Parent: "exec_holder"}))
	}
	w.s.mu.Lock()
	for _, l := range []string{"L", "M"} { // as if the holder had named them
		delete(w.s.locks[l].holders, w.s.find("exec_"+l))
		w.s.locks[l].holders[w.s.find("exec_holder")] = struct{}{}
	}
	w.s.mu.Unlock()

	_, err = w.s.Attach(ctx, thief.c, thief.id, AttachRequest{})
	if r := wantCode(t, err, LockHeld); r.Holder != "exec_holder" {
		t.Errorf("held by %s", r.Holder)
	}
	p = w.mustPrepare(thief.id, PrepareRequest{Force: true})
	_, err = w.s.Activate(ctx, Caller{Resume: p.Token}, thief.id, ActivateRequest{})
	wantCode(t, err, LockHeld)
	_, err = start(8, StartRequest{ID: "exec_far", Parent: again.id, Lock: "L"})
	wantCode(t, err, LockHeld) // through a run of one's own that names a foreign one
	if _, err = w.s.Attach(ctx, friend.c, friend.id, AttachRequest{}); err != nil {
		t.Errorf("a descendant of the same user: %v", err)
	}
}
