package crash

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"durafs/runs"
	"durafs/store"
)

// Sinks tells two sinks of the ends of runs: some take it, one fails, one is
// given up. Whatever a crash leaves, what was acknowledged is told no more, and
// all else that is over is.
func Sinks() *Driver {
	return &Driver{
		Name: "sinks", Doc: "ends of runs that are told, fail, are told again and are dropped",
		Live: sinksLive, Judge: sinksJudge, Ballasts: storeBallasts,
	}
}

var sinksNames = []string{"mail", "page"}

// The promises of this driver. Text is the run's id, or the delivery's; a
// promise whose What ends in "?" was tried.
const (
	sinksSettle = "settle"
	sinksTold   = "told" // the sink has heard of it
	sinksTaken  = "taken"
	sinksFailed = "failed" // N: how often
	sinksDrop   = "drop"
)

type sinksFacts struct {
	did, tried map[[2]string]bool
	failed     map[string]uint64
	runs       []string // that were started
}

func sinksFactsOf(promises []Promise) *sinksFacts {
	f := &sinksFacts{did: map[[2]string]bool{}, tried: map[[2]string]bool{}, failed: map[string]uint64{}}
	for _, p := range promises {
		what := p.What
		if what[len(what)-1] == '?' {
			f.tried[[2]string{what[:len(what)-1], p.Text}] = true
			if what == sinksSettle+"?" {
				f.runs = append(f.runs, p.Text)
			}
			continue
		}
		f.did[[2]string{what, p.Text}] = true
		if what == sinksFailed {
			f.failed[p.Text] = max(f.failed[p.Text], p.N)
		}
	}
	return f
}

func (f *sinksFacts) judge(s *runs.Store) error {
	page, err := s.Outbox(lifeOwner, "", runs.OutboxPageMax)
	if err != nil {
		return err
	}
	waits := map[string]map[string]runs.DeliveryInfo{} // by run and delivery
	for _, d := range page.Deliveries {
		if waits[d.Run] == nil {
			waits[d.Run] = map[string]runs.DeliveryInfo{}
		}
		waits[d.Run][d.ID] = d
		if d.State != runs.DeliveryWaiting || !d.Configured || uint64(d.Attempts) < f.failed[d.ID] {
			return fmt.Errorf("delivery %s is %s after %d failures, %d of them acknowledged", d.ID, d.State, d.Attempts, f.failed[d.ID])
		}
		if f.did[[2]string{sinksTaken, d.ID}] || f.did[[2]string{sinksDrop, d.ID}] {
			return fmt.Errorf("delivery %s was acknowledged, and is there", d.ID)
		}
	}
	for _, id := range f.runs {
		ref, ok := s.Lookup(id)
		info, _ := s.Info(ref)
		over := ok && info.Sealed()
		if !over && (f.did[[2]string{sinksSettle, id}] || len(waits[id]) > 0) {
			return fmt.Errorf("run %s is not over, and was settled, or has %d deliveries", id, len(waits[id]))
		}
		gone := len(sinksNames) - len(waits[id])
		if over && gone > f.ended(id) {
			return fmt.Errorf("run %s is over, and %d of its deliveries are gone, of %d that anybody has ended", id, gone, f.ended(id))
		}
		if !over && f.heard(id) {
			return fmt.Errorf("a sink has heard of the end of run %s, which is not over", id)
		}
	}
	return nil
}

// ended is how many deliveries of a run somebody has tried to end.
func (f *sinksFacts) ended(id string) (n int) {
	seen := map[string]bool{}
	for k := range f.tried {
		if (k[0] == sinksTaken || k[0] == sinksDrop) && ofRun(k[1], id) && !seen[k[1]] {
			seen[k[1]] = true
			n++
		}
	}
	return n
}

func (f *sinksFacts) heard(id string) bool {
	for k := range f.did {
		if k[0] == sinksTold && ofRun(k[1], id) {
			return true
		}
	}
	return false
}

func ofRun(delivery, id string) bool {
	return len(delivery) > len(id) && delivery[:len(id)] == id && delivery[len(id)] == '.'
}

func sinksOpen(l *Life) (*store.Store, error) {
	w := storeWork{pack: 128 << 10}
	o := w.options(l)
	o.Sinks = sinksNames
	s, err := store.Open(context.Background(), storeDir, o)
	if err != nil {
		return nil, &openError{err}
	}
	if err := l.openedFor(s); err != nil {
		return s, err
	}
	if err := sinksFactsOf(l.Promises()).judge(s.Runs()); err != nil {
		if l.Faulty && l.full == nil {
			err = &openError{err} // a read that fails is no loss
		}
		return s, err
	}
	return s, nil
}

func sinksJudge(l *Life) error {
	s, err := sinksOpen(l)
	if s != nil {
		end(l, s, false)
	}
	return allowed(l, err)
}

func sinksLive(l *Life) error {
	s, err := sinksOpen(l)
	if err == nil {
		err = sinksWork(l, s.Runs())
		if l.Faulty && !errors.As(err, new(*judgement)) {
			err = nil // it may be refused; what was promised counts
		}
	}
	if s == nil {
		return allowed(l, err)
	}
	return allowed(l, errors.Join(err, end(l, s, l.Closes && err == nil)))
}

// sinksWork ends some runs. Of the first, one sink fails, and the other one's is
// dropped; of the others both take it. What earlier lives have left is taken in
// the later ones.
func sinksWork(l *Life, s *runs.Store) error {
	for l.Depth > 0 {
		d, _ := s.NextDelivery()
		if d == nil {
			return nil
		}
		if err := sinksTake(l, s, d); err != nil {
			return err
		}
	}
	for n := range 5 {
		id := fmt.Sprint("exec_", n)
		if err := sinksEnd(l, s, id, n*97); err != nil {
			return err
		}
		for i := range sinksNames {
			d, _ := s.NextDelivery()
			if d == nil {
				return sinksNone(l, fmt.Errorf("run %s is over, and delivery %d is not due", id, i))
			}
			if err := sinksAnswer(l, s, d, n == 0, i == 0); err != nil {
				return err
			}
		}
	}
	return nil
}

// sinksNone is the error where no delivery was due: with faults the log may have
// failed.
func sinksNone(l *Life, err error) error {
	if l.Faulty {
		return nil
	}
	return &judgement{err}
}

// sinksEnd starts and ends a run, with a summary of so many bytes: the end of its
// settlement stands in sectors differently each time.
func sinksEnd(l *Life, s *runs.Store, id string, bytes int) error {
	ctx := context.Background()
	st, err := s.Start(ctx, runs.Caller{UID: 1}, runs.StartRequest{ID: id, Labels: runs.Labels{"thread": "T"}})
	if err != nil {
		return l.refused(err)
	}
	l.Promise(Promise{What: sinksSettle + "?", Text: id})
	_, err = s.Settle(ctx, runs.Caller{Writer: st.Writer}, id, runs.SettleRequest{Status: runs.Success, Summary: strings.Repeat("s", bytes)})
	if err != nil {
		return l.refused(err)
	}
	l.Promise(Promise{What: sinksSettle, Text: id})
	return nil
}

// sinksAnswer lets a delivery be taken; or, of the first run, fail, or be dropped.
func sinksAnswer(l *Life, s *runs.Store, d *runs.Delivery, first, fails bool) error {
	l.Promise(Promise{What: sinksTold, Text: d.ID})
	switch {
	case !first:
		return sinksTake(l, s, d)
	case fails:
		if _, err := s.Undelivered(context.Background(), d, "no"); err != nil {
			return l.refused(err)
		}
		l.Promise(Promise{What: sinksFailed, N: uint64(d.Attempt), Text: d.ID})
		return nil
	}
	s.GiveBack(d)
	l.Promise(Promise{What: sinksDrop + "?", Text: d.ID})
	if _, err := s.DropDelivery(context.Background(), lifeOwner, d.ID); err != nil {
		return l.refused(err)
	}
	l.Promise(Promise{What: sinksDrop, Text: d.ID})
	return nil
}

// sinksPatience is how long a delivery that was taken waits for space to say so.
const sinksPatience = 20 * time.Millisecond

func sinksTake(l *Life, s *runs.Store, d *runs.Delivery) error {
	ctx := context.Background()
	if l.Faulty {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, sinksPatience)
		defer cancel()
	}
	l.Promise(Promise{What: sinksTold, Text: d.ID})
	l.Promise(Promise{What: sinksTaken + "?", Text: d.ID})
	if err := s.Delivered(ctx, d); err != nil {
		if !errors.Is(err, context.DeadlineExceeded) {
			l.refused(err)
		}
		return err
	}
	l.Promise(Promise{What: sinksTaken, Text: d.ID})
	return nil
}
