package runs

import (
	"bytes"
	"context"
	"encoding/json"

	"durafs/projection"
)

// A copy is a new run that begins with a committed prefix of another one: its
// rows, its calls and what these refer to, under the copy's own id. Payloads
// share their chunks with the source's. It is one admission: see copystage.go
// for how a prefix that is too large for one batch becomes visible at once.
//
// From then on the two have nothing to do with each other. The copy continues
// the numbers of rows, calls and indexes where the prefix ends; what it has
// claimed itself, and with that its progress and its class, begins with it, since
// the effects of the calls in its prefix are the source's.

// CopyRequest asks for a copy of a run.
type CopyRequest struct {
	// StartRequest is what the copy is started with. What it leaves empty of
	// task, binding and target is as in the source, and so are the labels where
	// they are nil; the resume request, the lock and the lease are never the
	// source's. Message is for revise alone, which needs one: the last message,
	// in place of the source's.
	StartRequest
	// Kind and Call say where the prefix ends. Call is the number that the
	// source's history gives the call.
	Kind projection.CopyKind
	Call uint64
}

// copiesMax bounds the copies under way at the same time; others wait. Each
// takes less than 8 MiB, and 100 bytes more for each payload of the prefix.
const copiesMax = 4

// Copy admits a copy of the run id: all of it or nothing is visible when it
// returns. The source may be in any phase; what of it is committed counts. With
// an idempotency key, which is the source's own, it is repeated like a start.
//
// Needs an owner, or the source's writer token. A source that is damaged or
// compacted is refused, and so is a prefix that refers to what a copy cannot
// have.
func (s *Store) Copy(ctx context.Context, c Caller, id string, r CopyRequest) (Started, error) {
	if err := checkCopy(&r); err != nil {
		return Started{}, err
	}
	if err := s.log.ReadOnly(); err != nil {
		return Started{}, err
	}
	src, err := s.lookup(id)
	if err != nil {
		return Started{}, err
	}
	if err := s.mayRead(c, src); err != nil {
		return Started{}, err
	}
	source, err := s.copied(src)
	if err != nil {
		return Started{}, err
	}
	if r.Target == "" {
		r.Target = source.Target
	}
	if r.Labels == nil {
		r.Labels = source.Labels
	}
	a, err := s.newStarting(c, r.StartRequest, "copy\x00"+id+"\x00")
	if err != nil {
		return Started{}, err
	}
	a.copy = &copying{s: s, src: src, source: source, kind: r.Kind, call: r.Call}
	st, err := s.begin(ctx, a)
	a.copy.end()
	if outOfSpace(err) && a.copy.l != nil {
		err = s.neverThere(a.copy.num, &record{ID: a.req.ID, Labels: a.req.Labels, Target: a.req.Target, Lock: a.req.Lock}, a, err)
	}
	return st, err
}

func checkCopy(r *CopyRequest) error {
	bad := func(field, format string, args ...any) error { return fieldRefusal(BadCopy, field, format, args...) }
	switch r.Kind {
	case projection.CopyBranch, projection.CopyBefore:
		if r.Message != nil {
			return bad("message", "a copy of the kind %s has no message of its own", r.Kind)
		}
	case projection.CopyRevise:
		if r.Message == nil {
			return bad("message", "there is no message to revise with")
		}
	default:
		return bad("kind", "%s is no kind of copy", quote(string(r.Kind)))
	}
	if r.Call == 0 {
		return bad("call", "calls are numbered from 1")
	}
	return nil
}

// copied is the record of a run that may be copied.
func (s *Store) copied(src uint32) (*record, error) {
	rec, err := s.current(src)
	switch {
	case s.isDamaged(src):
		return nil, s.refusedCopy(src)
	case err != nil:
		return nil, err
	case rec.Compacted:
		return nil, logCompacted(rec.ID)
	}
	return rec, nil
}

func logCompacted(id string) *Refusal {
	return fieldRefusal(LogCompacted, "id", "the log of the run %s was compacted", id)
}

// refusedCopy is the refusal of a copy of a damaged run.
func (s *Store) refusedCopy(src uint32) error {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.refuseDamaged(src)
}

// inherit gives the copy's first record what its request has left to the source.
func (c *copying) inherit(rec *record) {
	rec.CopiedFrom = c.source.ID
	if rec.Preview == "" {
		rec.Preview = c.source.Preview
	}
	if rec.Binding == nil {
		rec.Binding = c.source.Binding
	}
}

// rowEntries are what stands in the log of the copy behind the prefix: a row
// that says so, with the message of a revise, and the ends of the calls that
// were open where the prefix ends. A message that is too large for the log is in
// a payload, as with any row; it is durable then.
func (c *copying) rowEntries(ctx context.Context, rec *record, message json.RawMessage) ([]entry, error) {
	var entries []entry
	var shown any
	if message != nil {
		shown = message
	}
	w := row{flags: rowByStore, text: object("type", "copied", "from", c.source.ID, "kind", c.kind, "call", c.call, "rows", c.cut.rows,
		"task", rec.Preview, "uid", rec.uid, "epoch", rec.epoch, "message", shown)}
	if len(w.text) > RowTextBytesMax {
		ref, err := c.s.cas.Put(ctx, bytes.NewReader(w.text))
		if err != nil {
			return nil, err
		}
		p := rowBody(ref)
		w.flags, w.text = w.flags|rowPreview, preview(scanned{text: w.text, kind: []byte(`"copied"`)}, p.name, ref.ID.String())
		entries = append(entries, p.entry(c.num))
	}
	entries = append(entries, w.entry(c.num))
	return append(entries, closeCalls(c.num, c.opened, "the run is a copy, and the call was open where it begins")...), nil
}
