package runs

import (
	"context"
	"fmt"
	"io"
	"iter"

	"durafs/cas"
	"durafs/projection"
)

// ImageBudgetDefault is how many bytes of images a history shows where nothing
// else is asked for.
const ImageBudgetDefault = 16 << 20

// HistoryRequest says what of a run's history is wanted, and for whom.
type HistoryRequest struct {
	// Upto is the row up to which the log counts, 0 for all that is committed.
	Upto uint64
	// Materialize puts images back into the lines: as bytes with Vision, as long
	// as ImageBudget lasts, else as text. Without it they stay references.
	Materialize bool
	Vision      bool
	ImageBudget int64
}

// History writes what a model should see of the run's tool calls: a line of
// JSON for each, in the order of their claims, as package projection says. It
// is a function of the log up to a row, and of the request: nothing is stored.
// Memory does not grow with the run, but for the places of its calls, 24 bytes
// each, and of one image.
//
// A run that has claimed no call but logged some, as other programs do, has the
// history that its rows tell.
func (s *Store) History(ctx context.Context, ref Ref, r HistoryRequest, w io.Writer) error {
	id, err := s.idOf(ref)
	if err != nil {
		return err
	}
	h := &history{store: s, ctx: ctx, num: uint32(ref), id: id, request: r}
	return h.write(w)
}

// idOf is the id of a published run.
func (s *Store) idOf(ref Ref) (string, error) {
	run, ok := s.Info(ref)
	if !ok {
		return "", unknownRef(ref)
	}
	return run.ID, nil
}

// history is one call of History.
type history struct {
	store   *Store
	ctx     context.Context
	num     uint32
	id      string
	request HistoryRequest
}

func (h *history) write(w io.Writer) error {
	m := projection.Materializer{Run: h.id, Vision: h.request.Vision, Budget: h.request.ImageBudget, Artifact: h.artifact}
	var line []byte
	return h.turns(func(t projection.Turn) error {
		if err := h.ctx.Err(); err != nil {
			return err
		}
		if h.request.Materialize {
			return m.WriteTurn(w, t)
		}
		line = projection.AppendTurn(line[:0], t)
		_, err := w.Write(line)
		return err
	})
}

// turns tells each call, in order.
func (h *history) turns(fn func(projection.Turn) error) error {
	l := historyLines{h: h}
	if err := l.fold(); err != nil {
		return err
	}
	for i := range l.Len() {
		t, err := l.turn(i)
		if err != nil {
			return err
		}
		if err := fn(t); err != nil {
			return err
		}
	}
	return nil
}

// walked is a walk of the log as a sequence of events.
func walked[K comparable, A any](walk func(emit func(projection.Event[K, A]) error) error) iter.Seq2[projection.Event[K, A], error] {
	return func(yield func(projection.Event[K, A], error) bool) {
		err := walk(func(e projection.Event[K, A]) error {
			if !yield(e, nil) {
				return errStop
			}
			return nil
		})
		if err != nil && err != errStop {
			yield(projection.Event[K, A]{}, err)
		}
	}
}

// claims are the claims and outcomes that the log has.
func (h *history) claims() iter.Seq2[projection.Event[uint64, entryPlace], error] {
	return walked(func(emit func(projection.Event[uint64, entryPlace]) error) error {
		return h.store.walkPlaces(h.num, h.request.Upto, func(at entryPlace, _ *batch, e entry) error {
			switch e.kind {
			case kindClaim:
				cl, err := parseClaim(e)
				if err != nil {
					return err
				}
				return emit(projection.Event[uint64, entryPlace]{Call: cl.Call, At: at})
			case kindOutcome:
				o, err := parseOutcome(e)
				if err != nil {
					return err
				}
				return emit(projection.Event[uint64, entryPlace]{Call: o.Call, Outcome: true, At: at})
			}
			return nil
		})
	})
}

func (h *history) turn(p projection.Pair[entryPlace]) (projection.Turn, error) {
	e, err := h.store.entryAt(p.Claim, kindClaim)
	if err != nil {
		return projection.Turn{}, err
	}
	cl, err := parseClaim(e)
	if err != nil {
		return projection.Turn{}, err
	}
	t := projection.Turn{Call: cl.Call, CallID: cl.CallID, Name: cl.Name, ArgumentsB3: h.argsB3(cl)}
	if len(cl.args) > 0 {
		t.Arguments = cl.args
	}
	if p.Settled {
		t.Result, err = h.result(p.Outcome)
	}
	return t, err
}

// argsB3 is the digest of a call's arguments. The claim has it, so that a
// history does not change with what becomes of the payload; older claims of
// arguments in a payload have it only there.
func (h *history) argsB3(cl *claim) string {
	if cl.ArgsB3 != "" || cl.ArgsPayload == "" {
		return cl.ArgsB3
	}
	if f, err := h.store.findPayload(h.num, cl.ArgsPayload); err == nil && f != nil {
		return f.ref.ID.String()
	}
	return ""
}

// result is what is shown of an outcome, nil where nobody told it.
func (h *history) result(at entryPlace) (*projection.Projection, error) {
	e, err := h.store.entryAt(at, kindOutcome)
	if err != nil {
		return nil, err
	}
	o, err := parseOutcome(e)
	if err != nil {
		return nil, err
	}
	if len(o.projection) > 0 {
		p, err := projection.Decode(o.projection, h.id)
		if err != nil {
			return nil, badBatch("the projection of call %d: %v", o.Call, err)
		}
		return &p, nil
	}
	if o.ByStore {
		return nil, nil
	}
	p := projection.Foreign(o.text)
	return &p, nil
}

// entryAt reads an entry of a kind.
func (s *Store) entryAt(at entryPlace, k kind) (entry, error) {
	b, err := s.readBatch(at.pos)
	if err != nil {
		return entry{}, err
	}
	if int(at.entry) >= len(b.entries) || b.entries[at.entry].kind != k {
		return entry{}, badBatch("it has no entry of kind %d where the walk found one", k)
	}
	return b.entries[at.entry], nil
}

// artifact reads an image that a projection of the run refers to. What cannot
// be read is gone: a damaged image does not take the history with it.
func (h *history) artifact(r projection.Ref) ([]byte, bool, error) {
	f, err := h.store.findPayload(h.num, r.Name)
	if err != nil || f == nil || !f.source.mayProject() || f.ref.ID != cas.ID(r.B3) || f.ref.Bytes != r.Bytes {
		return nil, false, err
	}
	b, err := h.store.readAll(f.ref, projection.ImageBytesMax)
	if err != nil {
		h.store.logger.Warn("an image of a history cannot be read", "run", h.id, "name", r.Name, "error", err)
	}
	return b, err == nil, nil
}

// readAll reads a payload of at most this size.
func (s *Store) readAll(ref cas.Ref, bytesMax int64) ([]byte, error) {
	if ref.Bytes > bytesMax {
		return nil, fmt.Errorf("runs: a payload of %d bytes, and at most %d are read at once", ref.Bytes, bytesMax)
	}
	r, err := s.openRef(ref)
	if err != nil {
		return nil, err
	}
	b := make([]byte, ref.Bytes)
	if n, err := r.ReadAt(b, 0); n < len(b) {
		return nil, err
	}
	return b, nil
}
