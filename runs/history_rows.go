package runs

import (
	"bytes"
	"encoding/json"
	"iter"

	"durafs/projection"
)

// rowPlace is where a call stands that a row tells of.
type rowPlace struct {
	at entryPlace
	n  int // in the row
}

// foreignEvents are the calls of a run whose agent logged them as rows.
func (h *history) foreignEvents() iter.Seq2[projection.Event[string, rowPlace], error] {
	return walked(func(emit func(projection.Event[string, rowPlace]) error) error {
		return h.store.walkPlaces(h.num, h.request.Upto, func(at entryPlace, _ *batch, e entry) error {
			calls, err := h.foreignCalls(e)
			for n, c := range calls {
				if err := emit(projection.Event[string, rowPlace]{Call: c.ID, Outcome: c.Outcome, At: rowPlace{at, n}}); err != nil {
					return err
				}
			}
			return err
		})
	})
}

// foreignTurn is call i of them; row keeps what was read between calls.
func (h *history) foreignTurn(row *foreignRow, i int, p projection.Pair[rowPlace]) (projection.Turn, error) {
	c, err := row.call(h, p.Claim)
	if err != nil {
		return projection.Turn{}, err
	}
	t := projection.Turn{Call: uint64(i + 1), CallID: c.ID, Name: c.Name, Arguments: c.Arguments}
	if p.Settled {
		if c, err = row.call(h, p.Outcome); err != nil {
			return projection.Turn{}, err
		}
		shown := projection.Foreign(c.Result)
		t.Result = &shown
	}
	return t, nil
}

// foreignRow is the row that was read last: it often holds the next call too.
type foreignRow struct {
	at    entryPlace
	calls []projection.ForeignCall
}

func (r *foreignRow) call(h *history, p rowPlace) (projection.ForeignCall, error) {
	if r.calls == nil || r.at != p.at {
		e, err := h.store.entryAt(p.at, kindRow)
		if err != nil {
			return projection.ForeignCall{}, err
		}
		if r.calls, err = h.foreignCalls(e); err != nil {
			return projection.ForeignCall{}, err
		}
		r.at = p.at
	}
	if p.n >= len(r.calls) {
		return projection.ForeignCall{}, badBatch("a row tells of other calls than before")
	}
	return r.calls[p.n], nil
}

// foreignCalls are the calls that a row of the agent's tells of.
func (h *history) foreignCalls(e entry) ([]projection.ForeignCall, error) {
	if e.kind != kindRow || e.flags&rowByStore != 0 {
		return nil, nil
	}
	row, err := parseRow(e)
	if err != nil {
		return nil, err
	}
	text := row.text
	if e.flags&rowPreview != 0 {
		if text, err = h.wholeRow(text); err != nil {
			return nil, err
		}
	}
	return projection.ForeignCalls(text), nil
}

// wholeRow is the row that a preview stands for.
func (h *history) wholeRow(preview []byte) ([]byte, error) {
	var p struct {
		Oversized struct {
			Payload string `json:"payload"`
		} `json:"oversized"`
	}
	if err := json.Unmarshal(bytes.TrimSpace(preview), &p); err != nil {
		return nil, badBatch("a preview of it: %v", err)
	}
	f, err := h.store.findPayload(h.num, p.Oversized.Payload)
	if err != nil || f == nil || f.source != numLogBody {
		return nil, err // gone: it tells of no call any more
	}
	return h.store.readAll(f.ref, RowBytesMax)
}
