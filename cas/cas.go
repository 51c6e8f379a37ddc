// Package cas keeps payloads: bytes of any size under the BLAKE3 of their
// content.
//
// # The idea
//
// A payload is cut into 64 KiB chunks. Each chunk is stored once, under the
// BLAKE3 of its bytes, in a pack: a large append-only file. What is small
// (16 KiB) is not stored here at all but given back to the caller, who puts it
// inline into its batch of the log: one barrier instead of two. A payload of
// one chunk has the chunk's id; a larger one has a manifest, a record in the
// pack under the payload's own id that lists the chunks.
//
// A reference is the id. Where it lies (pack, offset) is a hint beside it that
// may be stale; what is read is verified against the id, chunk by chunk:
// wrong or short bytes are an error, never data.
package cas

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
)

const (
	// ChunkBytes is the size of a chunk; the last one of a payload is shorter.
	ChunkBytes = 64 << 10
	// InlineBytesMax is the largest payload that is kept inline in the log.
	InlineBytesMax = 16 << 10
)

// ID is the BLAKE3 (256 bit) of a payload's or chunk's bytes. Its text form is
// 64 lower-case hexadecimal digits, as b3sum prints it.
type ID [32]byte

// EmptyID is the id of the empty payload, which is stored nowhere.
var EmptyID = ID{
	0xaf, 0x13, 0x49, 0xb9, 0xf5, 0xf9, 0xa1, 0xa6, 0xa0, 0x40, 0x4d, 0xea, 0x36, 0xdc, 0xc9, 0x49,
	0x9b, 0xcb, 0x25, 0xc9, 0xad, 0xc1, 0x12, 0xb7, 0xcc, 0x9a, 0x93, 0xca, 0xe4, 0x1f, 0x32, 0x62,
}

func (id ID) String() string { return hex.EncodeToString(id[:]) }

// MarshalText is the inverse of UnmarshalText.
func (id ID) MarshalText() ([]byte, error) { return hex.AppendEncode(nil, id[:]), nil }

// UnmarshalText takes exactly the form of String.
func (id *ID) UnmarshalText(b []byte) error {
	parsed, err := ParseID(string(b))
	if err == nil {
		*id = parsed
	}
	return err
}

// ParseID is the inverse of ID.String; any other spelling is an error.
func ParseID(s string) (ID, error) {
	var id ID
	if len(s) != 2*len(id) {
		return ID{}, fmt.Errorf("cas: an id has 64 hexadecimal digits, not %d bytes", len(s))
	}
	for i := range len(s) {
		if c := s[i]; !('0' <= c && c <= '9' || 'a' <= c && c <= 'f') {
			return ID{}, errors.New("cas: an id is written in lower-case hexadecimal digits")
		}
	}
	_, err := hex.Decode(id[:], []byte(s))
	return id, err
}

// Hint tells where the record of an id was put: a pack's number, its offset
// there, and the end of the record. The zero Hint is no place (inline, empty,
// or unknown).
type Hint struct {
	Pack   uint32
	Offset uint32
	End    uint32
}

// Ref is a reference to a payload.
type Ref struct {
	ID    ID
	Bytes int64
	Hint  Hint
	// Inline holds the payload itself where it is at most InlineBytesMax. It
	// is then the caller's to keep: the store has nothing of it.
	Inline []byte
}

// Store is an open chunk store. Its methods may be called concurrently.
type Store struct{}

// Put reads a payload to its end and makes it durable: when it returns, every
// chunk and the manifest are behind a barrier (which puts of other callers may
// share), or Ref.Inline is set. After an error nothing refers to what was
// written, and it is reclaimed in time. A failure of r is returned as it is;
// others are *NoSpaceError, ErrPoisoned, or of the operating system.
func (s *Store) Put(ctx context.Context, r io.Reader) (Ref, error) { panic("unimplemented") }

// Open opens a payload for reading. The manifest is read now, chunks when they
// are asked for.
func (s *Store) Open(ref Ref) (*Reader, error) { panic("unimplemented") }

// Reader reads one payload. It holds no file open and may be used
// concurrently.
type Reader struct{}

// Size is the payload's size in bytes.
func (r *Reader) Size() int64 { panic("unimplemented") }

// ReadAt implements io.ReaderAt; every chunk it takes from is verified against
// its id. What cannot be verified is a *DamageError.
func (r *Reader) ReadAt(p []byte, off int64) (int, error) { panic("unimplemented") }
