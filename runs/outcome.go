package runs

import (
	"bytes"
	"context"
	"encoding/json"
	"unicode/utf8"

	"durafs/projection"
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
	// Projection reads the candidate for what a model is shown of the result;
	// no bytes and no error say that none will come, an error that another
	// request may bring it. It may take its time, and is called at most once, on
	// a goroutine of its own that outlives the request until it returns; its
	// context ends with the request. nil for none.
	Projection func(ctx context.Context) ([]byte, error)
}

// Committed is what stands in the log of a call that has ended.
type Committed struct {
	Call       uint64          `json:"call"`
	Outcome    json.RawMessage `json:"outcome"`
	Projection json.RawMessage `json:"projection,omitempty"`
	// ByStore is true where the store closed the call without having been told.
	ByStore  bool `json:"by_store,omitempty"`
	Replayed bool `json:"replayed,omitempty"`
	// Refused is why the sentinel was committed in place of a candidate.
	Refused string `json:"projection_refused,omitempty"`
}

// Outcome records what became of a claimed call, together with what a model is
// shown of it: in one batch, with the artifacts that the projection refers to.
// From when the outcome was received it is committed whatever happens: with the
// projection if that comes in time and is admitted, else with the sentinel.
//
// The same outcome again is answered with what is committed, if the projection
// says the same or the sentinel is committed, or no projection comes; else it
// is refused, with what is committed too. A call that was never claimed has no
// outcome. Needs the writer token.
func (s *Store) Outcome(ctx context.Context, c Caller, id string, r OutcomeRequest) (Committed, error) {
	o, err := newOutcome(&r)
	if err != nil {
		return Committed{}, err
	}
	num, epoch, err := s.gate(ctx, c, id, evOutcome)
	t := &settlingCall{s: s, caller: c, num: num, runID: id, epoch: epoch, o: o}
	if err != nil {
		return t.late(ctx, err)
	}
	reading, stop := context.WithCancel(ctx)
	defer stop()
	own := r.reading(reading)
	for key := (callKeyed{num, r.Call}); ; {
		open, err := s.isOpen(ctx, num, r.Call)
		if err != nil {
			return Committed{}, err
		}
		if !open {
			return t.repeat(ctx, own)
		}
		p, leads := s.projectings.join(key)
		if leads {
			defer s.projectings.leave(key, p)
			return t.commit(context.WithoutCancel(ctx), s.await(num, p, own))
		}
		if own, err = s.follow(ctx, p, own); err != nil {
			return Committed{}, err
		}
	}
}

// isOpen reports whether a call waits for its outcome.
func (s *Store) isOpen(ctx context.Context, num uint32, call uint64) (bool, error) {
	if err := s.needTools(ctx, num); err != nil {
		return false, err
	}
	rec, err := s.current(num)
	return rec != nil && rec.open(call) != nil, err
}

// settlingCall is one request with an outcome.
type settlingCall struct {
	s      *Store
	caller Caller
	num    uint32
	runID  string
	epoch  uint64
	o      *outcome
}

// commit commits the outcome with this candidate, nil for none.
func (t *settlingCall) commit(ctx context.Context, candidate []byte) (Committed, error) {
	defer t.s.cas.Hold()()
	artifacts := t.s.project(ctx, t.num, t.runID, t.o, candidate)
	replayed, err := t.submit(ctx, artifacts)
	if err != nil || replayed {
		return t.answer(ctx, candidate, err)
	}
	done := committed(t.o, false)
	done.Refused = t.o.refused
	return done, nil
}

// repeat answers an outcome of a call that is not open.
func (t *settlingCall) repeat(ctx context.Context, own <-chan []byte) (Committed, error) {
	t.o.projection = []byte(projection.Sentinel) // should it be open after all
	replayed, err := t.submit(ctx, nil)
	switch {
	case err != nil:
		return t.answer(ctx, nil, err)
	case !replayed:
		return committed(t.o, false), nil
	}
	return t.answer(ctx, t.s.await(t.num, &projecting{}, own), nil)
}

func (t *settlingCall) submit(ctx context.Context, artifacts []entry) (replayed bool, err error) {
	err = retry(ctx, func() (done bool, err error) {
		if err := t.s.needTools(ctx, t.num); err != nil {
			return false, err
		}
		replayed, done, err = t.s.submitOutcome(ctx, t.caller, t.num, t.epoch, t.o, artifacts)
		if overQuota(err) { // others were faster: it is committed all the same
			t.o.projection, t.o.refused, artifacts = []byte(projection.Sentinel), err.Error(), nil
			return false, nil
		}
		return done, err
	})
	return replayed, err
}

// answer answers with what is committed, or err says why not.
func (t *settlingCall) answer(ctx context.Context, candidate []byte, err error) (Committed, error) {
	switch code := CodeOf(err); {
	case err == nil:
	case code == "":
		return Committed{}, err
	case code == OutcomeConflict:
		return Committed{}, t.s.withCommitted(err, t.num)
	default:
		return t.late(ctx, err)
	}
	have, err := t.s.readOutcome(t.num, t.o.Call)
	if err != nil || have == nil {
		return Committed{}, err
	}
	if !t.adopts(have, candidate) {
		return Committed{}, t.s.withCommitted(outcomeConflict(t.o.Call, "projection"), t.num)
	}
	return committed(have, true), nil
}

// adopts reports whether a candidate that comes once more is taken for what is
// committed: it says the same, or there is none, or the sentinel was committed.
func (t *settlingCall) adopts(have *outcome, candidate []byte) bool {
	if candidate == nil || len(have.projection) == 0 || string(have.projection) == projection.Sentinel {
		return true
	}
	was, err := projection.Decode(have.projection, t.runID)
	if err != nil {
		return false
	}
	adm, err := t.s.admit(t.num, t.runID, t.o.Call, candidate)
	return err == nil && projection.Same(was, adm.Projection)
}

// late answers an outcome that the run does not take any more: one that says
// what is committed already is no news, any other is kept as late.
func (t *settlingCall) late(ctx context.Context, err error) (Committed, error) {
	if !isLate(err) {
		return Committed{}, err
	}
	if CodeOf(err) != StaleWriter {
		if have, rerr := t.s.readOutcome(t.num, t.o.Call); rerr == nil && have != nil && have.Same == t.o.Same {
			return committed(have, true), nil
		}
	}
	kept := lateWrite{What: "outcome", Name: uintText(t.o.Call), Text: string(t.o.text)}
	return Committed{}, t.s.keepLate(ctx, t.num, t.epoch, err, kept)
}

func newOutcome(r *OutcomeRequest) (*outcome, error) {
	if len(r.Outcome) > OutcomeBytesMax {
		return nil, tooLarge("outcome", int64(len(r.Outcome)), OutcomeBytesMax)
	}
	text := dropBreaks(r.Outcome)
	if !utf8.Valid(text) || openBrace(text) < 0 || !json.Valid(text) {
		return nil, fieldRefusal(RowInvalid, "outcome", "the outcome is not a JSON object")
	}
	return &outcome{Call: r.Call, Same: sameness(text), text: text}, nil
}

func committed(o *outcome, replayed bool) Committed {
	if o == nil {
		return Committed{}
	}
	return Committed{Call: o.Call, Outcome: o.text, Projection: o.projection, ByStore: o.ByStore, Replayed: replayed}
}

// submitOutcome accepts an outcome, or finds it there. Not done: the run has
// changed meanwhile.
func (s *Store) submitOutcome(ctx context.Context, c Caller, num uint32, epoch uint64, o *outcome, artifacts []entry) (replayed, done bool, err error) {
	was, err := s.current(num)
	if err != nil {
		return false, false, err
	}
	var b *wal.Batch
	if was.open(o.Call) != nil {
		// One batch: the outcome, what is shown of it, and what that refers to.
		entries := append([]entry{was.withOutcome(o.Call).entry(num)}, artifacts...)
		b = newBatch(num, append(entries, o.entry(num), outcomeRow(num, o))...)
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
			if r := s.noRoomForArtifacts(l, artifacts); r != nil {
				return l.answer(r)
			}
			return s.accept(l, lsn, b)
		}
		same, ok := l.tools.outcomes[o.Call]
		if !ok {
			return l.answer(unknownCall(o.Call))
		}
		if replayed = same == hashOf(num, []byte(o.Same)); replayed {
			return l.answer(nil)
		}
		return l.answer(outcomeConflict(o.Call, "outcome"))
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
	return &outcome{Call: call, ByStore: true, Same: sameness(text), text: text}
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

func outcomeConflict(call uint64, what string) *Refusal {
	r := refuse(OutcomeConflict, "the call %d has ended with another %s", call, what)
	r.Field, r.Call, r.State = what, call, "settled"
	return r
}

func unknownCall(call uint64) *Refusal {
	r := refuse(UnknownCall, "the run has no call %d", call)
	r.Field, r.Call = "call", call
	return r
}

// withCommitted adds what is committed of its call to a refusal.
func (s *Store) withCommitted(err error, num uint32) error {
	r, ok := err.(*Refusal)
	if !ok || r.State != "settled" {
		return err
	}
	if have, rerr := s.readOutcome(num, r.Call); rerr == nil && have != nil {
		c := committed(have, false)
		r.Committed = &c
	}
	return r
}
