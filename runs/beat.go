package runs

import (
	"context"

	"durafs/wal"
)

// NoteBytesMax bounds the note of a beat.
const NoteBytesMax = 512

// Beat records that the run's agent is alive: its freshness, and nothing of
// what it did. It stands beside the record's state and does not raise the
// revision. An agent that is told by the answer that its run is
// cancel-requested is to abort, and says so by AckAbort. Needs the writer token.
func (s *Store) Beat(ctx context.Context, c Caller, id, note string) (*Record, error) {
	if len(note) > NoteBytesMax {
		return nil, tooLarge("note", int64(len(note)), NoteBytesMax)
	}
	num, epoch, err := s.gate(ctx, c, id, evBeat)
	if err != nil {
		return nil, err
	}
	b := newBatch(num, entry{kind: kindBeat, run: num, body: []byte(validText(note))})
	err = s.do(ctx, wal.Lazy, func(lsn uint64) wal.Decision {
		l := s.view(num)
		if r := s.fence(l, c, epoch, evBeat); r != nil {
			return l.answer(r)
		}
		return s.accept(l, lsn, b)
	})
	if err != nil {
		return nil, err
	}
	rec, _, err := s.recordFor(c, num)
	if err == nil && rec.Phase == CancelRequested.String() {
		s.abortTold(num, epoch)
	}
	return rec, err
}
