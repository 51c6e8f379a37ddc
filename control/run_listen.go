package control

import "time"

// listenAgain is how long a handle whose stream of events has ended waits before
// it opens another; its beats go on meanwhile.
const listenAgain = 5 * time.Second

// listen watches the run until its owner cancels it, or the handle is closed.
func (r *Run) listen() {
	for r.live.Err() == nil {
		if r.listenOnce() {
			return
		}
		t := time.NewTimer(listenAgain)
		select {
		case <-t.C:
		case <-r.live.Done():
			t.Stop()
		}
	}
}

// listenOnce reads one stream. It is over when there is nothing more to listen
// for: the run was cancelled, or is not this handle's any more.
func (r *Run) listenOnce() (over bool) {
	w, err := r.c.Watch(r.live, WatchQuery{Run: r.id})
	if err != nil {
		return !isAway(err)
	}
	defer w.Close()
	for {
		ev, err := w.Next()
		if err != nil {
			return !isAway(err)
		}
		if ev.Kind == EventAbort {
			r.abort()
			return true
		}
	}
}
