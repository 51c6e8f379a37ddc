package cas

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
)

// packHeaderBytes is the size of a pack's header: a block of its own, so that
// no later write touches its sectors.
const packHeaderBytes = 4096

const (
	packMagic     = "durapack"
	formatVersion = 0
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

func checksum(p []byte) uint32 { return crc32.Checksum(p, castagnoli) }

// fileHeader stands at the start of a pack. All numbers of a pack are
// little-endian.
//
//	0     8  magic "durapack"
//	8     4  format version, 0
//	12    4  flags, 0
//	16   16  id of the store
//	32    4  seq
//	36    4  0
//	40    8  nonce
//	48 4044  0
//	4092  4  CRC-32C of all before
//
// Everything in it is in the ledger too, so a pack with a damaged header is
// named by Verify and read all the same.
type fileHeader struct {
	StoreID [16]byte
	Seq     uint32
	Nonce   uint64
}

func (h fileHeader) marshal() []byte {
	b := make([]byte, packHeaderBytes)
	copy(b, packMagic)
	copy(b[16:], h.StoreID[:])
	binary.LittleEndian.PutUint32(b[32:], h.Seq)
	binary.LittleEndian.PutUint64(b[40:], h.Nonce)
	binary.LittleEndian.PutUint32(b[4092:], checksum(b[:4092]))
	return b
}

// parseFileHeader is the inverse of marshal.
func parseFileHeader(b []byte) (fileHeader, error) {
	var h fileHeader
	if len(b) != packHeaderBytes {
		return h, fmt.Errorf("header has %d bytes, not %d", len(b), packHeaderBytes)
	}
	if string(b[:8]) != packMagic {
		return h, fmt.Errorf("no pack: magic is %q", b[:8])
	}
	if got := binary.LittleEndian.Uint32(b[4092:]); got != checksum(b[:4092]) {
		return h, fmt.Errorf("header's checksum is wrong")
	}
	if v := binary.LittleEndian.Uint32(b[8:]); v != formatVersion {
		return h, fmt.Errorf("%w: version %d", ErrFormat, v)
	}
	if f := binary.LittleEndian.Uint32(b[12:]); f != 0 {
		return h, fmt.Errorf("%w: flags %#x", ErrFormat, f)
	}
	if !allZero(b[36:40]) || !allZero(b[48:4092]) {
		return h, fmt.Errorf("header's reserved bytes are not zero")
	}
	copy(h.StoreID[:], b[16:])
	h.Seq = binary.LittleEndian.Uint32(b[32:])
	h.Nonce = binary.LittleEndian.Uint64(b[40:])
	return h, nil
}

func allZero(b []byte) bool {
	for _, c := range b {
		if c != 0 {
			return false
		}
	}
	return true
}
