package cas

import (
	"errors"
	"fmt"
	"log/slog"

	"durafs/internal/vfs"
)

const (
	packBytesDefault = 64 << 20
	packBytesLimit   = 1 << 30 // offsets have 32 bits, with room to spare
	openFilesMax     = 256
	cacheBytesMax    = 16 << 20
	tableChunksMax   = 1 << 20 // of each of the table's two halves
	spareBlocksMax   = 64      // blocks in the encoders beyond one per put
	putBlocksMax     = 6       // blocks of one put in the encoders
	sealQueueMax     = 2       // packs that the sealer has not taken over
	unhashedMax      = 16      // packs that wait for a quiet time: 1 GiB that an Open reads
	writeBehindBytes = 512 << 10
	hashReadBytes    = 256 << 10
)

// Pack is what the ledger knows of a pack.
type Pack struct {
	Seq    uint32 // from 1; never reused
	Nonce  uint64 // keys the checksums of the pack's record headers
	Sealed bool
	Bytes  int64 // size of a sealed pack; 0: it is gone
	B3     ID    // BLAKE3 of a sealed pack's file
}

// Ledger is the durable list of packs: the log's MANIFEST.
type Ledger interface {
	// Packs lists the packs that AddPack and SealPack made known. One that is
	// gone may be missing or stand there as sealed with 0 bytes.
	Packs() []Pack
	// AddPack makes a new pack known, durable on return.
	AddPack(Pack) error
	// SealPack says how a pack ended, durable on return: its size and hash, or
	// Bytes 0, after which nothing refers to it and its file may go.
	SealPack(Pack) error
}

// Options say where and how to open a store.
type Options struct {
	FS      vfs.FS
	Dir     string // must exist
	StoreID [16]byte
	Ledger  Ledger
	Log     *slog.Logger // nil: none

	// PackBytesMax is the size at which a pack is sealed; 0: 64 MiB.
	PackBytesMax int64
	// Used tells for a pack's number the highest Hint.End of any reference in
	// the recovered log. A pack of an earlier process is cut there. A pack
	// that is not in it is used by nothing.
	Used map[uint32]uint32
	// KeepAll says that Used is not all that is referred to: then packs of an
	// earlier process are kept as far as they are sound.
	KeepAll bool
	// ReadOnly, if not nil, is why nothing is to be changed: it is the answer
	// to every Put.
	ReadOnly error
	// SeqAfter is the highest pack number that the ledger ever took, also
	// where its list does not tell it any more.
	SeqAfter uint32

	// Others, if not nil, is a number from 1 that moves whenever someone else
	// commits on the same disk: while it does, large payloads come in slowly.
	Others func() uint64

	// BallastBytes are set aside in Dir for what must be done on a full disk;
	// 0: none.
	BallastBytes int64

	// Tests make trees of several levels out of few bytes.
	chunkBytes   int
	nodeChildren int
	indexRecords int
	encode       encodeFunc
}

func (o Options) withDefaults() (Options, error) {
	if o.FS == nil || o.Dir == "" || o.Ledger == nil {
		return o, errors.New("cas: Options need FS, Dir and Ledger")
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.PackBytesMax == 0 {
		o.PackBytesMax = packBytesDefault
	}
	if o.PackBytesMax < 2*packHeaderBytes || o.PackBytesMax > packBytesLimit {
		return o, fmt.Errorf("cas: PackBytesMax %d is not between %d and %d", o.PackBytesMax, 2*packHeaderBytes, packBytesLimit)
	}
	if o.chunkBytes == 0 {
		o.chunkBytes = ChunkBytes
	}
	if o.indexRecords == 0 {
		o.indexRecords = indexRecords
	}
	if o.nodeChildren == 0 {
		o.nodeChildren = nodeChildrenMax
	}
	return o, nil
}
