package runs

import "sync"

// waiting holds the channels of those who wait for a run to change.
type waiting struct {
	mu    sync.Mutex
	chans map[Ref]chan struct{}
}

// waitingMax bounds the channels: beyond it all are closed, which wakes their
// holders early and harms nobody, since a waiter reads and takes a new one.
const waitingMax = 1 << 16

// Changed returns a channel that is closed at the run's next published change,
// and perhaps sooner. Take the channel first, then read: nothing is missed.
func (s *Store) Changed(ref Ref) <-chan struct{} {
	w := &s.waiting
	w.mu.Lock()
	defer w.mu.Unlock()
	if c, ok := w.chans[ref]; ok {
		return c
	}
	if len(w.chans) >= waitingMax {
		for r, c := range w.chans {
			close(c)
			delete(w.chans, r)
		}
	}
	if w.chans == nil {
		w.chans = map[Ref]chan struct{}{}
	}
	c := make(chan struct{})
	w.chans[ref] = c
	return c
}

// Listen registers fn, which is called by the log's committer after
// each barrier, with what it made visible. fn must not block. It is set once,
// before Boot.
func (s *Store) Listen(fn func([]Change)) { s.listen = fn }

// tell wakes those who wait for what has changed, and tells the listener.
func (s *Store) tell(changes []Change) {
	w := &s.waiting
	w.mu.Lock()
	for _, c := range changes {
		if ch, ok := w.chans[c.Ref]; ok {
			close(ch)
			delete(w.chans, c.Ref)
		}
	}
	w.mu.Unlock()
	if s.listen != nil && len(changes) > 0 {
		s.listen(changes)
	}
}
