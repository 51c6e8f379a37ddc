package runs

import (
	"fmt"
	"testing"
	"time"
)

// TestOneBadRunKeepsNobodyWaiting: a run that cannot be dealt with when its time
// is over is passed over, and all others are dealt with at the same tick.
func TestOneBadRunKeepsNobodyWaiting(t *testing.T) {
	const n, bad = 16, 8
	for what, c := range map[string]struct {
		begin func(w *world, id string)
		after time.Duration // it is due at the tick behind it
		phase Phase
	}{
		"a lease ends": {
			func(w *world, id string) { w.start(StartRequest{ID: id, Lease: 10 * time.Second}) },
			10 * time.Second, PausedInterruption,
		},
		"a dispatch ends": {
			func(w *world, id string) {
				w.start(StartRequest{ID: id, Lease: 10 * time.Second})
				if id == fmt.Sprint("exec_", n-1) {
					w.reopen()
					for i := range n {
						w.mustPrepare(fmt.Sprint("exec_", i), PrepareRequest{Force: true})
					}
				}
			},
			DispatchTimeout, PausedInterruption,
		},
		"an agent does not answer": {
			func(w *world, id string) {
				w.start(StartRequest{ID: id})
				if err := w.cancel(id); err != nil {
					t.Fatal(err)
				}
			},
			AbortAttempts*AbortTimeout - time.Second, Cancelled,
		},
	} {
		t.Run(what, func(t *testing.T) {
			w, f := newTimed(t)
			for i := range n {
				c.begin(w, fmt.Sprint("exec_", i))
			}
			w.pass(f, c.after)
			w.hideRecord(fmt.Sprint("exec_", bad))
			w.pass(f, time.Second)
			for i := range n {
				if run := w.info(fmt.Sprint("exec_", i)); (run.Phase == c.phase) == (i == bad) {
					t.Errorf("%s is %s", run.ID, run.Phase)
				}
			}
		})
	}
}

// hideRecord lets the index say that a run's record is where none is.
func (w *world) hideRecord(id string) {
	w.s.mu.Lock()
	defer w.s.mu.Unlock()
	num := w.s.find(id)
	c, i := w.s.index.at(num)
	c.record[i].entry = 1000
	if l := w.s.acc.runs[num]; l != nil {
		l.rec, l.pub = nil, nil
	}
}
