package segment

import (
	"encoding/binary"
	"fmt"

	"durafs/internal/mutant"
)

// FrameKind says what a frame is for.
type FrameKind uint8

const (
	// Batch holds entries; it is the only kind that has an LSN of its own.
	Batch FrameKind = 1
	// Pad fills space up to a boundary. Its count is 0 and its LSN the last
	// batch's.
	Pad FrameKind = 2
	// Barrier raises durable. Its count is 0 and its LSN the last batch's.
	Barrier FrameKind = 3
	// Manifest holds edits of the manifest.
	Manifest FrameKind = 4
)

func (k FrameKind) String() string {
	switch k {
	case Batch:
		return "batch"
	case Pad:
		return "pad"
	case Barrier:
		return "barrier"
	case Manifest:
		return "manifest"
	}
	return fmt.Sprintf("kind %d", uint8(k))
}

// Key is what the checksums of frame headers in one file are keyed with. Under
// two keys that are not equal no header checks at the same offset: a CRC goes
// on from the state that the key set, and equal bytes take different states to
// different ends. So where a file's blocks are used again with another key,
// what stands there from before is not taken for a frame.
type Key struct{ crc uint32 }

// NewKey is the key that goes with a file's salt.
func NewKey(salt uint64) Key {
	if mutant.On(mutant.SaltNotInChecksum) {
		return Key{}
	}
	return Key{extendUint64(0, salt)}
}

// sum is the checksum of a frame header that stands at off.
func (k Key) sum(off int64, header []byte) uint32 {
	return ExtendChecksum(extendUint64(k.crc, uint64(off)), header[4:FrameHeaderBytes])
}

// FrameHeader is a frame's header. CRC is known after Encode or Decode.
type FrameHeader struct {
	CRC        uint32
	PayloadCRC uint32
	PayloadLen uint32
	Kind       FrameKind
	LSN        uint64
	Durable    uint64
	Run        uint64
	Count      uint32
	Prev       uint32
}

// Bytes is the size of the whole frame: header, payload, zeros to the next
// boundary.
func (h *FrameHeader) Bytes() int64 { return FrameBytes(int64(h.PayloadLen)) }

// FrameBytes is the size of a frame with a payload of n bytes.
func FrameBytes(n int64) int64 {
	return (FrameHeaderBytes + n + Align - 1) &^ (Align - 1)
}

// Encode writes the header into dst as it stands at offset off of the file
// with key k, and sets CRC. DecodeFrameHeader is its inverse.
func (h *FrameHeader) Encode(dst []byte, k Key, off int64) {
	dst = dst[:FrameHeaderBytes]
	le := binary.LittleEndian
	le.PutUint32(dst[4:], h.PayloadCRC)
	le.PutUint32(dst[8:], h.PayloadLen)
	dst[12] = FrameHeaderBytes
	dst[13] = byte(h.Kind)
	le.PutUint16(dst[14:], 0)
	le.PutUint64(dst[16:], h.LSN)
	le.PutUint64(dst[24:], h.Durable)
	le.PutUint64(dst[32:], h.Run)
	le.PutUint32(dst[40:], h.Count)
	le.PutUint32(dst[44:], h.Prev)
	h.CRC = k.sum(off, dst)
	le.PutUint32(dst, h.CRC)
}

// DecodeFrameHeader reads the header at the beginning of b, which stands at
// offset off of the file with key k. Errors are *InvalidError, and
// ErrUnknownFlag (wrapped) where the checksum is right.
func DecodeFrameHeader(b []byte, k Key, off int64) (FrameHeader, error) {
	if len(b) < FrameHeaderBytes {
		return FrameHeader{}, &InvalidError{off, "shorter than a frame header"}
	}
	le := binary.LittleEndian
	h := FrameHeader{
		CRC:        le.Uint32(b),
		PayloadCRC: le.Uint32(b[4:]),
		PayloadLen: le.Uint32(b[8:]),
		Kind:       FrameKind(b[13]),
		LSN:        le.Uint64(b[16:]),
		Durable:    le.Uint64(b[24:]),
		Run:        le.Uint64(b[32:]),
		Count:      le.Uint32(b[40:]),
		Prev:       le.Uint32(b[44:]),
	}
	if h.CRC != k.sum(off, b) {
		if allZero(b[:FrameHeaderBytes]) {
			return FrameHeader{}, &InvalidError{off, ReasonZeros}
		}
		if mutant.On(mutant.LengthBeforeChecksum) {
			return h, nil
		}
		return FrameHeader{}, &InvalidError{off, ReasonHeader}
	}
	if flags := le.Uint16(b[14:]); flags != 0 || h.Kind < Batch || h.Kind > Manifest || b[12] != FrameHeaderBytes {
		return FrameHeader{}, fmt.Errorf("%w: frame at offset %d has kind %d, flags %#x, header length %d",
			ErrUnknownFlag, off, h.Kind, flags, b[12])
	}
	if h.PayloadLen > PayloadBytesMax {
		return FrameHeader{}, &InvalidError{off, "payload length is over the bound"}
	}
	return h, nil
}

// CheckPayload checks what follows the header in b, which holds the whole
// frame: the payload's checksum and the zeros behind it.
func (h *FrameHeader) CheckPayload(b []byte, off int64) (payload []byte, err error) {
	if int64(len(b)) < h.Bytes() {
		return nil, &InvalidError{off, "frame is cut short"}
	}
	end := FrameHeaderBytes + int(h.PayloadLen)
	payload = b[FrameHeaderBytes:end:end]
	if Checksum(payload) != h.PayloadCRC && !mutant.On(mutant.PayloadNotChecked) {
		return nil, &InvalidError{off, "payload checksum is wrong"}
	}
	if !allZero(b[end:h.Bytes()]) {
		return nil, &InvalidError{off, "bytes behind the payload are not zero"}
	}
	return payload, nil
}

// AppendFrame appends a whole frame to dst, which becomes the bytes at off of
// the file with key k. It sets PayloadLen, PayloadCRC and CRC of h.
func AppendFrame(dst []byte, h *FrameHeader, k Key, off int64, payload []byte) []byte {
	h.PayloadLen = uint32(len(payload))
	h.PayloadCRC = Checksum(payload)
	return AppendParts(dst, h, k, off, payload, nil)
}

// AppendParts is AppendFrame for a payload in two parts whose length and
// checksum are set in h already.
func AppendParts(dst []byte, h *FrameHeader, k Key, off int64, body, stamp []byte) []byte {
	at := len(dst)
	var zero [FrameHeaderBytes]byte
	dst = append(dst, zero[:]...)
	h.Encode(dst[at:], k, off)
	dst = append(dst, body...)
	dst = append(dst, stamp...)
	return append(dst, zero[:int(h.Bytes())-(len(dst)-at)]...)
}

// AppendPad appends a pad frame to dst that reaches to the next boundary of
// block bytes, if off is not on one: the frame that follows begins a block. h
// tells LSN, Durable and Prev; the rest is set, and Prev becomes what the next
// frame needs. A pad has at least the size of a header, so it may reach one
// block further.
func AppendPad(dst []byte, h *FrameHeader, k Key, off, block int64) []byte {
	n := PadBytes(off, block)
	if n == 0 {
		return dst
	}
	h.Kind, h.Run, h.Count = Pad, 0, 0
	dst = AppendFrame(dst, h, k, off, make([]byte, n-FrameHeaderBytes))
	h.Prev = h.CRC
	return dst
}

// PadBytes is the size of the frame that AppendPad appends.
func PadBytes(off, block int64) int64 {
	n := -off & (block - 1)
	if n > 0 && n < FrameHeaderBytes {
		n += block
	}
	return n
}
