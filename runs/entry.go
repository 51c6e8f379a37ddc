package runs

import (
	"encoding/binary"
	"encoding/json"
	"time"

	"durafs/cas"
)

// kind says what an entry is.
type kind uint8

const (
	kindAdmission  kind = 1 + iota // a run begins to exist
	kindRecord                     // a revision of its record
	kindRow                        // a row of its log
	kindPayload                    // a payload, under a name
	kindBeat                       // a heartbeat; body: the note, text
	kindLate                       // a late write; body: a JSON object
	kindJournal                    // a row of a target's journal
	kindThread                     // a message of a thread
	kindOutbox                     // the packet of a settlement under way; body: JSON
	kindOutboxDone                 // it was processed to its end; no body
	kindClaim                      // T1: a tool call before its effect
	kindOutcome                    // T2: what became of it
	kindSetting                    // what owners have said for the whole store; of no run
	kindRemoved                    // the admission of a run is undone; body: JSON
	kindDelivery                   // a run's end waits to be told to a sink
	kindDelivered                  // it was, or will not be

	kindStaged  kind = 17 // what stands beside it is of a run to come; no body
	kindDeleted kind = 19 // an owner has deleted a payload; body: JSON
	kindCount   kind = 20
)

// known reports whether there is such a kind.
func (k kind) known() bool {
	return 0 < k && k <= kindStaged || k == kindDeleted
}

// Flags of entries.
const (
	rowByStore uint8 = 1 << 0 // the store's own row: the line has by and time
	rowKeyed   uint8 = 1 << 1 // key and body hash stand before the text
	rowPreview uint8 = 1 << 2 // of a row too large for the log: it names a payload

	payloadInline uint8 = 1 << 0 // its bytes stand at the end of the entry

	admissionKeyed uint8 = 1 << 0 // the start had an idempotency key

	deliveryParked   uint8 = 1 << 0 // nobody tries it again by himself
	deliveryBorn     uint8 = 1 << 1 // it is the first of its run and sink
	deliveredDropped uint8 = 1 << 0 // an owner has given it up

	onceTerminal uint8 = 1 << 0 // of a journal or thread entry: the one that a run's end writes
	threadKeyed  uint8 = 1 << 1 // the message was posted with an idempotency key
	threadAnswer uint8 = 1 << 2 // a payload has the whole answer
)

var kinds = [kindCount]struct {
	flags  uint8
	noRun  bool // it is of the whole store
	anyRun bool // it may be
}{
	kindRow:       {flags: rowByStore | rowKeyed | rowPreview},
	kindPayload:   {flags: payloadInline},
	kindAdmission: {flags: admissionKeyed},
	kindJournal:   {flags: onceTerminal},
	kindThread:    {flags: onceTerminal | threadKeyed | threadAnswer, anyRun: true},
	kindSetting:   {noRun: true},
	kindDelivery:  {flags: deliveryParked | deliveryBorn},
	kindDelivered: {flags: deliveredDropped},
}

// admission is the body of an admission entry: who the run is. It never
// changes.
//
//	salt    32  random, private: makes the entry's hash unguessable
//	key     16  BLAKE3 of the idempotency key } only with the flag
//	body    16  BLAKE3 of the request         } admissionKeyed
//	text        id, parent, labels, as in arena.go
//	target  1 + length and name of the journal's target
type admission struct {
	salt      [32]byte
	keyed     bool
	key, body hash16
	id        string
	parent    string
	labels    Labels
	target    string
}

func (a *admission) entry(run uint32) entry {
	e := entry{kind: kindAdmission, run: run, body: a.salt[:]}
	if a.keyed {
		e.flags |= admissionKeyed
		e.body = append(append(e.body, a.key[:]...), a.body[:]...)
	}
	e.body = append(e.body, encodeText(a.id, a.parent, a.labels)...)
	e.body = append(e.body, byte(len(a.target)))
	e.body = append(e.body, a.target...)
	return e
}

func parseAdmission(e entry) (*admission, error) {
	a := &admission{keyed: e.flags&admissionKeyed != 0}
	r := reader{b: e.body}
	copy(a.salt[:], r.take(len(a.salt)))
	if a.keyed {
		copy(a.key[:], r.take(len(a.key)))
		copy(a.body[:], r.take(len(a.body)))
	}
	a.id, a.parent = r.textID(), r.textID()
	a.labels = r.labels()
	a.target = string(r.take(int(r.byte())))
	if a.id == "" || a.target == "" {
		r.bad = true
	}
	return a, r.end("an admission")
}

// payload is the body of a payload entry: what it is, and where.
//
//	bytes   8
//	id      32  BLAKE3 of the bytes
//	pack    4   } placement: may be stale
//	offset  4   }
//	end     4   }
//	source  1
//	name    1 + length and name
//	type    1 + length and content type
//	inline      the bytes themselves, with the flag payloadInline
type payload struct {
	name, contentType string
	source            sourceNumber
	ref               cas.Ref
}

const payloadFixedBytes = 8 + 32 + 12 + 1

func (p *payload) entry(run uint32) entry {
	b := make([]byte, 0, payloadFixedBytes+2+len(p.name)+len(p.contentType)+len(p.ref.Inline))
	b = binary.LittleEndian.AppendUint64(b, uint64(p.ref.Bytes))
	b = append(b, p.ref.ID[:]...)
	b = binary.LittleEndian.AppendUint32(b, p.ref.Hint.Pack)
	b = binary.LittleEndian.AppendUint32(b, p.ref.Hint.Offset)
	b = binary.LittleEndian.AppendUint32(b, p.ref.Hint.End)
	b = append(b, byte(p.source), byte(len(p.name)))
	b = append(b, p.name...)
	b = append(b, byte(len(p.contentType)))
	b = append(b, p.contentType...)
	e := entry{kind: kindPayload, run: run, body: b}
	if p.ref.Inline != nil {
		e.flags = payloadInline
		e.body = append(e.body, p.ref.Inline...)
	}
	return e
}

func parsePayload(e entry) (*payload, error) {
	r := reader{b: e.body}
	p := new(payload)
	p.ref.Bytes = int64(r.uint64())
	copy(p.ref.ID[:], r.take(len(p.ref.ID)))
	p.ref.Hint = cas.Hint{Pack: r.uint32(), Offset: r.uint32(), End: r.uint32()}
	p.source = sourceNumber(r.byte())
	p.name = string(r.take(int(r.byte())))
	p.contentType = string(r.take(int(r.byte())))
	if e.flags&payloadInline != 0 {
		p.ref.Inline = r.rest()
		r.bad = r.bad || int64(len(p.ref.Inline)) != p.ref.Bytes || len(p.ref.Inline) > cas.InlineBytesMax
	}
	if p.ref.Bytes < 0 || p.name == "" || p.source == 0 || p.source >= sourceCount {
		r.bad = true
	}
	return p, r.end("a payload")
}

// row is the body of a row entry: key and body hash (16 + 16) with the flag
// rowKeyed, then the text, one JSON object without line breaks.
type row struct {
	flags     uint8
	key, body hash16
	text      []byte
}

func (w *row) entry(run uint32) entry {
	e := entry{kind: kindRow, flags: w.flags, run: run, body: w.text}
	if w.flags&rowKeyed != 0 {
		e.body = make([]byte, 0, 2*len(w.key)+len(w.text))
		e.body = append(append(append(e.body, w.key[:]...), w.body[:]...), w.text...)
	}
	return e
}

func parseRow(e entry) (row, error) {
	w := row{flags: e.flags}
	r := reader{b: e.body}
	if e.flags&rowKeyed != 0 {
		copy(w.key[:], r.take(len(w.key)))
		copy(w.body[:], r.take(len(w.body)))
	}
	w.text = r.rest()
	if !r.bad && openBrace(w.text) < 0 {
		r.bad = true
	}
	return w, r.end("a row")
}

// note is the body of a thread entry: length (1 byte) and name of the thread,
// with the flag threadKeyed key and body hash (16 + 16), then the message, JSON.
type note struct {
	name      string
	keyed     bool
	key, body hash16
	json      []byte
}

func (n *note) entry(k kind, flags uint8, run uint32) entry {
	b := make([]byte, 0, 1+len(n.name)+len(n.json))
	b = append(append(b, byte(len(n.name))), n.name...)
	if n.keyed {
		flags |= threadKeyed
		b = append(append(b, n.key[:]...), n.body[:]...)
	}
	b = append(b, n.json...)
	return entry{kind: k, flags: flags, run: run, body: b}
}

func parseNote(e entry) (*note, error) {
	r := reader{b: e.body}
	n := &note{name: string(r.take(int(r.byte())))}
	if n.keyed = e.flags&threadKeyed != 0; n.keyed {
		copy(n.key[:], r.take(len(n.key)))
		copy(n.body[:], r.take(len(n.body)))
	}
	n.json = r.rest()
	if n.name == "" {
		r.bad = true
	}
	return n, r.end("a message")
}

// recordHeadBytes is what stands before the JSON of a record entry: what the
// index needs, so that replay parses no JSON.
//
//	revision 8
//	epoch    8
//	uid      4
//	phase    1
//	flags    1   4 the terminal payload belongs to the outcome, 8 pinned,
//	             16 the log has given way: as in the index, see recordFlags
//	zero     2
const recordHeadBytes = 24

type recordHead struct {
	revision, epoch uint64
	uid             uint32
	phase           Phase
	flags           runFlags
}

func (rec *record) entry(run uint32) entry {
	b := make([]byte, 0, recordHeadBytes+512)
	b = binary.LittleEndian.AppendUint64(b, rec.revision)
	b = binary.LittleEndian.AppendUint64(b, rec.epoch)
	b = binary.LittleEndian.AppendUint32(b, rec.uid)
	b = append(b, byte(rec.phase), byte(rec.flags()), 0, 0)
	return entry{kind: kindRecord, run: run, body: append(b, mustJSON(rec)...), rec: rec}
}

func parseRecordHead(e entry) (recordHead, []byte, error) {
	r := reader{b: e.body}
	h := recordHead{revision: r.uint64(), epoch: r.uint64(), uid: r.uint32(), phase: Phase(r.byte())}
	h.flags = runFlags(r.byte())
	zero1, zero2 := r.byte(), r.byte()
	r.bad = r.bad || h.flags&^recordFlags != 0 || zero1 != 0 || zero2 != 0
	if h.phase == PhaseNone || int(h.phase) >= phaseCount || h.revision == 0 || h.epoch == 0 || h.epoch > maxUint32 || h.revision > maxUint32 {
		r.bad = true
	}
	text := r.rest()
	return h, text, r.end("a record")
}

// parseRecord reads a record entry of a batch that was stamped at at, which is
// the time that its zero times stand for.
func parseRecord(e entry, at time.Time) (*record, error) {
	h, text, err := parseRecordHead(e)
	if err != nil {
		return nil, err
	}
	rec := &record{revision: h.revision, epoch: h.epoch, uid: h.uid, phase: h.phase}
	if err := json.Unmarshal(text, rec); err != nil {
		return nil, badBatch("a record: %v", err)
	}
	rec.setTimes(at)
	if rec.flags() != h.flags {
		return nil, badBatch("a record: it and its head differ")
	}
	return rec, nil
}

const maxUint32 = 1<<32 - 1
