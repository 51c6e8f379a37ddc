package runs

import (
	"context"

	"durafs/wal"
)

// startedAs is the run that the start's key has begun, 0 if there is none.
func (s *Store) startedAs(a *starting) (uint32, error) {
	if !a.keyed() {
		return 0, nil
	}
	sk, _, err := s.startKey(a)
	return sk.num, err
}

// startAgain answers a start whose key has begun the run num. Not done: the
// run has changed meanwhile.
func (s *Store) startAgain(ctx context.Context, a *starting, num uint32) (Started, bool, error) {
	rec, err := s.current(num)
	if CodeOf(err) == UnknownRun {
		return Started{}, false, nil
	}
	if err != nil {
		return Started{}, true, err
	}
	raised := rec.next()
	raised.epoch++
	b := newBatch(num, raised.entry(num))
	token := s.token(num, raised.epoch, purposeWriter)
	epoch, overtaken := uint64(0), false
	err = s.do(ctx, wal.Ordinary, func(lsn uint64) wal.Decision {
		l := s.view(num)
		switch {
		case l.gone() || !s.startHolds(a) || l.revision != rec.revision:
			overtaken = true
			return l.answer(nil)
		case l.uid != a.caller.UID && !a.caller.Owner: // whose run it is, is not this caller's to know
			r := refuse(IdempotencyMismatch, "the Idempotency-Key has begun a run of somebody else")
			r.Field = "Idempotency-Key"
			return l.answer(r)
		case a.known.body != a.bodyHash:
			r := refuse(IdempotencyMismatch, "the Idempotency-Key has begun the run %s with another body", rec.ID)
			r.Field, r.Holder = "Idempotency-Key", rec.ID
			return l.answer(r)
		case !l.phase.waitsForAgent() || rec.Progress > 0 || l.uid != a.caller.UID:
			return l.answer(nil)
		}
		epoch = raised.epoch
		d := s.accept(l, lsn, b)
		l.token = token
		return d
	})
	if err != nil || overtaken {
		return Started{}, err != nil, err
	}
	st, err := s.started(num, epoch, a.caller)
	st.Replayed = true
	return st, true, err
}
