package runs

import (
	"bytes"
	"encoding/hex"
	"encoding/json"

	"durafs/cas"
	"durafs/projection"
)

// rewriter makes of entries of a run those that its copy has. It is the one
// place that knows where an entry can refer to its run, or to a payload of it:
//
//	outcome   the images of its projection, by the run's id and their names
//	claim     arguments that are a payload, by its name
//	row       of the store's, the digest of a projection, which is another one
//	          under another id, and arguments that are a payload; the body of a
//	          large row
//	payload   none: what it is called is the same in the copy
//
// Everything else stays as it is, byte for byte, but that rows lose their
// idempotency keys: those are of the run that was asked to write them.
//
// Of a payload that an owner has deleted the copy has what the source has, which
// is no more than a row.
//
// It is given the entries in the order of the log, in which nothing is referred
// to before it is there: a reference to a payload that it was not given, or that
// is not a copy's to have, is an error, and so is one that it cannot rewrite.
type rewriter struct {
	from, to string // ids
	num      uint32 // of the copy

	// digests are those of the projections of the batch's outcomes, as they were
	// and as they are: the rows of these outcomes follow.
	digests map[string]string
	// deleted reports whether a payload is not there since an owner has deleted
	// it; nil: none is.
	deleted func(name string) (bool, error)
	// kept are the payloads that the copy has, by name.
	kept map[string]keptPayload
}

type keptPayload struct {
	id    cas.ID
	bytes int64
}

// begin comes before the entries of another batch.
func (w *rewriter) begin() { clear(w.digests) }

// entry is what the copy has of e, which it keeps nothing of; false if nothing.
func (w *rewriter) entry(e entry) (out entry, ok bool, err error) {
	switch e.kind {
	case kindRow:
		out, err = w.row(e)
		return out, true, err
	case kindClaim:
		out, err = w.claim(e)
		return out, true, err
	case kindOutcome:
		out, err = w.outcome(e)
		return out, true, err
	case kindPayload:
		return w.payload(e)
	case kindAdmission, kindRecord, kindBeat, kindLate, kindJournal, kindThread, kindOutbox, kindOutboxDone,
		kindSetting, kindRemoved, kindStaged, kindDeleted, kindDelivery, kindDelivered:
		return entry{}, false, nil // of the source's own life, or of the whole store
	}
	return entry{}, false, w.refuse("", "it has an entry of kind %d, of which nobody knows what it refers to", e.kind)
}

func (w *rewriter) refuse(field, format string, args ...any) *Refusal {
	r := refuse(CopyRefused, "the run "+w.from+" cannot be copied up to there: "+format, args...)
	r.Field = field
	return r
}

func (w *rewriter) claim(e entry) (entry, error) {
	cl, err := parseClaim(e)
	if err != nil {
		return entry{}, err
	}
	if cl.ArgsPayload != "" {
		if err := w.refer(cl.ArgsPayload, cl.ArgsB3, -1); err != nil {
			return entry{}, err
		}
	}
	return entry{kind: kindClaim, flags: e.flags, run: w.num, body: bytes.Clone(e.body)}, nil
}

func (w *rewriter) outcome(e entry) (entry, error) {
	o, err := parseOutcome(e)
	if err != nil {
		return entry{}, err
	}
	if len(o.projection) > 0 {
		shown, err := projection.Rewrite(o.projection, w.from, w.to, func(r projection.Ref) error {
			return w.refer(r.Name, hex.EncodeToString(r.B3[:]), r.Bytes)
		})
		if err != nil {
			if CodeOf(err) != "" {
				return entry{}, err
			}
			return entry{}, w.refuse("", "the projection of call %d: %v", o.Call, err)
		}
		if w.digests == nil {
			w.digests = map[string]string{}
		}
		w.digests[hexB3(o.projection)] = hexB3(shown)
		o.projection = shown
	}
	out := o.entry(w.num)
	out.outcome = nil
	return out, nil
}

func (w *rewriter) row(e entry) (entry, error) {
	r, err := parseRow(e)
	if err != nil {
		return entry{}, err
	}
	r.flags &^= rowKeyed
	r.text = bytes.Clone(r.text)
	if r.flags != 0 {
		err = w.members(&r)
	}
	return r.entry(w.num), err
}

// members rewrites what a row of the store's, or a preview that it has made,
// refers to, in place.
func (w *rewriter) members(r *row) (err error) {
	var argsPayload, argsB3 string
	sc := scanner{src: r.text}
	sc.blank()
	sc.object(0, func(name, value []byte) {
		byStore := r.flags&rowByStore != 0
		switch {
		case err != nil:
		case byStore && string(name) == "projection_b3":
			err = w.digest(value)
		case byStore && string(name) == "args_payload":
			err = json.Unmarshal(value, &argsPayload)
		case byStore && string(name) == "args_b3":
			err = json.Unmarshal(value, &argsB3)
		case r.flags&rowPreview != 0 && string(name) == "oversized":
			err = w.oversized(value)
		}
	})
	if err == nil && !sc.end() {
		return badBatch("a row of it is not as it should be")
	}
	if err == nil && argsPayload != "" {
		err = w.refer(argsPayload, argsB3, -1)
	}
	return err
}

// digest changes the digest of a projection, a JSON string, to that of the
// copy's.
func (w *rewriter) digest(value []byte) error {
	now, ok := w.digests[string(bytes.Trim(value, `"`))]
	if !ok || len(now)+len(`""`) != len(value) {
		return w.refuse("", "a row tells of a projection, %s, that does not stand beside it", bounded(value))
	}
	copy(value[1:], now)
	return nil
}

func bounded(b []byte) string { return cutText(string(b), 100) }

func (w *rewriter) oversized(value []byte) error {
	var of struct {
		Bytes   int64  `json:"bytes"`
		B3      string `json:"b3"`
		Payload string `json:"payload"`
	}
	if err := json.Unmarshal(value, &of); err != nil || of.Payload == "" {
		return w.refuse("", "a row does not say where the whole of it is")
	}
	return w.refer(of.Payload, of.B3, of.Bytes)
}

// refer checks a reference to a payload; b3 "" and negative bytes say nothing.
func (w *rewriter) refer(name, b3 string, bytes int64) error {
	have, ok := w.kept[name]
	if !ok && w.deleted != nil {
		if gone, err := w.deleted(name); gone || err != nil {
			return err // it is missing in the source too
		}
	}
	switch {
	case !ok:
		return w.refuse(name, "it refers to a payload %s that a copy cannot have", quote(name))
	case b3 != "" && b3 != have.id.String(), bytes >= 0 && bytes != have.bytes:
		return w.refuse(name, "it refers to a payload %s with other bytes than the run has", quote(name))
	}
	return nil
}

// payload is a payload that the copy has too, by the policy of its source. An
// answer that stands before the end of a prefix is of no end.
func (w *rewriter) payload(e entry) (entry, bool, error) {
	p, err := parsePayload(e)
	if err != nil {
		return entry{}, false, err
	}
	if !sources[p.source].copy || p.source == numTerminal {
		return entry{}, false, nil
	}
	if w.kept == nil {
		w.kept = map[string]keptPayload{}
	}
	w.kept[p.name] = keptPayload{p.ref.ID, p.ref.Bytes}
	return p.entry(w.num), true, nil
}
