package cas

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
)

const (
	recordHeaderBytes = 64
	recordAlign       = 8
	recordMagic       = 0x31524b50 // "PKR1"
	// recordBodyMax bounds a record's body, raw and stored, before anything is
	// allocated for it.
	recordBodyMax = ChunkBytes
)

// codec says how a record's body is stored.
type codec uint8

const (
	codecRaw  codec = 0
	codecZstd codec = 1
)

// kind says what a record is.
type kind uint8

const (
	kindChunk kind = 1 // its id is the BLAKE3 of its raw body
	kindRoot  kind = 2 // a node; its id is the payload's
	kindNode  kind = 3 // a node below a root; its id is the node's sum
)

// recordHeader stands before a record's body. A record starts at a multiple of
// 8 and is filled up with zeros to one.
//
//	0   4  magic
//	4   4  length of the body as stored
//	8   4  length of the body when decoded
//	12  1  codec
//	13  1  kind
//	14  2  flags, 0
//	16 32  id
//	48  4  CRC-32C of the body as stored
//	52  8  0
//	60  4  CRC-32C of nonce (8 bytes), offset (8 bytes) and all before
//
// The checksum is keyed by the pack's nonce and the record's own offset: bytes
// that a payload contains, or that another pack or place left behind, never
// pass for a record, and the lengths can be trusted for walking on.
type recordHeader struct {
	Stored uint32
	Raw    uint32
	Codec  codec
	Kind   kind
	ID     ID
	CRC    uint32
}

// bytes is the length of the whole record.
func (h recordHeader) bytes() int64 {
	return (recordHeaderBytes + int64(h.Stored) + recordAlign - 1) &^ (recordAlign - 1)
}

// put writes the header into b for a record at off.
func (h recordHeader) put(b []byte, nonce uint64, off int64) {
	_ = b[recordHeaderBytes-1]
	binary.LittleEndian.PutUint32(b[0:], recordMagic)
	binary.LittleEndian.PutUint32(b[4:], h.Stored)
	binary.LittleEndian.PutUint32(b[8:], h.Raw)
	b[12], b[13], b[14], b[15] = byte(h.Codec), byte(h.Kind), 0, 0
	copy(b[16:48], h.ID[:])
	binary.LittleEndian.PutUint32(b[48:], h.CRC)
	binary.LittleEndian.PutUint64(b[52:], 0)
	binary.LittleEndian.PutUint32(b[60:], keyedChecksum(b[:60], nonce, off))
}

func keyedChecksum(p []byte, nonce uint64, off int64) uint32 {
	var key [16]byte
	binary.LittleEndian.PutUint64(key[0:], nonce)
	binary.LittleEndian.PutUint64(key[8:], uint64(off))
	return crc32.Update(crc32.Checksum(key[:], castagnoli), castagnoli, p)
}

var errNoRecord = errors.New("no record here")

// parseRecordHeader is the inverse of put. It answers errNoRecord where the
// checksum says that no header was ever written here, and another error for
// one that a later version wrote.
func parseRecordHeader(b []byte, nonce uint64, off int64) (recordHeader, error) {
	var h recordHeader
	if len(b) < recordHeaderBytes || binary.LittleEndian.Uint32(b) != recordMagic {
		return h, errNoRecord
	}
	if binary.LittleEndian.Uint32(b[60:]) != keyedChecksum(b[:60], nonce, off) {
		return h, errNoRecord
	}
	h.Stored = binary.LittleEndian.Uint32(b[4:])
	h.Raw = binary.LittleEndian.Uint32(b[8:])
	h.Codec, h.Kind = codec(b[12]), kind(b[13])
	copy(h.ID[:], b[16:48])
	h.CRC = binary.LittleEndian.Uint32(b[48:])
	return h, h.valid(b)
}

func (h recordHeader) valid(b []byte) error {
	switch {
	case h.Codec > codecZstd, h.Kind < kindChunk, h.Kind > kindNode, !allZero(b[14:16]), !allZero(b[52:60]):
		return fmt.Errorf("%w: record of codec %d, kind %d", ErrFormat, h.Codec, h.Kind)
	case h.Raw == 0, h.Raw > recordBodyMax, h.Stored == 0, h.Stored > recordBodyMax:
		return fmt.Errorf("record's length is out of bounds: %d stored, %d raw", h.Stored, h.Raw)
	case h.Codec == codecRaw && h.Stored != h.Raw:
		return fmt.Errorf("raw record stored as %d bytes of %d", h.Stored, h.Raw)
	}
	return nil
}
