package runs

import (
	"context"
	"unicode/utf8"

	"durafs/wal"
)

// Bounds of an outcome. What is longer than a preview is cut there; the
// complete answer is the payload.
const (
	OutcomeTextBytesMax = 256 << 10 // of summary and result, at the door
	SummaryBytesMax     = 1 << 10   // in the record
	ResultBytesMax      = 8 << 10   // in the record
	digestHeadBytes     = 4 << 10   // of a long answer, in its thread
)

// Settle ends the run. Needs the writer token. The same outcome again answers
// the committed record; another one is a conflict.
func (s *Store) Settle(ctx context.Context, c Caller, id string, r SettleRequest) (Settled, error) {
	if err := checkSettle(&r); err != nil {
		return Settled{}, err
	}
	lateCopy := lateWrite{What: "settle", Name: string(r.Status), Text: r.Summary}
	num, epoch, err := s.gate(ctx, c, id, evSettle)
	if err != nil {
		return Settled{}, s.keepLate(ctx, num, epoch, err, lateCopy)
	}
	defer s.cas.Hold()()
	pl, err := s.terminalPayload(ctx, num, &r)
	if err != nil {
		return Settled{}, err
	}
	var replayed bool
	err = retry(ctx, func() (done bool, err error) {
		replayed, done, err = s.submitSettle(ctx, c, num, epoch, &r, pl)
		return done, err
	})
	if err != nil {
		return Settled{}, s.keepLate(ctx, num, epoch, err, lateCopy)
	}
	rec, tag, err := s.recordFor(c, num)
	return Settled{Record: rec, ETag: tag, Replayed: replayed}, err
}

func checkSettle(r *SettleRequest) error {
	switch r.Status {
	case Success, Failure, Aborted:
	default:
		b := refuse(BadStatus, "the status is %s", quote(string(r.Status)))
		b.Field = "status"
		return b
	}
	for _, f := range []struct{ name, text string }{{"summary", r.Summary}, {"result", r.Result}} {
		if len(f.text) > OutcomeTextBytesMax {
			return tooLarge(f.name, int64(len(f.text)), OutcomeTextBytesMax)
		}
		if !utf8.ValidString(f.text) {
			b := refuse(RowInvalid, "the %s is not valid UTF-8", f.name)
			b.Field = f.name
			return b
		}
	}
	if r.Payload != nil && r.PayloadName != "" {
		b := refuse(BadName, "the request has a payload and names one, %s", quote(r.PayloadName))
		b.Field = "payload"
		return b
	}
	if _, err := checkPut("payload", SourceNamed, r.ContentType); err != nil {
		return err
	}
	return nil
}

// terminalPayload makes the answer durable, or finds it among what was put
// before; nil if there is none.
func (s *Store) terminalPayload(ctx context.Context, num uint32, r *SettleRequest) (*payload, error) {
	switch {
	case r.Payload != nil:
		ref, err := s.cas.Put(ctx, r.Payload)
		if err != nil {
			return nil, err
		}
		return &payload{name: TerminalName, contentType: r.ContentType, source: numTerminal, ref: ref}, nil
	case r.PayloadName != "":
		f, err := s.showPayload(Ref(num), r.PayloadName)
		if err != nil {
			return nil, err
		}
		ctype := r.ContentType
		if ctype == "" {
			ctype = f.contentType
		}
		return &payload{name: TerminalName, contentType: ctype, source: numTerminal, ref: f.ref}, nil
	}
	return nil, nil
}

// submitSettle accepts the settlement, or compares it with the one that was
// first. Not done: the record has changed meanwhile.
func (s *Store) submitSettle(ctx context.Context, c Caller, num uint32, epoch uint64, r *SettleRequest, pl *payload) (replayed, done bool, err error) {
	rec, err := s.current(num)
	if err != nil {
		return false, false, err
	}
	pk := newPacket(r, rec, pl)
	var batches []*wal.Batch
	if rec.phase == Running {
		batches = s.settlement(&settling{num: num, rec: rec, payload: pl}, pk)
	}
	done = true
	err = s.do(ctx, wal.Reserved, func(lsn uint64) wal.Decision {
		l := s.view(num)
		if r := s.fence(l, c, epoch, evSettle); r != nil {
			return l.answer(r)
		}
		if l.revision != rec.revision {
			done = false
			return wal.Decision{}
		}
		if transitions[l.phase][evSettle].verdict == adopted {
			if replayed = rec.Outcome == pk.Digest; replayed {
				return l.answer(nil)
			}
			return l.answer(settleConflict(l, rec))
		}
		if tag := etag(l.admission, l.revision); r.IfMatch != "" && r.IfMatch != tag {
			return l.answer(mismatch(l, r.IfMatch))
		}
		return s.accept(l, lsn, batches...)
	})
	return replayed, done, err
}

func settleConflict(l *live, rec *record) *Refusal {
	r := refuse(SettleConflict, "the run %s has ended with another outcome", rec.ID)
	if rec.Terminal != nil {
		r.Detail += ", " + string(rec.Terminal.Status)
	}
	r.Phase, r.Revision, r.ETag = l.phase.String(), l.revision, etag(l.admission, l.revision)
	return r
}

func mismatch(l *live, saw string) *Refusal {
	r := refuse(RevisionMismatch, "the record is %s, and the request saw %s", etag(l.admission, l.revision), quote(saw))
	r.Phase, r.Revision, r.ETag = l.phase.String(), l.revision, etag(l.admission, l.revision)
	return r
}
