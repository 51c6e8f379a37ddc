// Package segment is the byte form of one append-only file: a header block and
// frames behind it, and a walk that tells exactly where what can be believed
// ends.
//
// # The idea
//
// A file begins with a header block. Frames follow, each on an 8-byte
// boundary, each whole or absent. Every frame carries a checksum over its own
// header, keyed with the file's random salt and the frame's own offset, and a
// checksum over its payload. So a frame that was written to another place, or
// by an earlier use of the same blocks, does not check (see Key); and a header that
// checks has lengths that can be walked on, even when its payload is damaged.
//
// Every frame also says which LSN was known durable when it was written. Where
// a walk finds a frame that does not check, that number, in any frame behind
// it, is what tells a torn write from rot: a frame that was never promised may
// be missing, a frame that a later one calls durable may not.
//
// The package writes nothing and syncs nothing; package wal does.
//
// # Header block
//
// 4096 bytes; all fields in the first 512, the rest zero. Integers are
// little-endian.
//
//	 0  8  magic "durafs\r\n"
//	 8  4  format version, 0
//	12  1  kind of file: 1 log, 2 manifest
//	13  3  zero
//	16  4  flags: 1 recycled (behind the frames lie those of another file)
//	20  4  id of the segment
//	24 16  store uuid
//	40  8  salt
//	48  4  generation
//	52  4  lane, 0
//	56  8  lane epoch, 0
//	64  4  n, number of segments that this one replaces, at most 64
//	68 4n  their ids
//	   …   zero
//	508 4  CRC-32C of the bytes 0 to 507
//
// # Frame
//
//	 0  4  CRC-32C of salt (8 bytes), offset (8 bytes) and the bytes 4 to 47
//	 4  4  CRC-32C of the payload
//	 8  4  n, payload length, at most 1 MiB
//	12  1  header length, 48
//	13  1  kind: 1 batch, 2 pad, 3 barrier, 4 manifest
//	14  2  flags, none known
//	16  8  LSN
//	24  8  durable: the highest LSN known durable when this frame was written
//	32  8  run: the run's dense number, 0 for several
//	40  4  count of entries; 0 for a pad or a barrier, else at least 1
//	44  4  prev: the first field of the frame before, 0 for the first frame
//	48  n  payload
//	       zeros to the next 8-byte boundary
package segment

import (
	"errors"
	"fmt"
	"hash/crc32"
)

const (
	// Version is the format version that this package writes and the highest
	// that it reads.
	Version = 0
	// HeaderBytes is the size of the header block; the first frame follows.
	HeaderBytes = 4096
	// headerFieldBytes is what of the header block has fields.
	headerFieldBytes = 512
	// ReplacesMax bounds Header.Replaces.
	ReplacesMax = 64

	// FrameHeaderBytes is the size of a frame's header.
	FrameHeaderBytes = 48
	// PayloadBytesMax bounds a frame's payload, for writers and readers.
	PayloadBytesMax = 1 << 20
	// Align is the boundary that frames begin on.
	Align = 8
	// FrameBytesMax is the size of the largest frame.
	FrameBytesMax = FrameHeaderBytes + PayloadBytesMax
)

// ErrUnknownFlag is a flag, kind of file or kind of frame that this version
// does not know, in a place whose checksum is right: the file is from a later
// version, not damaged.
var ErrUnknownFlag = errors.New("segment: unknown flag")

// FutureVersionError is a file whose format version is above Version.
type FutureVersionError struct{ Version uint32 }

func (e *FutureVersionError) Error() string {
	return fmt.Sprintf("segment: format version %d is from a later durafs (this one reads up to %d)", e.Version, Version)
}

// InvalidError tells where and why bytes are not what they should be.
type InvalidError struct {
	Offset int64
	Reason string
}

// Reasons of an InvalidError that are no sign of anything wrong: nothing was
// written there yet, or nothing could be.
const (
	ReasonZeros  = "zeros where a frame should be"
	ReasonNoRoom = "no room for a frame before the end"
	// ReasonHeader is one in a recycled file, where something else stood.
	ReasonHeader = "header checksum is wrong"
)

func (e *InvalidError) Error() string {
	return fmt.Sprintf("segment: invalid at offset %d: %s", e.Offset, e.Reason)
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// Checksum is CRC-32C of p.
func Checksum(p []byte) uint32 { return crc32.Checksum(p, castagnoli) }

// ExtendChecksum is the checksum of the bytes that crc stands for, followed by
// p.
func ExtendChecksum(crc uint32, p []byte) uint32 { return crc32.Update(crc, castagnoli, p) }

// extendUint64 is ExtendChecksum by v in little-endian. It works byte by byte,
// which for 8 bytes costs less than a slice that escapes.
func extendUint64(crc uint32, v uint64) uint32 {
	crc = ^crc
	for range 8 {
		crc = castagnoli[byte(crc)^byte(v)] ^ (crc >> 8)
		v >>= 8
	}
	return ^crc
}
