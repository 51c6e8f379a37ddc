package runs

import (
	"context"
	"slices"
	"time"
)

// LockWaitMax bounds how long a start waits for its lock.
const LockWaitMax = 10 * time.Minute

// lockWaitersMax bounds the starts that wait for one lock.
const lockWaitersMax = 1000

// locks are the names that active runs hold; Store.mu guards them. They are in
// memory only: a run holds its lock from its admission, activation or attach
// until it leaves the active set, and a paused one holds none.
type locks map[string]*lock

type lock struct {
	holders map[uint32]struct{} // one, and descendants of it
	queue   []*lockWaiter       // first come, first served
}

type lockWaiter struct{ wake chan struct{} }

func (x locks) of(name string) *lock {
	l := x[name]
	if l == nil {
		l = &lock{holders: map[uint32]struct{}{}}
		x[name] = l
	}
	return l
}

// took notes that a run is active, or not any more.
func (x locks) took(name string, num uint32, active bool) {
	if name == "" {
		return
	}
	l := x.of(name)
	if active {
		l.holders[num] = struct{}{}
		return
	}
	delete(l.holders, num)
	x.next(name)
}

// next wakes who is first, where the lock is free.
func (x locks) next(name string) {
	l := x.of(name)
	switch {
	case len(l.holders) > 0:
	case len(l.queue) > 0:
		select {
		case l.queue[0].wake <- struct{}{}:
		default: // it is awake
		}
	default:
		delete(x, name)
	}
}

// enters reports whether a run may hold the lock now: nobody does, and nobody
// waits before it; or an ancestor does. If not, it names a holder. mu is held.
func (s *Store) enters(name, parent string, me *lockWaiter) (holder uint32, ok bool) {
	l := s.locks[name]
	if name == "" || l == nil {
		return 0, true
	}
	for num := range l.holders {
		holder = num
		if s.descends(parent, num) {
			return 0, true
		}
	}
	first := len(l.queue) == 0 || me != nil && l.queue[0] == me
	return holder, len(l.holders) == 0 && first
}

// ancestorsMax bounds how far up a run's ancestors are looked for.
const ancestorsMax = 64

// descends reports whether the run whose parent is named is a descendant of
// num. Anybody may name a run as the parent of his own: that the first of them
// may be named was checked when the run was started, and above it each must be of
// the user of the one below.
func (s *Store) descends(parent string, num uint32) bool {
	var below *live
	for range ancestorsMax {
		up := s.find(parent)
		l := s.view(up)
		if parent == "" || l.gone() || below != nil && l.uid != below.uid {
			return false
		}
		if up == num {
			return true
		}
		below, parent = l, textID(s.index.parentOf(up))
	}
	return false
}

// parentOf is parent for a run that may not be published yet.
func (x *index) parentOf(num uint32) []byte {
	if x.phase(num) == PhaseNone {
		return []byte{textNoID}
	}
	return x.parent(num)
}

// lockHeld is the refusal of who may not enter; mu is held.
func (s *Store) lockHeld(name string, holder uint32) *Refusal {
	r := refuse(LockHeld, "the lock %s is held, or others wait for it", quote(name))
	r.Field = "lock"
	if l := s.view(holder); !l.gone() && l.rec != nil {
		r.Holder = l.rec.ID
	}
	return r
}

// waitLock waits until a start may enter its lock, at most for wait. leave is
// to be called when the start was accepted, or refused.
func (s *Store) waitLock(ctx context.Context, name, parent string, wait time.Duration) (me *lockWaiter, leave func(), err error) {
	none := func() {}
	s.mu.Lock()
	holder, ok := s.enters(name, parent, nil)
	if ok {
		s.mu.Unlock()
		return nil, none, nil
	}
	if wait <= 0 || len(s.locks.of(name).queue) >= lockWaitersMax {
		defer s.mu.Unlock()
		return nil, none, s.lockHeld(name, holder)
	}
	me = &lockWaiter{make(chan struct{}, 1)}
	s.locks.of(name).queue = append(s.locks.of(name).queue, me)
	s.mu.Unlock()
	leave = func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		l := s.locks.of(name)
		l.queue = slices.DeleteFunc(l.queue, func(w *lockWaiter) bool { return w == me })
		s.locks.next(name)
	}
	timeout := time.NewTimer(wait)
	defer timeout.Stop()
	select {
	case <-me.wake:
		return me, leave, nil
	case <-timeout.C:
		leave()
		s.mu.Lock()
		defer s.mu.Unlock()
		return nil, none, s.lockHeld(name, holder)
	case <-ctx.Done():
		leave()
		return nil, none, ctx.Err()
	}
}
