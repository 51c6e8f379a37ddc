package runs

import (
	"context"

	"durafs/wal"
)

// AgainRequest runs an open call once more.
type AgainRequest struct {
	Call           uint64
	IdempotencyKey string
	BodyHash       [32]byte
}

// Again records that an open call of an earlier epoch is run once more, with
// the same index and key and the next attempt: allowed where running it twice
// does no harm, and where the owner has named it. It is durable before it is
// answered. Needs the writer token.
func (s *Store) Again(ctx context.Context, c Caller, id string, r AgainRequest) (Claimed, error) {
	if r.IdempotencyKey != "" {
		if err := badName("Idempotency-Key", r.IdempotencyKey, badKey(r.IdempotencyKey)); err != nil {
			return Claimed{}, err
		}
	}
	kept := lateWrite{What: "again", Name: uintText(r.Call)}
	num, epoch, err := s.gate(ctx, c, id, evWrite)
	if err != nil {
		return Claimed{}, s.keepLate(ctx, num, epoch, err, kept)
	}
	var got Claimed
	err = retry(ctx, func() (done bool, err error) {
		if err := s.needTools(ctx, num); err != nil {
			return false, err
		}
		got, done, err = s.submitAgain(ctx, c, num, epoch, &r)
		return done, err
	})
	return got, s.keepLate(ctx, num, epoch, err, kept)
}

// submitAgain accepts the re-run. Not done: the run has changed meanwhile.
func (s *Store) submitAgain(ctx context.Context, c Caller, num uint32, epoch uint64, r *AgainRequest) (got Claimed, done bool, err error) {
	was, err := s.current(num)
	if err != nil {
		return got, false, err
	}
	key := keyOf(r.IdempotencyKey, r.BodyHash)
	var b *wal.Batch
	open := was.open(r.Call)
	if open != nil {
		cl := &claim{Call: open.Call, Index: open.Index, CallID: open.CallID, Name: open.Name, Safety: open.Safety, Attempt: open.Attempt + 1}
		rec := was.next().progressed()
		rec.OpenCalls = append([]openCall(nil), was.OpenCalls...)
		n := rec.open(r.Call)
		n.Attempt, n.Epoch, n.Retry, n.Key = cl.Attempt, epoch, false, key
		b = newBatch(num, rec.entry(num), cl.entry(num), callRow(num, cl, nil))
		got = n.claimed(was.ID)
	}
	done = true
	err = s.do(ctx, wal.Ordinary, func(lsn uint64) wal.Decision {
		l := s.view(num)
		if r := s.fence(l, c, epoch, evWrite); r != nil {
			return l.answer(r)
		}
		if l.revision != was.revision || l.tools == nil {
			done = false
			return wal.Decision{}
		}
		if open != nil && open.Epoch == epoch && open.Attempt > 1 && open.Key != "" && open.Key == key {
			got = open.claimed(was.ID)
			got.Replayed = true
			return l.answer(nil)
		}
		if r := refuseAgain(open, l, r.Call, epoch); r != nil {
			return l.answer(r)
		}
		if r := s.noRoom(l, "call", b); r != nil {
			return l.answer(r)
		}
		return s.accept(l, lsn, b)
	})
	return got, done, err
}

func refuseAgain(open *openCall, l *live, call, epoch uint64) *Refusal {
	why := ""
	switch {
	case open == nil && l.tools.outcomes[call] == (hash16{}):
		return unknownCall(call)
	case open == nil:
		why = "has ended"
	case open.Epoch >= epoch:
		why = "was claimed in this epoch, and whoever claimed it runs it"
	case !open.Safety.Replayable() && !open.Retry:
		why = "is " + string(open.Safety) + ", and no owner has said that it may run again"
	default:
		return nil
	}
	r := refuse(AgainRefused, "the call %d %s", call, why)
	r.Call, r.State = call, "open"
	if open == nil {
		r.State = "settled"
	}
	return r
}
