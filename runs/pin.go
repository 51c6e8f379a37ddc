package runs

import (
	"context"

	"durafs/wal"
)

// PinRequest asks that a run is kept whole, or is not any more.
type PinRequest struct {
	Pinned  bool
	IfMatch string // the ETag that the caller saw, "" for any
}

// PinAnswer is what a pin came to. Replayed: there was nothing to change.
type PinAnswer struct {
	Record   *Record
	ETag     string
	Replayed bool
}

// Pin protects a run's log from retention, or ends that; it is durable when it
// returns. Every phase takes it, and nothing else of the run changes. Needs an
// owner: an agent that could pin its runs could keep everything for ever.
func (s *Store) Pin(ctx context.Context, c Caller, id string, r PinRequest) (PinAnswer, error) {
	if !c.owns() {
		return PinAnswer{}, refuse(NotOwner, "only an owner pins a run")
	}
	num, err := s.ownersRun(ctx, id)
	if err != nil {
		return PinAnswer{}, err
	}
	var a PinAnswer
	err = retry(ctx, func() (done bool, err error) {
		a.Replayed, done, err = s.submitPin(ctx, num, &r)
		return done, err
	})
	if err != nil {
		return PinAnswer{}, err
	}
	a.Record, a.ETag, err = s.recordFor(c, num)
	return a, err
}

// submitPin accepts the change, or finds it made. Not done: the record has
// changed meanwhile.
func (s *Store) submitPin(ctx context.Context, num uint32, r *PinRequest) (replayed, done bool, err error) {
	was, err := s.current(num)
	if err != nil || was == nil {
		return false, false, err
	}
	rec := was.next()
	rec.Pinned = r.Pinned
	b := newBatch(num, rec.entry(num))
	done = true
	err = s.do(ctx, wal.Reserved, func(lsn uint64) wal.Decision {
		l := s.view(num)
		switch {
		case l == nil:
			return wal.Decision{Err: unknownRef(Ref(num))}
		case r.IfMatch != "" && r.IfMatch != etag(l.admission, l.revision):
			return l.answer(mismatch(l, r.IfMatch))
		case l.revision != was.revision:
			done = false
			return wal.Decision{}
		case was.Pinned == r.Pinned:
			replayed = true
			return l.answer(nil)
		}
		return s.accept(l, lsn, b)
	})
	return replayed, done, err
}
