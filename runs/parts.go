package runs

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"sort"
)

// The parts section of a segment tells where in it each run's rows, payloads
// and late writes lie, and its admission. It is read when somebody asks for
// them, and only as much of it as is needed:
//
//	head     32 bytes
//	parts    64 bytes each, by run
//	extents  16 bytes each, those of a run together and in order
//	marks    32 bytes each, the same
//
// Head: magic "PART", version 4 (0), segment 4, number of parts 4, of extents
// 4, of marks 4, zero 8.
const (
	partsHeadBytes  = 32
	partBytes       = 64
	extentPartBytes = 16
	markBytes       = 32
)

var partsMagic = [4]byte{'P', 'A', 'R', 'T'}

// part is what a segment has of a run. The segments in which a run has parts
// are a chain: the index knows the last, and each part the one before.
//
//	 0  4  run
//	 4  4  prev: the segment before in which it has parts, 0 for none
//	 8  4  number of its first row in the segment, 0 for none
//	12  4  rows
//	16  8  their bytes, rendered
//	24  4  late writes
//	28  4  zero
//	32  8  their bytes, rendered
//	40  4  1 if some of its rows were given with a key, else 0
//	44  4  first extent
//	48  4  extents
//	52  4  first mark
//	56  4  marks
//	60  4  zero
type part struct {
	prev      uint32
	firstSeq  uint32
	rows      uint32
	bytes     uint64
	lateRows  uint32
	lateBytes uint64
	keyed     bool

	// Where its extents and marks stand in the section; set when it is written.
	extentAt, extentN, markAt, markN uint32
}

// mark is where an entry is that is not found by its number.
//
//	 0  4  kind of the entry
//	 4  4  offset of its frame
//	 8  4  its number in the batch
//	12  4  zero
//	16 16  of a payload, and of the deletion of one: the hash of run and name; of a late write: where its
//	       line begins among those of the run in this segment (8), zero; else zero
type mark struct {
	kind   kind
	offset uint32
	entry  uint32
	off    uint64
	name   hash16
}

func (r *derivedRun) hasParts() bool { return r.rows > 0 || len(r.marks) > 0 }

// writeParts writes the section.
func (d *derived) writeParts(w io.Writer) error {
	var parts, extents, marks []byte
	le := binary.LittleEndian
	count := [3]uint32{}
	for _, num := range d.sorted() {
		r := d.runs[num]
		if !r.hasParts() {
			continue
		}
		r.extentAt, r.extentN, r.markAt, r.markN = count[1], uint32(len(r.extents)), count[2], uint32(len(r.marks))
		count[0]++
		count[1] += r.extentN
		count[2] += r.markN
		parts = r.part.append(parts, num)
		for _, e := range r.extents {
			extents = le.AppendUint64(le.AppendUint32(le.AppendUint32(extents, e.offset), e.seq), uint64(e.off()))
		}
		for i := range r.marks {
			marks = r.marks[i].append(marks)
		}
	}
	head := append(partsMagic[:], 0, 0, 0, 0)
	for _, v := range [...]uint32{d.seg, count[0], count[1], count[2], 0, 0} {
		head = le.AppendUint32(head, v)
	}
	for _, b := range [...][]byte{head, parts, extents, marks} {
		if _, err := w.Write(b); err != nil {
			return err
		}
	}
	return nil
}

func (p *part) append(b []byte, run uint32) []byte {
	le := binary.LittleEndian
	b = le.AppendUint32(le.AppendUint32(b, run), p.prev)
	b = le.AppendUint64(le.AppendUint32(le.AppendUint32(b, p.firstSeq), p.rows), p.bytes)
	b = le.AppendUint64(le.AppendUint32(le.AppendUint32(b, p.lateRows), 0), p.lateBytes)
	keyed := uint32(0)
	if p.keyed {
		keyed = 1
	}
	for _, v := range [...]uint32{keyed, p.extentAt, p.extentN, p.markAt, p.markN, 0} {
		b = le.AppendUint32(b, v)
	}
	return b
}

func (m *mark) append(b []byte) []byte {
	le := binary.LittleEndian
	b = le.AppendUint32(le.AppendUint32(le.AppendUint32(b, uint32(m.kind)), m.offset), m.entry)
	b = le.AppendUint32(b, 0)
	if m.kind == kindLate {
		return le.AppendUint64(le.AppendUint64(b, m.off), 0)
	}
	return append(b, m.name[:]...)
}

var errParts = errors.New("runs: the parts of a segment are not well formed")

func badParts(format string, args ...any) error {
	return fmt.Errorf("%w: %s", errParts, fmt.Sprintf(format, args...))
}

// partsReader reads a parts section.
type partsReader struct {
	r                     io.ReaderAt
	seg                   uint32
	parts, extents, marks uint32
}

func openParts(r *io.SectionReader, seg uint32) (*partsReader, error) {
	var b [partsHeadBytes]byte
	if err := readAll(r, b[:], 0); err != nil {
		return nil, err
	}
	le := binary.LittleEndian
	p := &partsReader{r: r, seg: le.Uint32(b[8:]), parts: le.Uint32(b[12:]), extents: le.Uint32(b[16:]), marks: le.Uint32(b[20:])}
	size := partsHeadBytes + int64(p.parts)*partBytes + int64(p.extents)*extentPartBytes + int64(p.marks)*markBytes
	if [4]byte(b[:4]) != partsMagic || le.Uint32(b[4:]) != 0 || le.Uint64(b[24:]) != 0 || p.seg != seg || size != r.Size() {
		return nil, badParts("their head makes no sense")
	}
	return p, nil
}

// readAll reads all of p; a section that ends before is not well formed.
func readAll(r io.ReaderAt, p []byte, off int64) error {
	n, err := r.ReadAt(p, off)
	if n == len(p) {
		return nil
	}
	if err == nil || errors.Is(err, io.EOF) {
		return badParts("they end too soon")
	}
	return err
}

// find reads the part of a run; false if it has none.
func (p *partsReader) find(run uint32) (part, bool, error) {
	var failed error
	var b [partBytes]byte
	le := binary.LittleEndian
	i := sort.Search(int(p.parts), func(i int) bool {
		if failed == nil {
			failed = readAll(p.r, b[:4], partsHeadBytes+int64(i)*partBytes)
		}
		return le.Uint32(b[:]) >= run
	})
	if failed != nil || i == int(p.parts) {
		return part{}, false, failed
	}
	if err := readAll(p.r, b[:], partsHeadBytes+int64(i)*partBytes); err != nil {
		return part{}, false, err
	}
	if le.Uint32(b[:]) != run {
		return part{}, false, nil
	}
	found, err := parsePart(b[:])
	if err == nil && (uint64(found.extentAt)+uint64(found.extentN) > uint64(p.extents) ||
		uint64(found.markAt)+uint64(found.markN) > uint64(p.marks) || found.prev >= p.seg) {
		err = badParts("those of run %d are not where they should be", run)
	}
	return found, true, err
}

func parsePart(b []byte) (part, error) {
	le := binary.LittleEndian
	p := part{
		prev: le.Uint32(b[4:]), firstSeq: le.Uint32(b[8:]), rows: le.Uint32(b[12:]), bytes: le.Uint64(b[16:]),
		lateRows: le.Uint32(b[24:]), lateBytes: le.Uint64(b[32:]), keyed: le.Uint32(b[40:]) == 1,
		extentAt: le.Uint32(b[44:]), extentN: le.Uint32(b[48:]), markAt: le.Uint32(b[52:]), markN: le.Uint32(b[56:]),
	}
	if le.Uint32(b[28:]) != 0 || le.Uint32(b[40:]) > 1 || le.Uint32(b[60:]) != 0 || p.bytes > 1<<60 || p.lateBytes > 1<<60 {
		return p, badParts("the part of a run makes no sense")
	}
	return p, nil
}

// extentsOf reads the extents of a part; their offsets begin with 0.
func (p *partsReader) extentsOf(found *part) ([]extent, error) {
	b := make([]byte, int(found.extentN)*extentPartBytes)
	at := partsHeadBytes + int64(p.parts)*partBytes + int64(found.extentAt)*extentPartBytes
	if err := readAll(p.r, b, at); err != nil {
		return nil, err
	}
	list := make([]extent, found.extentN)
	le := binary.LittleEndian
	for i := range list {
		e := b[i*extentPartBytes:]
		off := le.Uint64(e[8:])
		list[i] = extent{p.seg, le.Uint32(e), le.Uint32(e[4:]), uint32(off), uint32(off >> 32)}
		if off > found.bytes || i > 0 && list[i].seq <= list[i-1].seq {
			return nil, badParts("the extents of a run are not in order")
		}
	}
	return list, nil
}

// marksOf reads the marks of a part.
func (p *partsReader) marksOf(found *part) ([]mark, error) {
	b := make([]byte, int(found.markN)*markBytes)
	at := partsHeadBytes + int64(p.parts)*partBytes + int64(p.extents)*extentPartBytes + int64(found.markAt)*markBytes
	if err := readAll(p.r, b, at); err != nil {
		return nil, err
	}
	list := make([]mark, found.markN)
	for i := range list {
		var err error
		if list[i], err = parseMark(b[i*markBytes:]); err != nil {
			return nil, err
		}
	}
	return list, nil
}

func parseMark(b []byte) (mark, error) {
	le := binary.LittleEndian
	k := le.Uint32(b)
	m := mark{kind: kind(k), offset: le.Uint32(b[4:]), entry: le.Uint32(b[8:])}
	rest := hash16(b[16:32])
	switch {
	case k == uint32(kindLate):
		m.off = le.Uint64(b[16:])
		if le.Uint64(b[24:]) != 0 || m.off > 1<<60 {
			return m, badParts("the mark of a late write makes no sense")
		}
	case k == uint32(kindPayload), k == uint32(kindDeleted):
		m.name = rest
	case k != uint32(kindAdmission) || rest != hash16{}:
		return m, badParts("a mark is of kind %d", k)
	}
	if le.Uint32(b[12:]) != 0 {
		return m, badParts("a mark makes no sense")
	}
	return m, nil
}
