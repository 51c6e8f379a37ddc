package runs

import (
	"cmp"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"io"
	"unicode/utf8"

	"github.com/zeebo/blake3"

	"durafs/cas"
	"durafs/internal/mutant"
	"durafs/wal"
)

// A settlement is seven steps, each one batch:
//
//  1. the terminal payload gets its name (the bytes are durable before)
//  2. the outbox: the packet that says all that follows
//  3. the record goes to settling, and calls that are open are closed
//  4. the journal's terminal row
//  5. the thread's terminal message
//  6. the record goes to terminal or cancelled, and the run leaves the active set
//  7. the log's terminal row, a delivery for each sink, and the end of the outbox
//
// They are accepted as one decision and share one barrier, so that others see
// a running run or a finished one. A crash can leave any prefix of them on
// disk. Up to step 1 nothing has happened; from step 2 on, Boot does the rest
// from the outbox, through the same steps. A cancellation has no steps 1 and 3:
// its tombstone is in the record before.
//
// packet is the outbox: small, whatever the answer's size.
type packet struct {
	Status  Status       `json:"status"`
	Summary string       `json:"summary"`
	Result  string       `json:"result,omitempty"`
	Digest  string       `json:"digest"` // of the whole outcome, to tell a repetition
	Payload *PayloadInfo `json:"payload,omitempty"`
	Thread  string       `json:"thread,omitempty"`
	// Cancelled is true for the packet of a cancellation, and Abort what
	// became of asking the agent.
	Cancelled bool   `json:"cancelled,omitempty"`
	Abort     string `json:"abort,omitempty"`
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
	if mutant.On(mutant.OutboxDoneEarly) {
		step(entry{kind: kindOutboxDone, run: num})
	}
	if !pk.Cancelled && rec.phase != Settling && !rec.phase.sealed() {
		rec = rec.next()
		rec.phase, rec.Outcome, rec.OpenCalls = Settling, pk.Digest, nil
		rec.Resume.FromPhase, rec.Allow = "", nil
		step(append([]entry{rec.entry(num)}, closeCalls(num, st.rec.OpenCalls, "the run has ended")...)...)
	}
	if !st.journaled {
		step(journalRow(num, rec, onceTerminal, append([]any{"type", pk.word(), "run", rec.ID}, pk.told()...)...))
	}
	if pk.Thread != "" && !st.threaded {
		flags := onceTerminal
		if st.payload != nil {
			flags |= threadAnswer
		}
		step((&note{name: pk.Thread, json: s.answerMessage(rec.ID, pk, st.payload)}).entry(kindThread, flags, num))
	}
	if !rec.phase.sealed() {
		open := rec.OpenCalls
		rec = rec.next()
		pk.end(rec)
		step(append([]entry{rec.entry(num)}, closeCalls(num, open, "the run was cancelled")...)...)
	}
	last := []entry{ownRow(num, append(append([]any{"type", pk.word()}, pk.told()...), "payload", payloadNote(pk.Payload))...)}
	for _, sink := range s.outbox.sinks {
		last = append(last, (&delivery{sink: sink, born: true}).entry(num))
	}
	if !mutant.On(mutant.OutboxDoneEarly) {
		last = append(last, entry{kind: kindOutboxDone, run: num})
	}
	step(last...)
	return batches
}

// word is what rows call this end of a run.
func (pk *packet) word() string {
	if pk.Cancelled {
		return "cancelled"
	}
	return "terminal"
}

// told is what rows tell of it.
func (pk *packet) told() []any {
	if pk.Cancelled {
		return []any{"abort", pk.Abort}
	}
	return []any{"status", pk.Status, "summary", pk.Summary}
}

// end lets a record be the run's last one.
func (pk *packet) end(rec *record) {
	if pk.Cancelled {
		rec.phase, rec.OpenCalls = Cancelled, nil
		return
	}
	rec.phase = Terminal
	rec.Terminal = &Outcome{Status: pk.Status, Summary: pk.Summary, Result: pk.Result}
	if pk.Payload != nil {
		info := *pk.Payload
		rec.Terminal.Payload = &info
	}
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
	if pk.Cancelled {
		return object("role", "assistant", "run", id, "status", "cancelled", "text", pk.Summary)
	}
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
