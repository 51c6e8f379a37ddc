package runs

import (
	"bufio"
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
)

// The kinds of sections that this package keeps in the footers of segments.
const (
	sectionTable   = 1 // the run table: what an open needs of runs
	sectionWhole   = 2 // what it needs of the whole store
	sectionThreads = 3 // what it needs of threads
	sectionParts   = 4 // where each run's rows and payloads lie in the segment
	sectionKeys    = 5 // the rows that were given with a key
	sectionFilter  = 6 // which keys are certainly not among them
	sectionApart   = 8 // which runs none of these tell of: see apart.go
	// Number 7 is kept for the hashes of entries.
)

// A run table tells what the batches of some segments, from one to another,
// make of each run that they touch: what the index has to know of it. Adding
// tables up in the order of their segments gives the index that replaying the
// batches gives.
//
// The table in the footer of a segment is of that segment alone, or of it and
// of some before it; see merge.go. It is
//
//	blocks   of tableBlockRows runs, the last of fewer:
//	           rows   92 bytes each, by run
//	           texts  of the rows that have one, one after the other
//	packs     8 bytes each, by number
//	extras   28 bytes each, by run, kind and sink: what few runs have
//	head     64 bytes
//
// Head:
//
//	 0  4  magic "RUNS"
//	 4  4  version, 0
//	 8  4  first segment
//	12  4  last segment
//	16  4  number of rows
//	20  4  number of extras
//	24  4  number of packs
//	28  4  highest run number
//	32  8  bytes of all texts
//	40 24  zero
//
// Pack: number 4, and up to which offset it is referred to 4.
//
// Extra: run 4, kind 2, flags 2, sink 8, then 12 by kind: 1 outbox, its place;
// 2 the outbox of a segment before was done, zero; 3 late writes, how many 4,
// their bytes 8; 4 payloads that were deleted, how many 4, zero; 5 a delivery, its
// place; 6 the delivery of a segment before is over, zero. The sink's number is
// zero but for deliveries, and so are the flags: 1 it is parked, 2 these segments
// have its first entry.
const (
	tableHeadBytes  = 64
	tablePackBytes  = 8
	tableExtraBytes = 28
	tableRowBytes   = 92
	tableBlockRows  = 1024
)

var tableMagic = [4]byte{'R', 'U', 'N', 'S'}

type tableHead struct {
	from, to uint32 // segments
	rows     uint32
	extras   uint32
	packs    uint32
	newest   uint32
	texts    uint64 // bytes
}

var errTable = errors.New("runs: the table is not well formed")

func badTable(format string, args ...any) error {
	return fmt.Errorf("%w: %s", errTable, fmt.Sprintf(format, args...))
}

func (h *tableHead) append(b []byte) []byte {
	le := binary.LittleEndian
	b = append(b, tableMagic[:]...)
	for _, v := range [...]uint32{0, h.from, h.to, h.rows, h.extras, h.packs, h.newest} {
		b = le.AppendUint32(b, v)
	}
	return append(le.AppendUint64(b, h.texts), make([]byte, 24)...)
}

func parseTableHead(b []byte) (h tableHead, err error) {
	if len(b) < tableHeadBytes {
		return h, badTable("it is shorter than its head")
	}
	le := binary.LittleEndian
	h = tableHead{
		from: le.Uint32(b[8:]), to: le.Uint32(b[12:]), rows: le.Uint32(b[16:]), extras: le.Uint32(b[20:]),
		packs: le.Uint32(b[24:]), newest: le.Uint32(b[28:]), texts: le.Uint64(b[32:]),
	}
	if [4]byte(b[:4]) != tableMagic || le.Uint32(b[4:]) != 0 || !zeros(b[40:tableHeadBytes]) ||
		h.from == 0 || h.from > h.to {
		return h, badTable("its head makes no sense")
	}
	return h, nil
}

// bytes is the size of the whole table.
func (h *tableHead) bytes() int64 {
	return h.rowBytes() + int64(h.packs)*tablePackBytes + int64(h.extras)*tableExtraBytes + tableHeadBytes
}

// rowBytes is the size of the rows and their texts.
func (h *tableHead) rowBytes() int64 { return int64(h.rows)*tableRowBytes + int64(h.texts) }

// tableRow is what a table says of a run. A zero field says that nothing in
// its segments changed that.
//
//	 0  4  run
//	 4  4  lastSeq: number of its last row
//	 8  8  bytes of its rows in the table's segments, rendered
//	16  8  bytes that count beside these, less what was deleted: signed, see quota.go
//	24  4  payloads: how many ordinals were given
//	28  4  revision  }
//	32  4  epoch     } of the newest record
//	36  4  uid       }
//	40 12  its place }
//	52  8  admission: LSN  }
//	60  8  started         } only with the admission
//	68  8  changed: time of the last change
//	76  8  heartbeat
//	84  4  tail: the last of the segments in which it has parts
//	88  1  phase of the newest record
//	89  1  flags, see runFlags; 128: the start had an idempotency key; 64: the
//	       admission was undone, and the run with it; 32: something of it was
//	       staged before its admission
//	90  2  length of its text
//
// The text comes with the admission: the key (16 bytes), where there is one,
// then id, parent and labels as in arena.go. Of an admission that was undone,
// and stands in a table before, only the key is told.
type tableRow struct {
	run       uint32
	lastSeq   uint32
	bytes     uint64
	payloads  uint32
	revision  uint32
	epoch     uint32
	uid       uint32
	record    place
	admission uint64
	started   int64
	changed   int64
	heartbeat int64
	tail      uint32
	phase     Phase
	flags     runFlags
	text      []byte

	otherBytes int64

	// gone: the admission and its end are both in the table, which says nothing.
	gone bool
}

// These stand in tables only.
const (
	flagKeyed   runFlags = 128
	flagRemoved runFlags = 64
	flagStaged  runFlags = 32
)

func (r *tableRow) append(b []byte) []byte {
	le := binary.LittleEndian
	b = le.AppendUint64(le.AppendUint32(le.AppendUint32(b, r.run), r.lastSeq), r.bytes)
	b = le.AppendUint64(b, uint64(r.otherBytes))
	for _, v := range [...]uint32{r.payloads, r.revision, r.epoch, r.uid, r.record.segment, r.record.offset, r.record.entry} {
		b = le.AppendUint32(b, v)
	}
	b = le.AppendUint64(le.AppendUint64(b, r.admission), uint64(r.started))
	b = le.AppendUint64(le.AppendUint64(b, uint64(r.changed)), uint64(r.heartbeat))
	b = append(le.AppendUint32(b, r.tail), byte(r.phase), byte(r.flags))
	return le.AppendUint16(b, uint16(len(r.text)))
}

// decode reads a row; textBytes is the length of the text that belongs to it.
func (r *tableRow) decode(b []byte) (textBytes int) {
	_ = b[tableRowBytes-1]
	le := binary.LittleEndian
	r.run, r.lastSeq, r.bytes = le.Uint32(b), le.Uint32(b[4:]), le.Uint64(b[8:])
	r.otherBytes = int64(le.Uint64(b[16:]))
	r.payloads, r.revision, r.epoch, r.uid = le.Uint32(b[24:]), le.Uint32(b[28:]), le.Uint32(b[32:]), le.Uint32(b[36:])
	r.record = place{le.Uint32(b[40:]), le.Uint32(b[44:]), le.Uint32(b[48:])}
	r.admission, r.started = le.Uint64(b[52:]), int64(le.Uint64(b[60:]))
	r.changed, r.heartbeat = int64(le.Uint64(b[68:])), int64(le.Uint64(b[76:]))
	r.tail, r.phase, r.flags = le.Uint32(b[84:]), Phase(b[88]), runFlags(b[89])
	return int(le.Uint16(b[90:]))
}

// check holds what every row must keep, so that the index may trust it.
func (r *tableRow) check(last uint32, h *tableHead) error {
	switch {
	case r.run <= last || r.run > h.newest:
		return badTable("run %d stands behind run %d", r.run, last)
	case int(r.phase) >= phaseCount, (r.revision == 0) != (r.phase == PhaseNone), r.tail > h.to:
		return badTable("its row of run %d makes no sense", r.run)
	case r.flags&flagRemoved != 0:
		return r.checkRemoved()
	case (r.admission == 0) != (len(r.text) == 0), r.admission == 0 && r.flags&flagKeyed != 0:
		return badTable("run %d is admitted without an id, or not at all with one", r.run)
	}
	if r.admission == 0 {
		return nil
	}
	_, text := r.split()
	if text == nil || !validArenaText(text) {
		return badTable("the id, or a label, of run %d is not as it should be", r.run)
	}
	return nil
}

// checkRemoved: such a row has its number, and the key that the start had.
func (r *tableRow) checkRemoved() error {
	var key []byte
	if r.flags&flagKeyed != 0 {
		key = make([]byte, len(hash16{}))
	}
	only := tableRow{run: r.run, flags: r.flags & (flagRemoved | flagKeyed), text: key}
	if string(r.append(nil)) != string(only.append(nil)) {
		return badTable("its row of run %d, which was removed, says more than that", r.run)
	}
	return nil
}

// split cuts the key off the text; nil for none.
func (r *tableRow) split() (key, text []byte) {
	if r.flags&flagKeyed == 0 {
		return nil, r.text
	}
	if len(r.text) < len(hash16{}) {
		return nil, nil
	}
	return r.text[:len(hash16{})], r.text[len(hash16{}):]
}

// add changes r into what it and then next make together.
func (r *tableRow) add(next *tableRow) {
	if next.flags&flagRemoved != 0 {
		admitted := r.admission != 0
		*r = *next
		r.gone = admitted
		return
	}
	r.bytes += next.bytes
	r.otherBytes += next.otherBytes
	if next.revision != 0 {
		r.flags &^= recordFlags // the newest record says them
	}
	r.flags |= next.flags
	r.lastSeq, r.payloads = max(r.lastSeq, next.lastSeq), max(r.payloads, next.payloads)
	if next.revision != 0 {
		r.revision, r.epoch, r.uid, r.record, r.phase = next.revision, next.epoch, next.uid, next.record, next.phase
	}
	if next.admission != 0 {
		r.admission, r.started, r.text = next.admission, next.started, next.text
	}
	r.changed = max(r.changed, next.changed)
	if next.heartbeat != 0 {
		r.heartbeat = next.heartbeat
	}
	if next.tail != 0 {
		r.tail = next.tail
	}
}

// tablePack is up to where a pack is referred to.
type tablePack struct{ pack, end uint32 }

// tableExtra is what few runs have.
type tableExtra struct {
	run   uint32
	kind  extraKind
	flags uint16 // of a delivery
	sink  sinkID
	at    place  // of an outbox, or a delivery
	rows  uint32 // of late writes, or how many payloads were deleted
	bytes uint64
}

type extraKind uint16

const (
	extraOutbox extraKind = 1 + iota
	extraOutboxDone
	extraLate
	extraDeleted
	extraDelivery
	extraDelivered
)

const (
	extraParked uint16 = 1 << 0
	extraBorn   uint16 = 1 << 1
)

// extraKey is what tells one extra of a table from another.
type extraKey struct {
	run  uint32
	kind extraKind
	sink sinkID
}

func (e *tableExtra) key() extraKey { return extraKey{e.run, e.kind, e.sink} }

func (k extraKey) before(o extraKey) bool {
	return cmp.Or(cmp.Compare(k.run, o.run), cmp.Compare(k.kind, o.kind), cmp.Compare(k.sink, o.sink)) < 0
}

func (e *tableExtra) append(b []byte) []byte {
	le := binary.LittleEndian
	b = le.AppendUint16(le.AppendUint16(le.AppendUint32(b, e.run), uint16(e.kind)), e.flags)
	b = le.AppendUint64(b, uint64(e.sink))
	if e.kind == extraLate || e.kind == extraDeleted {
		return le.AppendUint64(le.AppendUint32(b, e.rows), e.bytes)
	}
	return le.AppendUint32(le.AppendUint32(le.AppendUint32(b, e.at.segment), e.at.offset), e.at.entry)
}

func parseTableExtra(b []byte) (e tableExtra, err error) {
	le := binary.LittleEndian
	e.run, e.kind, e.flags = le.Uint32(b), extraKind(le.Uint16(b[4:])), le.Uint16(b[6:])
	e.sink = sinkID(le.Uint64(b[8:]))
	flags, ofSink := uint16(0), false
	switch e.kind {
	case extraLate, extraDeleted:
		e.rows, e.bytes = le.Uint32(b[16:]), le.Uint64(b[20:])
		if e.kind == extraDeleted && e.bytes != 0 {
			err = badTable("payloads that were deleted have bytes")
		}
	case extraOutbox, extraOutboxDone, extraDelivery, extraDelivered:
		e.at = place{le.Uint32(b[16:]), le.Uint32(b[20:]), le.Uint32(b[24:])}
		over := e.kind == extraOutboxDone || e.kind == extraDelivered
		ofSink = e.kind == extraDelivery || e.kind == extraDelivered
		if e.kind == extraDelivery {
			flags = extraParked | extraBorn
		}
		if over && e.at != (place{}) {
			err = badTable("what is over has a place")
		}
	default:
		err = badTable("it has an extra of kind %d", e.kind)
	}
	if e.flags&^flags != 0 || !ofSink && e.sink != 0 {
		err = badTable("an extra of it makes no sense")
	}
	return e, err
}

// and is a delivery as it and then next make it, kind 0 where nothing is left to
// tell: it came and went in the same segments. What came before these segments
// must be ended by what is told of them.
func (e tableExtra) and(next tableExtra) tableExtra {
	born := e.kind == extraDelivery && e.flags&extraBorn != 0
	switch {
	case next.kind == extraDelivered && born:
		return tableExtra{}
	case next.kind == extraDelivery && born:
		next.flags |= extraBorn
	}
	return next
}

// tableReader reads a table from its beginning to its end.
type tableReader struct {
	tableHead
	packList  []tablePack
	extraList []tableExtra

	r     io.ReaderAt
	in    io.Reader
	left  uint32 // rows
	last  uint32 // run of the last row
	texts uint64 // bytes still to come
	block []byte // rows of the block
	text  []byte // texts of the block, from the next row's on
	space []byte
}

// readTableHead reads the head alone.
func readTableHead(r io.ReaderAt, size int64) (tableHead, error) {
	if size < tableHeadBytes {
		return tableHead{}, badTable("it is shorter than its head")
	}
	var b [tableHeadBytes]byte
	if _, err := r.ReadAt(b[:], size-tableHeadBytes); err != nil && !errors.Is(err, io.EOF) {
		return tableHead{}, err
	}
	h, err := parseTableHead(b[:])
	if err == nil && h.bytes() != size {
		err = badTable("it has %d bytes, not %d", size, h.bytes())
	}
	return h, err
}

// openTable reads all but the rows.
func openTable(r io.ReaderAt, size int64) (*tableReader, error) {
	h, err := readTableHead(r, size)
	if err != nil {
		return nil, err
	}
	t := &tableReader{tableHead: h, r: r, left: h.rows, texts: h.texts}
	rows := h.rowBytes()
	t.in = bufio.NewReader(io.NewSectionReader(r, rows, size-rows))
	if err := t.readPacks(); err != nil {
		return nil, err
	}
	if err := t.readExtras(); err != nil {
		return nil, err
	}
	t.in = io.NewSectionReader(r, 0, rows) // a block is read in two calls
	return t, nil
}

// ahead lets the rows be read ahead; stop must be called when no more will be
// read.
func (t *tableReader) ahead() (stop func()) {
	a := newReadAhead(t.r, t.rowBytes())
	t.in = a
	return a.close
}

func (t *tableReader) readPacks() error {
	for range t.packs {
		b, err := t.take(tablePackBytes)
		if err != nil {
			return err
		}
		p := tablePack{binary.LittleEndian.Uint32(b), binary.LittleEndian.Uint32(b[4:])}
		if n := len(t.packList); n > 0 && t.packList[n-1].pack >= p.pack {
			return badTable("its packs are not in order")
		}
		t.packList = append(t.packList, p)
	}
	return nil
}

func (t *tableReader) readExtras() error {
	for range t.extras {
		b, err := t.take(tableExtraBytes)
		if err != nil {
			return err
		}
		e, err := parseTableExtra(b)
		if err != nil {
			return err
		}
		if n := len(t.extraList); n > 0 && !t.extraList[n-1].key().before(e.key()) {
			return badTable("its extras are not in order")
		}
		t.extraList = append(t.extraList, e)
	}
	return nil
}

// take reads n bytes, which are good until the next call.
func (t *tableReader) take(n int) ([]byte, error) {
	if cap(t.space) < n {
		t.space = make([]byte, n)
	}
	b := t.space[:n]
	if _, err := io.ReadFull(t.in, b); err != nil {
		if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
			err = badTable("it ends too soon")
		}
		return nil, err
	}
	return b, nil
}

// next reads a row into r; its text is good until the next call. At the end it
// returns false.
func (t *tableReader) next(r *tableRow) (bool, error) {
	if len(t.block) == 0 {
		if t.left == 0 {
			if t.texts != 0 {
				return false, badTable("it has %d bytes of text too many", t.texts)
			}
			return false, nil
		}
		if err := t.readBlock(); err != nil {
			return false, err
		}
	}
	n := r.decode(t.block)
	t.block = t.block[tableRowBytes:]
	r.text, t.text = t.text[:n:n], t.text[n:]
	err := r.check(t.last, &t.tableHead)
	t.last = r.run
	return true, err
}

// readBlock reads a block's rows, and the texts that they say to have.
func (t *tableReader) readBlock() error {
	count := min(t.left, tableBlockRows)
	rows := int(count) * tableRowBytes
	b, err := t.take(rows)
	if err != nil {
		return err
	}
	texts := 0
	for at := tableRowBytes - 2; at < rows; at += tableRowBytes {
		texts += int(binary.LittleEndian.Uint16(b[at:]))
	}
	if uint64(texts) > t.texts {
		return badTable("its texts are longer than it says")
	}
	if cap(t.space) < rows+texts {
		t.space = append(make([]byte, 0, rows+2*texts), b...)
	}
	b = t.space[:rows+texts]
	if _, err := io.ReadFull(t.in, b[rows:]); err != nil {
		return badTable("it ends too soon")
	}
	t.block, t.text = b[:rows], b[rows:]
	t.left -= count
	t.texts -= uint64(texts)
	return nil
}

// tableWriter writes a table: add for each row, then end.
type tableWriter struct {
	w     io.Writer
	head  tableHead
	rows  []byte // of the block
	texts []byte
}

func (t *tableWriter) add(r *tableRow) error {
	t.rows = r.append(t.rows)
	t.texts = append(t.texts, r.text...)
	t.head.rows++
	t.head.texts += uint64(len(r.text))
	if len(t.rows) == tableBlockRows*tableRowBytes {
		return t.flush()
	}
	return nil
}

func (t *tableWriter) flush() error {
	_, err := t.w.Write(t.rows)
	if err == nil {
		_, err = t.w.Write(t.texts)
	}
	t.rows, t.texts = t.rows[:0], t.texts[:0]
	return err
}

// end writes what stands behind the rows. Of h the fields from, to and newest
// count.
func (t *tableWriter) end(h tableHead, packs []tablePack, extras []tableExtra) error {
	if err := t.flush(); err != nil {
		return err
	}
	h.rows, h.texts = t.head.rows, t.head.texts
	h.packs, h.extras = uint32(len(packs)), uint32(len(extras))
	var b []byte
	for _, p := range packs {
		b = binary.LittleEndian.AppendUint32(binary.LittleEndian.AppendUint32(b, p.pack), p.end)
	}
	for i := range extras {
		b = extras[i].append(b)
	}
	t.head = h
	_, err := t.w.Write(h.append(b))
	return err
}

func zeros(b []byte) bool {
	for _, c := range b {
		if c != 0 {
			return false
		}
	}
	return true
}
