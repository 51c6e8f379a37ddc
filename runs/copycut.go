package runs

import (
	"context"
	"errors"
	"iter"

	"durafs/projection"
	"durafs/wal"
)

// copyCut is where the prefix of a copy ends.
type copyCut struct {
	rows     uint64 // the last row of it
	payloads uint32 // how many payloads the run had been given there
}

// cutOf finds where a prefix of the run's committed log ends. A run that has
// claimed no call but logged some is cut at those, numbered as its history
// numbers them; a row is never cut in two.
func (s *Store) cutOf(ctx context.Context, src uint32, kind projection.CopyKind, call uint64) (copyCut, error) {
	w := &cutWalk{ctx: ctx, store: s, num: src}
	row, err := projection.Prefix(w.calls(), kind, call)
	if errors.Is(err, projection.ErrNoCall) && !w.claimed {
		w = &cutWalk{ctx: ctx, store: s, num: src}
		row, err = projection.Prefix(w.foreignCalls(), kind, call)
	}
	cut := copyCut{rows: row, payloads: w.payloads}
	switch {
	case errors.Is(err, projection.ErrNoCall):
		return cut, unknownCall(call)
	case errors.Is(err, projection.ErrOpenCall):
		r := refuse(CallOpen, "the call %d has no outcome yet, and the copy would go through it", call)
		r.Field, r.Call, r.State = "call", call, "open"
		return cut, r
	case kind != projection.CopyBranch: // without what stands beside the row that it leaves out
		cut.payloads = w.before
	}
	return cut, err
}

// cutWalk is a walk of a log up to the entry that decides where a prefix ends.
type cutWalk struct {
	ctx     context.Context
	store   *Store
	num     uint32
	claimed bool // there is a claim

	// What was before the entry that the walk is at.
	pos      wal.Position
	rows     uint64
	payloads uint32
	before   uint32 // payloads, up to the last row or the beginning of the batch
}

type callEvent = projection.Event[uint64, uint64]

// each tells fn the entries that stand with rows, after what was before each
// was noted.
func (w *cutWalk) each(fn func(e entry) error) error {
	return w.store.walkPlaces(w.num, 0, func(p entryPlace, b *batch, e entry) error {
		if err := w.ctx.Err(); err != nil {
			return err
		}
		if p.pos != w.pos {
			w.pos, w.payloads = p.pos, b.stamp.runs[b.stamp.find(w.num)].ordinal
			w.before = w.payloads
		}
		if err := fn(e); err != nil {
			return err
		}
		switch e.kind {
		case kindPayload:
			w.payloads++
		case kindRow:
			w.rows++
			w.before = w.payloads
		}
		return nil
	})
}

// calls are the claims and outcomes, with the rows that they belong to.
func (w *cutWalk) calls() iter.Seq2[callEvent, error] {
	return walked(func(emit func(callEvent) error) error {
		return w.each(func(e entry) error {
			switch e.kind {
			case kindClaim:
				cl, err := parseClaim(e)
				if err != nil {
					return err
				}
				w.claimed = true
				return emit(callEvent{Call: cl.Call, At: w.rows + 1})
			case kindOutcome:
				o, err := parseOutcome(e)
				if err != nil {
					return err
				}
				return emit(callEvent{Call: o.Call, Outcome: true, At: w.rows + 1})
			}
			return nil
		})
	})
}

// foreignCalls are those that rows of the agent's tell of, numbered in the order
// in which a history tells them.
func (w *cutWalk) foreignCalls() iter.Seq2[callEvent, error] {
	h := &history{store: w.store, ctx: w.ctx, num: w.num}
	open, last := map[string]uint64{}, uint64(0)
	return walked(func(emit func(callEvent) error) error {
		return w.each(func(e entry) error {
			calls, err := h.foreignCalls(e)
			if err != nil {
				return err
			}
			for _, c := range calls {
				n, known := open[c.ID]
				switch {
				case c.Outcome && !known:
					continue
				case c.Outcome:
					delete(open, c.ID)
				case !known:
					last++
					n, open[c.ID] = last, last
				}
				if err := emit(callEvent{Call: n, Outcome: c.Outcome, At: w.rows + 1}); err != nil {
					return err
				}
			}
			return nil
		})
	})
}
