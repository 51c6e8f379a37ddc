package runs

import (
	"bytes"
	"context"
	"time"

	"durafs/wal"
)

// What became of the request to abort.
const (
	AbortAcknowledged = "acknowledged"
	AbortExited       = "exited"
	AbortKilled       = "killed"
	AbortNoListener   = "no-listener"
	AbortTimedOut     = "timed-out"
)

// Bounds of asking an agent to abort.
const (
	AbortTimeout  = 5 * time.Second // for each time that it is asked
	AbortAttempts = 2
)

// CancelRequest asks for the end of a run.
type CancelRequest struct {
	IfMatch string // the ETag that the caller saw, "" for any
	// Children cancels the runs too that name this one as parent, and theirs.
	Children bool
}

// CancelAnswer is what a cancel came to: that it is wanted is durable. Children
// are the ids of the others that were cancelled with it, and NotCancelled those
// that were to be and are not.
type CancelAnswer struct {
	Record       *Record
	ETag         string
	Children     []string
	NotCancelled []NotCancelled
}

// NotCancelled says why a run was not cancelled with the one that it descends
// from. One whose record or log is damaged takes no cancel.
type NotCancelled struct {
	ID     string `json:"id"`
	Code   Code   `json:"code,omitempty"` // of a refusal, run-damaged of damage
	Detail string `json:"detail"`
}

// cancelling is how far the asking of an agent is; Store.mu guards it.
type cancelling struct {
	asked time.Duration // boot time of the last time
	tries uint64
	heard bool // the agent was told, by the answer to a beat or as an event
}

// Cancel ends a run against its agent's will. The tombstone is durable when it
// returns, and whatever the agent says from then on, the run ends as cancelled:
// at once where no agent has it, else when the agent has acknowledged the
// abort or did not within its time. A run whose settlement was accepted before
// is finished. Needs an owner.
func (s *Store) Cancel(ctx context.Context, c Caller, id string, r CancelRequest) (CancelAnswer, error) {
	if !c.owns() {
		return CancelAnswer{}, refuse(NotOwner, "only an owner cancels a run")
	}
	num, err := s.ownersRun(ctx, id)
	if err != nil {
		return CancelAnswer{}, err
	}
	var a CancelAnswer
	if err := s.cancel(ctx, c, num, r.IfMatch); err != nil {
		return a, err
	}
	if r.Children {
		a.Children, a.NotCancelled = s.cancelChildren(ctx, c, id)
	}
	a.Record, a.ETag, err = s.recordFor(c, num)
	return a, err
}

func (s *Store) cancel(ctx context.Context, c Caller, num uint32, ifMatch string) error {
	asks := false
	err := retry(ctx, func() (done bool, err error) {
		was, err := s.current(num)
		if err != nil {
			return false, err
		}
		rec := was.next()
		rec.phase, rec.Cancel = CancelRequested, &CancelInfo{ByUID: c.UID}
		rec.Resume.FromPhase, rec.Allow = "", nil
		batches := []*wal.Batch{newBatch(num, rec.entry(num), ownRow(num, "type", "cancel-requested", "by_uid", c.UID))}
		asks = was.phase == Running
		if !asks { // nobody has it
			batches = append(batches, s.cancellation(num, rec, AbortNoListener, 0)...)
		}
		done = true
		err = s.do(ctx, wal.Reserved, func(lsn uint64) wal.Decision {
			l := s.view(num)
			if r := l.takes(evCancel); r != nil {
				if !l.gone() && l.rec != nil && l.rec.Cancel != nil {
					r.At = l.rec.Cancel.RequestedAt
				}
				return l.answer(r)
			}
			if ifMatch != "" && ifMatch != etag(l.admission, l.revision) {
				return l.answer(mismatch(l, ifMatch))
			}
			if l.revision != was.revision {
				done = false
				return wal.Decision{}
			}
			d := s.accept(l, lsn, batches...)
			s.closeWindow(l)
			delete(s.duty.dispatches, num)
			if asks && d.Err == nil {
				s.duty.cancels[num] = &cancelling{asked: s.clock.Boot(), tries: 1}
			}
			return d
		})
		return done, err
	})
	if err == nil && asks {
		s.tellAbort(num)
	}
	return err
}

// cancelChildren cancels what descends from a run; what is finished, or
// cancelled already, is left as it is. One that cannot be cancelled keeps no
// other from it, nor those that descend from it.
func (s *Store) cancelChildren(ctx context.Context, c Caller, id string) (done []string, not []NotCancelled) {
	seen := map[string]bool{id: true}
	for queue := []string{id}; len(queue) > 0; queue = queue[1:] {
		for _, child := range s.childrenOf(queue[0]) {
			if seen[child] {
				continue
			}
			seen[child] = true
			queue = append(queue, child)
			num, err := s.ownersRun(ctx, child)
			if err == nil {
				err = s.cancel(ctx, c, num, "")
			}
			switch code := CodeOf(err); {
			case err == nil:
				done = append(done, child)
			case code == Finished, code == CancelRequestedCode, code == UnknownRun:
			default:
				if isDamage(err) {
					code = RunDamaged
				}
				not = append(not, NotCancelled{child, code, err.Error()})
			}
		}
	}
	return done, not
}

func (s *Store) childrenOf(id string) (children []string) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	parent := appendTextID(nil, id)
	for _, num := range s.index.linked(s.index.linkKey(linkParent, parent)) {
		if s.index.phase(num) != PhaseNone && bytes.Equal(s.index.parent(num), parent) {
			children = append(children, s.index.id(num))
		}
	}
	return children
}

// cancellation are the batches behind the tombstone, of which rec is the
// record: what became of the abort, and then the end, by the steps of every
// end.
func (s *Store) cancellation(num uint32, rec *record, abort string, attempts uint64) []*wal.Batch {
	asked := rec.next()
	info := *rec.Cancel
	info.Abort, info.Attempts = abort, attempts
	asked.Cancel = &info
	pk := &packet{Cancelled: true, Abort: abort, Thread: rec.Labels["thread"], Summary: "cancelled by an owner"}
	return append([]*wal.Batch{newBatch(num, asked.entry(num))}, s.settlement(&settling{num: num, rec: asked}, pk)...)
}

// finishCancel ends a run whose tombstone is durable.
func (s *Store) finishCancel(ctx context.Context, num uint32, abort string) error {
	err := retry(ctx, func() (done bool, err error) {
		t, done, err := s.submitCancelled(num, abort)
		if err != nil || !done {
			return done, err
		}
		return true, t.Wait(ctx)
	})
	if err == nil {
		s.mu.Lock()
		delete(s.duty.cancels, num)
		s.mu.Unlock()
	}
	return err
}

func (s *Store) submitCancelled(num uint32, abort string) (t wal.Ticket, done bool, err error) {
	was, err := s.current(num)
	if CodeOf(err) == UnknownRun {
		return t, true, nil
	}
	if err != nil || was.phase != CancelRequested {
		return t, true, err
	}
	attempts := uint64(0)
	s.mu.RLock()
	if c := s.duty.cancels[num]; c != nil {
		attempts = c.tries
	}
	s.mu.RUnlock()
	batches := s.cancellation(num, was, abort, attempts)
	done = true
	t = s.decide(wal.Reserved, func(lsn uint64) wal.Decision {
		l := s.view(num)
		if l == nil || l.phase != CancelRequested {
			return wal.Decision{}
		}
		if l.revision != was.revision {
			done = false
			return wal.Decision{}
		}
		return s.accept(l, lsn, batches...)
	})
	return t, done, nil
}

// AckAbort is the agent's answer to a cancel: acknowledged, exited or killed,
// the latter two by whoever runs the agent as a process. The run is over when
// it returns. Needs the writer token.
func (s *Store) AckAbort(ctx context.Context, c Caller, id, how string) (*Record, string, error) {
	switch how {
	case AbortAcknowledged, AbortExited, AbortKilled:
	default:
		return nil, "", fieldRefusal(BadReason, "abort", "the abort is %s", quote(how))
	}
	num, _, err := s.gate(ctx, c, id, evBeat)
	if err != nil {
		return nil, "", err
	}
	s.mu.RLock()
	l := s.view(num)
	var r *Refusal
	switch {
	case l.gone():
		r = goneRun()
	case l.phase != CancelRequested:
		r = refuse(WrongPhase, "the run is %s, and nobody asked to abort it", l.phase)
		r.Phase, r.Revision, r.ETag = l.phase.String(), l.revision, etag(l.admission, l.revision)
	}
	s.mu.RUnlock()
	if r != nil {
		return nil, "", r
	}
	if err := s.finishCancel(ctx, num, how); err != nil {
		return nil, "", err
	}
	return s.recordFor(c, num)
}

// abortTold notes that the agent of an epoch knows that it is to abort.
func (s *Store) abortTold(num uint32, epoch uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	l := s.view(num)
	if c := s.duty.cancels[num]; c != nil && !l.gone() && l.epoch == epoch {
		c.heard = true
	}
}

// pressCancels asks agents a second time, and ends the runs of those who did
// not answer that either.
func (s *Store) pressCancels(ctx context.Context, now time.Duration) {
	again, over := map[uint32]bool{}, map[uint32]string{}
	s.mu.Lock()
	for num, c := range s.duty.cancels {
		switch {
		case s.index.phase(num) != CancelRequested: // it is not durable, or will not be, or is over
			if l := s.acc.runs[num]; l == nil || l.phase != CancelRequested {
				delete(s.duty.cancels, num)
			}
			c.asked = now
		case now-c.asked < AbortTimeout:
		case c.tries < AbortAttempts:
			c.tries++
			c.asked = now
			again[num] = true
		case c.heard:
			over[num] = AbortTimedOut
		default:
			over[num] = AbortNoListener
		}
	}
	s.mu.Unlock()
	for num := range again {
		s.tellAbort(num)
	}
	for num, abort := range over {
		err := s.finishCancel(ctx, num, abort)
		if isDamage(err) {
			s.foundDamage(num, err)
			s.mu.Lock()
			delete(s.duty.cancels, num)
			s.mu.Unlock()
			continue
		}
		if err != nil {
			s.logger.Warn("a cancelled run was not ended", "run", num, "error", err)
			if s.hopeless(ctx) {
				return
			}
		}
	}
}
