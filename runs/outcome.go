package runs

import (
	"bytes"
	"context"
	"encoding/json"
	"unicode/utf8"

	"durafs/wal"
)

// OutcomeBytesMax bounds the outcome of a call; larger output is put as a
// payload first and named in it.
const OutcomeBytesMax = 256 << 10

// OutcomeRequest says what became of a call.
type OutcomeRequest struct {
	Call uint64
	// Outcome is a JSON object, kept byte for byte.
	Outcome []byte
	// Projection is the canonical form in which the result is shown to a
	// model, nil for none.
	Projection []byte
}

// Committed is what stands in the log of a call that has ended.
type Committed struct {
	Call       uint64          `json:"call"`
	Outcome    json.RawMessage `json:"outcome"`
	Projection json.RawMessage `json:"projection,omitempty"`
	// ByStore is true where the store closed the call without having been told.
	ByStore  bool `json:"by_store,omitempty"`
	Replayed bool `json:"replayed,omitempty"`
}

// Outcome records what became of a claimed call. The same outcome again is
// answered with what is committed; another one is refused, with it too. A call
// that was never claimed has no outcome. Needs the writer token.
func (s *Store) Outcome(ctx context.Context, c Caller, id string, r OutcomeRequest) (Committed, error) {
	o, err := newOutcome(&r)
	if err != nil {
		return Committed{}, err
	}
	kept := lateWrite{What: "outcome", Name: uintText(r.Call), Text: string(r.Outcome)}
	num, epoch, err := s.gate(ctx, c, id, evOutcome)
	if err != nil {
		return s.lateOutcome(ctx, num, epoch, err, o, kept)
	}
	replayed := false
	err = retry(ctx, func() (done bool, err error) {
		if err := s.needTools(ctx, num); err != nil {
			return false, err
		}
		replayed, done, err = s.submitOutcome(ctx, c, num, epoch, o)
		return done, err
	})
	switch CodeOf(err) {
	case "":
		if err != nil {
			return Committed{}, err
		}
	case OutcomeConflict:
		return Committed{}, s.withCommitted(err, num, r.Call)
	default:
		return s.lateOutcome(ctx, num, epoch, err, o, kept)
	}
	if !replayed {
		return committed(o, false), nil
	}
	have, err := s.readOutcome(num, r.Call)
	return committed(have, true), err
}

func newOutcome(r *OutcomeRequest) (*outcome, error) {
	if len(r.Outcome) > OutcomeBytesMax {
		return nil, tooLarge("outcome", int64(len(r.Outcome)), OutcomeBytesMax)
	}
	text := dropBreaks(r.Outcome)
	if !utf8.Valid(text) || openBrace(text) < 0 || !json.Valid(text) {
		return nil, fieldRefusal(RowInvalid, "outcome", "the outcome is not a JSON object")
	}
	same, err := sameness(text)
	if err != nil {
		return nil, fieldRefusal(RowInvalid, "outcome", "the outcome is not a JSON object")
	}
	return &outcome{Call: r.Call, Same: same, text: text, projection: r.Projection}, nil
}

func committed(o *outcome, replayed bool) Committed {
	if o == nil {
		return Committed{}
	}
	return Committed{Call: o.Call, Outcome: o.text, Projection: o.projection, ByStore: o.ByStore, Replayed: replayed}
}

// lateOutcome answers an outcome that the run does not take any more: one that
// says what is committed already is no news, any other is kept as late.
func (s *Store) lateOutcome(ctx context.Context, num uint32, epoch uint64, err error, o *outcome, kept lateWrite) (Committed, error) {
	if r, ok := err.(*Refusal); !ok || !r.late {
		return Committed{}, err
	}
	if CodeOf(err) != StaleWriter {
		if have, rerr := s.readOutcome(num, o.Call); rerr == nil && have != nil && have.Same == o.Same {
			return committed(have, true), nil
		}
	}
	return Committed{}, s.keepLate(ctx, num, epoch, err, kept)
}

// submitOutcome accepts an outcome, or finds it there. Not done: the run has
// changed meanwhile.
func (s *Store) submitOutcome(ctx context.Context, c Caller, num uint32, epoch uint64, o *outcome) (replayed, done bool, err error) {
	was, err := s.current(num)
	if err != nil || was == nil {
		return false, false, err
	}
	var b *wal.Batch
	if was.open(o.Call) != nil {
		b = newBatch(num, was.withOutcome(o.Call).entry(num), o.entry(num), outcomeRow(num, o))
	}
	done = true
	err = s.do(ctx, wal.Reserved, func(lsn uint64) wal.Decision {
		l := s.view(num)
		if r := s.fence(l, c, epoch, evOutcome); r != nil {
			return l.answer(r)
		}
		if l.revision != was.revision || l.tools == nil {
			done = false
			return wal.Decision{}
		}
		if b != nil {
			return s.accept(l, lsn, b)
		}
		same, ok := l.tools.outcomes[o.Call]
		if !ok {
			return l.answer(unknownCall(o.Call))
		}
		if replayed = same == hashOf(num, []byte(o.Same)); replayed {
			return l.answer(nil)
		}
		r := refuse(OutcomeConflict, "the call %d has ended with another outcome", o.Call)
		r.Call, r.State = o.Call, "settled"
		return l.answer(r)
	})
	return replayed, done, err
}

// withOutcome is the record after a call has ended.
func (rec *record) withOutcome(call uint64) *record {
	return rec.next().progressed().closed(call)
}

// closed takes a call out of the open ones; rec is not seen by others yet.
func (rec *record) closed(call uint64) *record {
	open := make([]openCall, 0, len(rec.OpenCalls))
	for _, o := range rec.OpenCalls {
		if o.Call != call {
			open = append(open, o)
		}
	}
	rec.OpenCalls = open
	return rec
}

// unknownOutcome closes a call of which nobody told what became of it.
func unknownOutcome(call uint64, why string) *outcome {
	text := object("status", "unknown", "reason", why)
	same, err := sameness(text)
	if err != nil {
		panic("runs: " + err.Error())
	}
	return &outcome{Call: call, ByStore: true, Same: same, text: text}
}

// closeCalls are the entries that close calls as unknown.
func closeCalls(num uint32, calls []openCall, why string) (entries []entry) {
	for _, c := range calls {
		o := unknownOutcome(c.Call, why)
		entries = append(entries, o.entry(num), outcomeRow(num, o))
	}
	return entries
}

// outcomeRow is the log's row of an outcome; the projection is named by its
// digest.
func outcomeRow(num uint32, o *outcome) entry {
	var inline, byStore, projection any
	if len(o.text) <= rowArgsBytesMax {
		inline = json.RawMessage(bytes.TrimSpace(o.text))
	}
	if o.ByStore {
		byStore = true
	}
	if o.projection != nil {
		projection = hexB3(o.projection)
	}
	return ownRow(num, "type", "tool-result", "call", o.Call, "outcome", inline, "outcome_b3", hexB3(o.text),
		"projection_b3", projection, "closed_by_store", byStore)
}

func unknownCall(call uint64) *Refusal {
	r := refuse(UnknownCall, "the run has no call %d", call)
	r.Field, r.Call = "call", call
	return r
}

// withCommitted adds what is committed to a refusal.
func (s *Store) withCommitted(err error, num uint32, call uint64) error {
	r, ok := err.(*Refusal)
	if !ok {
		return err
	}
	if have, rerr := s.readOutcome(num, call); rerr == nil && have != nil {
		c := committed(have, false)
		r.Committed = &c
	}
	return r
}
