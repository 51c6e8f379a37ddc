package runs

import (
	"cmp"
	"context"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"io"
	"unicode/utf8"

	"github.com/zeebo/blake3"

	"durafs/cas"
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

// A settlement is seven steps, each one batch:
//
//  1. the terminal payload gets its name (the bytes are durable before)
//  2. the outbox: the packet that says all that follows
//  3. the record goes to settling
//  4. the journal's terminal row
//  5. the thread's terminal message
//  6. the record goes to terminal, and the run leaves the active set
//  7. the log's terminal row, and the end of the outbox
//
// They are accepted as one decision and share one barrier, so that others see
// a running run or a finished one. A crash can leave any prefix of them on
// disk. Up to step 1 nothing has happened; from step 2 on, Boot does the rest
// from the outbox, through the same steps.
//
// packet is the outbox: small, whatever the answer's size.
type packet struct {
	Status  Status       `json:"status"`
	Summary string       `json:"summary"`
	Result  string       `json:"result,omitempty"`
	Digest  string       `json:"digest"` // of the whole outcome, to tell a repetition
	Payload *PayloadInfo `json:"payload,omitempty"`
	Thread  string       `json:"thread,omitempty"`
}

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
	t := s.decide(wal.Reserved, func(lsn uint64) wal.Decision {
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
	return replayed, done, t.Wait(ctx)
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

func newPacket(r *SettleRequest, rec *record, pl *payload) *packet {
	pk := &packet{
		Status: r.Status, Summary: cutText(r.Summary, SummaryBytesMax), Result: cutText(r.Result, ResultBytesMax),
		Digest: outcomeDigest(r, pl), Thread: rec.Labels["thread"],
	}
	if pl != nil {
		pk.Payload = &PayloadInfo{
			Name: pl.name, B3: pl.ref.ID, Bytes: pl.ref.Bytes, ContentType: pl.contentType, Source: SourceTerminal,
		}
	}
	return pk
}

// outcomeDigest is equal for equal outcomes: status, texts and the payload's
// bytes.
func outcomeDigest(r *SettleRequest, pl *payload) string {
	h := blake3.New()
	for _, part := range []string{string(r.Status), r.Summary, r.Result} {
		var n [8]byte
		binary.LittleEndian.PutUint64(n[:], uint64(len(part)))
		h.Write(n[:])
		h.WriteString(part)
	}
	if pl != nil {
		h.Write(pl.ref.ID[:])
	}
	return hex.EncodeToString(h.Sum(nil))
}

// settling is how far a settlement is.
type settling struct {
	num     uint32
	rec     *record
	payload *payload // the terminal payload, nil for none

	named     bool // step 1 is done
	boxed     bool // 2
	journaled bool // 4
	threaded  bool // 5
}

// settlement makes the batches of the steps that are left.
func (s *Store) settlement(st *settling, pk *packet) []*wal.Batch {
	var batches []*wal.Batch
	step := func(entries ...entry) { batches = append(batches, newBatch(st.num, entries...)) }
	num, rec := st.num, st.rec
	if st.payload != nil && !st.named {
		step(st.payload.entry(num))
	}
	if !st.boxed {
		step(entry{kind: kindOutbox, run: num, body: mustJSON(pk)})
	}
	if rec.phase == Running {
		rec = rec.next()
		rec.phase, rec.Outcome = Settling, pk.Digest
		step(rec.entry(num))
	}
	if !st.journaled {
		text := object("type", "terminal", "run", rec.ID, "status", pk.Status, "summary", pk.Summary)
		step((&note{rec.Target, cutJournalRow(text, rec.ID, pk)}).entry(kindJournal, onceTerminal, num))
	}
	if pk.Thread != "" && !st.threaded {
		step((&note{pk.Thread, s.answerMessage(rec.ID, pk, st.payload)}).entry(kindThread, onceTerminal, num))
	}
	if rec.phase == Settling {
		rec = rec.next()
		rec.phase = Terminal
		rec.Terminal = &Outcome{Status: pk.Status, Summary: pk.Summary, Result: pk.Result}
		if pk.Payload != nil {
			info := *pk.Payload
			rec.Terminal.Payload = &info
		}
		step(rec.entry(num))
	}
	step(terminalRow(num, pk), entry{kind: kindOutboxDone, run: num})
	return batches
}

// JournalRowBytesMax bounds a row of a journal.
const JournalRowBytesMax = 4 << 10

// cutJournalRow leaves out the summary where escapes make the row too long.
func cutJournalRow(text []byte, id string, pk *packet) []byte {
	if len(text) <= JournalRowBytesMax {
		return text
	}
	return object("type", "terminal", "run", id, "status", pk.Status)
}

func terminalRow(num uint32, pk *packet) entry {
	return ownRow(num, "type", "terminal", "status", pk.Status, "summary", pk.Summary, "payload", payloadNote(pk.Payload))
}

// payloadNote is how rows and messages tell of a payload; nil for none.
func payloadNote(p *PayloadInfo) any {
	if p == nil {
		return nil
	}
	return json.RawMessage(object("b3", p.B3, "bytes", p.Bytes, "content_type", p.ContentType))
}

// answerMessage is the thread's terminal message: the complete answer where it
// fits, else its beginning and where it is.
func (s *Store) answerMessage(id string, pk *packet, pl *payload) []byte {
	message := func(field, text string) []byte {
		return object("role", "assistant", "run", id, "status", pk.Status, field, text, "payload", payloadNote(pk.Payload))
	}
	if pl == nil {
		return message("text", cmp.Or(pk.Result, pk.Summary))
	}
	answer, err := s.readRef(pl.ref, MessageBytesMax)
	if err != nil {
		s.logger.Warn("the answer cannot be read for its thread", "run", id, "error", err)
		return message("digest", pk.Summary) // the reference stands; readers try it again
	}
	if int64(len(answer)) == pl.ref.Bytes && utf8.Valid(answer) {
		if m := message("text", string(answer)); len(m) <= MessageBytesMax {
			return m
		}
	}
	return message("digest", validText(cutText(string(answer), digestHeadBytes)))
}

// readRef reads at most max bytes from the beginning of a payload.
func (s *Store) readRef(ref cas.Ref, max int64) ([]byte, error) {
	r, err := s.openRef(ref)
	if err != nil {
		return nil, err
	}
	buf := make([]byte, min(max, r.Size()))
	if n, err := r.ReadAt(buf, 0); n < len(buf) {
		return nil, err
	} else if err != nil && err != io.EOF {
		return nil, err
	}
	return buf, nil
}
