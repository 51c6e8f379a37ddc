// Package cas keeps payloads: bytes of any size under the BLAKE3 of their
// content.
//
// # The idea
//
// A payload is cut into 64 KiB chunks. Each chunk is stored once, under the
// BLAKE3 of its bytes, in a pack: a large append-only file. What is small
// (16 KiB) is not stored here at all but given back to the caller, who puts it
// inline into its batch of the log: one barrier instead of two. A payload of
// one chunk has the chunk's id; a larger one has a manifest, a tree of records
// whose root lies in the pack under the payload's own id and lists the chunks.
//
// A reference is the id. Where it lies (pack, offset) is a hint beside it that
// may be stale; what is read is verified against the id, chunk by chunk:
// wrong or short bytes are an error, never data.
//
// # Packs
//
// One pack is active: records are appended to it, and many puts share one
// fdatasync. A full pack is sealed: it gets a sorted footer and the name
// BLAKE3-of-the-file.pack, so that b3sum checks it, and never changes again.
// Which packs there are is not told by the directory but by the Ledger, which
// the log keeps. Nobody appends to a pack of an earlier process: Open cuts it
// at the last record that the log refers to, and seals it.
//
// # Sweeping
//
// Nobody counts references: what nothing refers to any more is found by following
// all that does. A sweep copies what is left of a pack into another one, which is
// sealed before the old one goes. See Store.Sweep.
//
// The formats are described at fileHeader, recordHeader, footer and node.
//
// # Goroutines
//
// A Store runs one encoder per processor (worker.go), one sealer (seal.go), two
// that do early what a barrier would have to (behind.go), and for a moment one
// that makes the next pack (make.go). Everything else runs in its callers.
package cas

const (
	// ChunkBytes is the size of a chunk; the last one of a payload is shorter.
	ChunkBytes = 64 << 10
	// InlineBytesMax is the largest payload that is kept inline in the log.
	InlineBytesMax = 16 << 10
)

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
