package runs

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"

	"durafs/wal"
)

// FormatVersion is the version of the encoding of batches. Version 0 may
// change without migration.
const FormatVersion = 0

// A batch, as it stands in a frame's payload, is its entries, one after the
// other (the body), and the stamp. The body is encoded and checksummed before
// the accept step; the stamp is what only the accept step knows.
//
// Entry: a header of 12 bytes, then len bytes.
//
//	kind  1   see entry.go
//	flags 1   by kind
//	zero  2
//	len   4   of what follows, at most wal.BatchBytesMax
//	run   4   number of the run, from 1; 0 for what is of the whole store
//
// Stamp: 16 bytes for each run of the batch, in the order in which they first
// appear in it, then 20 bytes.
//
//	run      4
//	ordinal  4   that the batch's first payload of the run gets, or the next would
//	seq      8   that its first row of the run gets, or the next would
//
//	time     8   Unix nanoseconds; all entries of the batch happened then
//	journal  8   LSN of the change before this one of the journal that it has a row for, 0 for none
//	runs     2   how many
//	version  1   FormatVersion
//	zero     1
//
// Integers are little-endian. What a reader is shown is a function of the
// entries and the stamp, never of placement: the inline bytes and the pack
// hint of a payload stand beside its id, and may change when the log is
// rewritten.
//
// The smallest batch, a beat without a note, has 12 + 16 + 20 = 48 bytes; with
// the frame's header 96.
const (
	entryHeaderBytes = 12
	stampRunBytes    = 16
	stampTailBytes   = 20
	batchRunsMax     = 1024
)

// batch is the decoded form, and what is handed to apply: by Publish with what
// the accept step made, by Replay with what was read back.
type batch struct {
	entries []entry
	stamp   stamp

	// copiedAt is the time that the accept step stamps, where what the batch
	// holds happened before: Unix nanoseconds, 0 for now.
	copiedAt int64
}

type entry struct {
	kind  kind
	flags uint8
	run   uint32
	body  []byte

	// What parsing the body gives, kept by the step that made it; nil at
	// replay.
	rec     *record
	claim   *claim
	outcome *outcome
	setting *setting
}

type stamp struct {
	at      int64 // Unix nanoseconds
	journal uint64
	runs    []stampRun
}

type stampRun struct {
	run     uint32
	ordinal uint32
	seq     uint64
}

var errBatch = errors.New("runs: the batch is not well formed")

func badBatch(format string, args ...any) error {
	return fmt.Errorf("%w: %s", errBatch, fmt.Sprintf(format, args...))
}

// appendEntries encodes the body.
func appendEntries(b []byte, entries []entry) []byte {
	for _, e := range entries {
		b = append(b, byte(e.kind), e.flags, 0, 0)
		b = binary.LittleEndian.AppendUint32(b, uint32(len(e.body)))
		b = binary.LittleEndian.AppendUint32(b, e.run)
		b = append(b, e.body...)
	}
	return b
}

func entriesBytes(entries []entry) int {
	n := 0
	for _, e := range entries {
		n += entryHeaderBytes + len(e.body)
	}
	return n
}

func appendStamp(b []byte, s stamp) []byte {
	for _, r := range s.runs {
		b = binary.LittleEndian.AppendUint32(b, r.run)
		b = binary.LittleEndian.AppendUint32(b, r.ordinal)
		b = binary.LittleEndian.AppendUint64(b, r.seq)
	}
	b = binary.LittleEndian.AppendUint64(b, uint64(s.at))
	b = binary.LittleEndian.AppendUint64(b, s.journal)
	b = binary.LittleEndian.AppendUint16(b, uint16(len(s.runs)))
	return append(b, FormatVersion, 0)
}

// decodeBatch is the inverse of appendEntries and appendStamp. The batch
// refers to p. Exactly what they write is taken: decoding and encoding again
// gives p.
func decodeBatch(p []byte) (*batch, error) {
	b := new(batch)
	return b, b.decode(p)
}

// decode is decodeBatch into b, whose slices are used again.
func (b *batch) decode(p []byte) error {
	if len(p) > wal.BatchBytesMax {
		return badBatch("it has %d bytes", len(p))
	}
	body, err := b.stamp.decode(p)
	if err != nil {
		return err
	}
	b.entries = b.entries[:0]
	for len(body) > 0 {
		e, n, err := decodeEntry(body)
		if err != nil {
			return err
		}
		b.entries = append(b.entries, e)
		body = body[n:]
	}
	return b.checkRuns()
}

func (s *stamp) decode(p []byte) (body []byte, err error) {
	n := len(p) - stampTailBytes
	if n < 0 {
		return nil, badBatch("it has no stamp")
	}
	tail := p[n:]
	if tail[18] != FormatVersion || tail[19] != 0 {
		return nil, badBatch("its version is %d, and this program knows %d", tail[18], FormatVersion)
	}
	s.at = int64(binary.LittleEndian.Uint64(tail))
	s.journal = binary.LittleEndian.Uint64(tail[8:])
	count := int(binary.LittleEndian.Uint16(tail[16:]))
	n -= count * stampRunBytes
	if count == 0 || count > batchRunsMax || n < 0 {
		return nil, badBatch("its stamp has %d runs", count)
	}
	s.runs = slices.Grow(s.runs[:0], count)[:count]
	for i := range s.runs {
		r := p[n+i*stampRunBytes:]
		s.runs[i] = stampRun{
			run:     binary.LittleEndian.Uint32(r),
			ordinal: binary.LittleEndian.Uint32(r[4:]),
			seq:     binary.LittleEndian.Uint64(r[8:]),
		}
	}
	return p[:n], nil
}

func decodeEntry(b []byte) (e entry, n int, err error) {
	if len(b) < entryHeaderBytes {
		return e, 0, badBatch("it ends in the header of an entry")
	}
	size := int64(binary.LittleEndian.Uint32(b[4:]))
	if size > int64(len(b)-entryHeaderBytes) {
		return e, 0, badBatch("an entry of %d bytes is longer than what is left", size)
	}
	n = entryHeaderBytes + int(size)
	e = entry{kind: kind(b[0]), flags: b[1], run: binary.LittleEndian.Uint32(b[8:]), body: b[entryHeaderBytes:n:n]}
	switch {
	case !e.kind.known():
		return e, 0, badBatch("the kind of an entry is %d", e.kind)
	case e.flags&^kinds[e.kind].flags != 0 || b[2] != 0 || b[3] != 0:
		return e, 0, badBatch("an entry has unknown flags")
	case !kinds[e.kind].anyRun && (e.run == 0) != kinds[e.kind].noRun:
		return e, 0, badBatch("an entry belongs to run %d", e.run)
	}
	return e, n, nil
}

// checkRuns holds the stamp's runs against those of the entries.
func (b *batch) checkRuns() error {
	if len(b.entries) == 0 {
		return badBatch("it has no entries")
	}
	next := 0
	for _, e := range b.entries {
		if b.stamp.find(e.run) >= 0 && b.stamp.find(e.run) < next {
			continue
		}
		if next == len(b.stamp.runs) || b.stamp.runs[next].run != e.run {
			return badBatch("its stamp does not match its entries")
		}
		next++
	}
	if next != len(b.stamp.runs) {
		return badBatch("its stamp names runs that it has nothing of")
	}
	for i, r := range b.stamp.runs {
		if b.stamp.find(r.run) != i {
			return badBatch("its stamp names a run twice")
		}
	}
	return nil
}

func (s *stamp) find(run uint32) int {
	for i := range s.runs {
		if s.runs[i].run == run {
			return i
		}
	}
	return -1
}
