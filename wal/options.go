package wal

import (
	"fmt"
	"log/slog"
	"time"

	"durafs/internal/ballast"
	"durafs/internal/clock"
	"durafs/internal/vfs"
	"durafs/segment"
)

const (
	// segmentBytesFirst is the size of the first segment that a process makes;
	// each further one has twice the size, up to the maximum.
	segmentBytesFirst = 2 << 20
	// segmentBytesMax is the size of a segment on a file system that is large
	// enough.
	segmentBytesMax = 64 << 20
	// segmentBytesCap bounds what Options ask for: a Position has 32 bits.
	segmentBytesCap = 1 << 31
	// padBytesMax bounds Options.PadBytes: the first group begins behind the
	// header block.
	padBytesMax = segment.HeaderBytes
	// segmentBytesMin holds a header and little else; it is for tests.
	segmentBytesMin = 2 * segment.HeaderBytes

	// lazyMax is how long a lazy batch waits for company.
	lazyMax = time.Second

	queueBytesMax   = 16 << 20
	queueBatchesMax = 16 << 10
)

// Options say how to open a log. FS and Dir are required.
type Options struct {
	FS      vfs.FS
	Dir     string   // made if it is missing
	StoreID [16]byte // written into every file, and checked
	Clock   clock.Clock
	Log     *slog.Logger
	// Existing says that there is a log: where the directory has none, it was
	// lost, and Open makes no new one but returns *DamageError.
	Existing bool
	// Begin are the highest numbers that were given before this log: where there
	// is none yet, the new one begins behind them. The zero value is a log that
	// begins from nothing.
	Begin HighWater
	// Damaged, if not nil, is told of batches that were durable and are lost,
	// among the calls of replay, in the order of LSNs; its error is Open's.
	// Each has the run that it harms, except where the log is opened to be
	// read only. Nil: any of them is the error of Open.
	Damaged func(*DamageError) error
	// ReadOnly, if not nil, is why the log is to be opened without changing
	// anything, to show what is left of it. No damage is an error then, and
	// every submission is refused with ErrReadOnly.
	ReadOnly error
	// SegmentBytesMax is the size that segments grow to; 0 is 64 MiB or a 32nd
	// of the file system. Below 2 MiB it also bounds batches: tests only.
	SegmentBytesMax int64
	// QueueBytesMax and QueueBatchesMax bound what is accepted and not yet
	// durable, for ordinary batches; reserved ones may use as much again.
	QueueBytesMax   int64
	QueueBatchesMax int
	// LazyMax is how long a lazy batch may wait for others to share a barrier
	// with; 0 is a second.
	LazyMax time.Duration
	// QuietAfter is how long nothing has to come before the manifest notes
	// what is durable; 0 is a second.
	QuietAfter time.Duration
	// PadBytes, a power of two up to 4096, lets each group begin on a block of
	// that size of its own, for disks that may destroy a block that is being
	// rewritten when the power goes. 0: groups follow each other.
	PadBytes int64
	// BallastBytes is the size of the ballast file; 0 is 4 MiB, or a 16th of a
	// small file system, and below 0 there is none.
	BallastBytes int64
	// SpaceRetryMax bounds how long lies between two tries of what has found no
	// space; 0 is a second.
	SpaceRetryMax time.Duration
	// ManifestBytes is the size that a copy of the manifest is written ahead to,
	// at least; 0 is 64 KiB. The smaller, the sooner it is begun anew: for tests.
	ManifestBytes int64
	// Salt, if not nil, gives the salts of files instead of chance: for tests that
	// are to write the same bytes again. No two files of a log may have the same.
	Salt func() uint64
	// Derived, if not nil, is what the owner of the batches keeps in footers:
	// then Open replays only the batches that no footer stands for.
	Derived Derived
	// OnBarrier, if not nil, is called by the committer, one at a time, after each
	// group that became durable.
	OnBarrier func(took time.Duration, batches, bytes int)
}

// withDefaults fills in what is not set.
func (o Options) withDefaults() (Options, error) {
	if o.Clock == nil {
		o.Clock = clock.System
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.QueueBytesMax == 0 {
		o.QueueBytesMax = queueBytesMax
	}
	if o.QueueBatchesMax == 0 {
		o.QueueBatchesMax = queueBatchesMax
	}
	if o.ManifestBytes == 0 {
		o.ManifestBytes = manifestBytesMin
	}
	if o.Salt == nil {
		o.Salt = newSalt
	}
	if o.LazyMax == 0 {
		o.LazyMax = lazyMax
	}
	if o.QuietAfter == 0 {
		o.QuietAfter = quietAfter
	}
	if o.SpaceRetryMax == 0 {
		o.SpaceRetryMax = retryPauseMax
	}
	if o.PadBytes < 0 || o.PadBytes > padBytesMax || o.PadBytes&(o.PadBytes-1) != 0 {
		return o, fmt.Errorf("wal: groups cannot begin on blocks of %d bytes, but on 512 to %d", o.PadBytes, padBytesMax)
	}
	u, err := o.FS.Usage(o.Dir)
	if err != nil {
		return o, err
	}
	if o.SegmentBytesMax == 0 {
		o.SegmentBytesMax = max(segmentBytesFirst, min(segmentBytesMax, u.SizeBytes/32))
	}
	if o.BallastBytes == 0 {
		o.BallastBytes = ballast.BytesOn(u.SizeBytes)
	}
	const block = segment.HeaderBytes
	o.SegmentBytesMax = max(segmentBytesMin, min(segmentBytesCap, o.SegmentBytesMax&^(block-1)))
	return o, nil
}

// groupBytesMax bounds the frames of one group, which fit into any segment.
func (o *Options) groupBytesMax() int64 {
	return min(GroupBytesMax, o.segmentBytes(0)-segment.HeaderBytes)
}

// frameBytesMax bounds a single frame.
func (o *Options) frameBytesMax() int64 {
	return min(segment.FrameBytes(BatchBytesMax), o.segmentBytes(0)-segment.HeaderBytes)
}

// segmentBytes is the size of the n-th segment that this process makes.
func (o *Options) segmentBytes(n int) int64 {
	return min(o.SegmentBytesMax, segmentBytesFirst<<min(n, 16))
}
