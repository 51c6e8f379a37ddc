package segment

import (
	"bytes"
	"encoding/binary"
	"fmt"
)

// FileKind says what a file is.
type FileKind uint8

const (
	LogFile      FileKind = 1
	ManifestFile FileKind = 2
)

// Header is what the header block of a file says.
type Header struct {
	Kind    FileKind
	StoreID [16]byte
	ID      uint32
	// Salt is random, and never used for two files.
	Salt       uint64
	Generation uint32
	Lane       uint32
	LaneEpoch  uint64
	// Replaces lists the segments that this one was rewritten from.
	Replaces []uint32
	// Recycled says that the blocks held another file's frames before: where
	// this one's frames end there may be anything instead of zeros.
	Recycled bool
}

// flagRecycled is the one flag of a header that is known.
const flagRecycled = 1

var magic = [8]byte{'d', 'u', 'r', 'a', 'f', 's', '\r', '\n'}

// Marshal is the header block. ParseHeader is its inverse. It panics if
// Replaces is longer than ReplacesMax.
func (h *Header) Marshal() []byte {
	if len(h.Replaces) > ReplacesMax {
		panic("segment: too many replaced segments for one header")
	}
	b := make([]byte, HeaderBytes)
	le := binary.LittleEndian
	copy(b, magic[:])
	le.PutUint32(b[8:], Version)
	b[12] = byte(h.Kind)
	if h.Recycled {
		le.PutUint32(b[16:], flagRecycled)
	}
	le.PutUint32(b[20:], h.ID)
	copy(b[24:40], h.StoreID[:])
	le.PutUint64(b[40:], h.Salt)
	le.PutUint32(b[48:], h.Generation)
	le.PutUint32(b[52:], h.Lane)
	le.PutUint64(b[56:], h.LaneEpoch)
	le.PutUint32(b[64:], uint32(len(h.Replaces)))
	for i, id := range h.Replaces {
		le.PutUint32(b[68+4*i:], id)
	}
	le.PutUint32(b[508:], Checksum(b[:508]))
	return b
}

// ParseHeader reads a header block. Errors are *FutureVersionError,
// ErrUnknownFlag (wrapped) and *InvalidError. The checksum is tried first, and
// its place holds for every version: what checks and is not understood is from
// a later version, what does not check is damaged.
func ParseHeader(b []byte) (Header, error) {
	if len(b) < HeaderBytes {
		return Header{}, invalidHeader("shorter than the header block")
	}
	b = b[:HeaderBytes]
	le := binary.LittleEndian
	if !bytes.Equal(b[:8], magic[:]) {
		return Header{}, invalidHeader("magic is not there")
	}
	if le.Uint32(b[508:]) != Checksum(b[:508]) {
		return Header{}, invalidHeader("header checksum is wrong")
	}
	if v := le.Uint32(b[8:]); v > Version {
		return Header{}, &FutureVersionError{Version: v}
	}
	flags, known := le.Uint32(b[16:]), uint32(0)
	if FileKind(b[12]) == LogFile {
		known = flagRecycled
	}
	if flags&^known != 0 {
		return Header{}, fmt.Errorf("%w: %#x in a file header", ErrUnknownFlag, flags)
	}
	h := Header{
		Kind:       FileKind(b[12]),
		ID:         le.Uint32(b[20:]),
		StoreID:    [16]byte(b[24:40]),
		Salt:       le.Uint64(b[40:]),
		Generation: le.Uint32(b[48:]),
		Lane:       le.Uint32(b[52:]),
		LaneEpoch:  le.Uint64(b[56:]),
		Recycled:   flags&flagRecycled != 0,
	}
	if h.Kind != LogFile && h.Kind != ManifestFile {
		return Header{}, fmt.Errorf("%w: file of kind %d", ErrUnknownFlag, h.Kind)
	}
	n := le.Uint32(b[64:])
	if n > ReplacesMax {
		return Header{}, invalidHeader("replaces more segments than a header holds")
	}
	for i := range n {
		h.Replaces = append(h.Replaces, le.Uint32(b[68+4*i:]))
	}
	if !allZero(b[13:16]) || !allZero(b[68+4*n:508]) || !allZero(b[headerFieldBytes:]) {
		return Header{}, invalidHeader("reserved bytes are not zero")
	}
	return h, nil
}

func invalidHeader(reason string) error { return &InvalidError{Reason: reason} }

func allZero(b []byte) bool {
	for len(b) >= 8 {
		if binary.LittleEndian.Uint64(b) != 0 {
			return false
		}
		b = b[8:]
	}
	for _, c := range b {
		if c != 0 {
			return false
		}
	}
	return true
}
