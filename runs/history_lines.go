package runs

import (
	"context"

	"durafs/projection"
)

// HistoryLines is a run's history as of a moment, line by line: what History
// writes of the rows that were published when it was made. It is for one
// goroutine at a time.
type HistoryLines interface {
	Len() int
	// Append appends line i, from 0, its newline too.
	Append(dst []byte, i int) ([]byte, error)
}

// historyLines holds the places of the calls and nothing of what stands there.
type historyLines struct {
	h       *history
	pairs   []projection.Pair[entryPlace]
	foreign []projection.Pair[rowPlace]
	row     foreignRow
}

// OpenHistory takes the history of a run as it is now: images stay references.
// It walks the run's log once.
func (s *Store) OpenHistory(ref Ref) (HistoryLines, error) {
	run, ok := s.Info(ref)
	if !ok {
		return nil, unknownRef(ref)
	}
	l := &historyLines{h: &history{
		store: s, ctx: context.Background(), num: uint32(ref), id: run.ID, request: HistoryRequest{Upto: run.LastSeq},
	}}
	if run.LastSeq == 0 { // of which 0 as a bound would mean all that comes
		return l, nil
	}
	return l, l.fold()
}

// fold finds the calls: those that were claimed or, where none was, those that
// the rows tell of.
func (l *historyLines) fold() (err error) {
	if l.pairs, err = projection.Fold(l.h.claims()); err == nil && len(l.pairs) == 0 {
		l.foreign, err = projection.Fold(l.h.foreignEvents())
	}
	return err
}

// Len implements HistoryLines.
func (l *historyLines) Len() int { return len(l.pairs) + len(l.foreign) }

// Append implements HistoryLines.
func (l *historyLines) Append(dst []byte, i int) ([]byte, error) {
	t, err := l.turn(i)
	if err != nil {
		return dst, err
	}
	return projection.AppendTurn(dst, t), nil
}

func (l *historyLines) turn(i int) (projection.Turn, error) {
	if i < len(l.pairs) {
		return l.h.turn(l.pairs[i])
	}
	return l.h.foreignTurn(&l.row, i, l.foreign[i])
}
