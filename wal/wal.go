// Package wal is the order of everything: one log of batches, made durable by
// group commit, replayed at open.
//
// # The idea
//
// A caller asks Submit or Do to run its accept step: a short critical section
// in which it validates a change against the accepted state, is given an LSN,
// and hands over the batches that make the change. One committer at a time (the
// writer goroutine, or a caller who finds it idle) takes all batches that have
// come together, writes them with one pwrite and makes them durable with one
// fdatasync, the barrier. While a barrier runs the next group
// forms; no timer, no knob. After the barrier the values that the batches make
// are published, in LSN order, and only then the callers are woken: visible
// means durable.
//
// The log knows nothing of what is in a batch.
//
// # What lies on disk
//
//	MANIFEST-A MANIFEST-B   which segments and packs are live; two copies
//	0000000001.seg …        segments, in the order of their ids
//	spare-0000000002.seg    a segment to come, written ahead or dropped before
//	ballast                 space for what has to succeed on a full disk
//	*.tmp                   a copy of the manifest in the making
//
// A segment is listed in the manifest before a frame is written to it, and
// removed from it before it is unlinked or used again. A file that an earlier
// process wrote is never appended to: every open begins a new segment.
//
// # Torn or rotten
//
// Every frame says which LSN was durable when it was written. Let m be the
// LSN that is missing where the first frame does not check, and D the largest
// such number anywhere behind it, or in the manifest. D below m: nobody was
// ever told that m is durable; the group was in flight when the power went,
// and is cut. D at or above m: acknowledged data has rotted; nothing is cut,
// and Open says what and where.
//
// # Goroutines
//
// Three, started by Start and ended by Close: the writer (writer.go), which
// owns the active segment; the keeper (keeper.go), which prepares the next one,
// keeps the ballast, and lets the manifest vouch for what is durable when it is
// quiet; and the sealer (seal.go), which seals those that are full.
package wal

import "durafs/segment"

// BatchBytesMax bounds the payload of a batch (Body and Stamp together).
const BatchBytesMax = segment.PayloadBytesMax

// GroupBytesMax bounds the frames that share one write and one barrier. A
// single batch of the largest size may go over it by its header.
const GroupBytesMax = 1 << 20

// Position tells where a frame lies: a segment's id and the frame's offset in
// it. The zero Position is no place.
type Position struct {
	Segment uint32
	Offset  uint32
}

// Batch is several entries that become durable together or not at all: one
// frame of the log. From Submit until the ticket resolves it belongs to the
// log.
type Batch struct {
	// Run is the dense number of the run it belongs to, 0 for several. It
	// stands in the frame's header, so that damage names the run it harms.
	Run uint64
	// Count is the number of entries, at least 1.
	Count uint32
	// Body holds the entries, encoded by the caller outside of the accept
	// step, and BodyCRC is Checksum(Body).
	Body    []byte
	BodyCRC uint32
	// Stamp is what only the accept step could know (time, sequence numbers).
	// It follows Body in the frame's payload and is short.
	Stamp []byte
	// Value is what the batch makes; it is handed to State.Publish after the
	// barrier. The log does not look at it. Nil at replay.
	Value any

	// LSN is set by Submit: batches count densely from 1.
	LSN uint64
	// Pos is set before State.Publish, and at replay.
	Pos Position
}

// Class says whether a batch may use what is held back.
type Class uint8

const (
	// Ordinary batches (starts, rows, claims) are refused with ErrBusy when
	// the queue is full and with *NoSpaceError when the next spare segment
	// cannot be made.
	Ordinary Class = iota
	// Reserved batches (outcomes, settlements, cancellations, recovery) pass a
	// queue full of ordinary ones and may use the spare.
	Reserved
	// Lazy batches (beats) are reserved ones that are in no hurry: they wait
	// for company, at most for Options.LazyMax, before a barrier is made for
	// them. Like all others they are answered only after it.
	Lazy
)

// Decision is what an accept step came to.
type Decision struct {
	// Batches to append as one unit: they get consecutive LSNs and share one
	// barrier if together their frames fit into GroupBytesMax, else
	// consecutive ones: a larger unit that is refused may be kept in part, its
	// first batches, which were durable and published before.
	// Empty: nothing is written.
	Batches []*Batch
	// After is the highest LSN that the decision, or a refusal, was based on.
	// The ticket resolves no sooner than that LSN is durable, and with
	// ErrUnknown (or the refusal of that LSN) instead of Err if it never is.
	// 0: nothing. Batches imply it.
	After uint64
	// Err is the refusal that the ticket answers, after After.
	Err error
}

// State is the owner of the values that batches make.
type State interface {
	// Publish installs the values of batches, in LSN order, each batch as one
	// step. It is called by the committer (the writer goroutine, or a caller
	// that leads), one at a time, after the barrier and before any waiter is
	// woken; it must not block on a caller, and must not keep the slice.
	Publish(batches []*Batch)
	// Reset drops all accepted values that were not published, since their
	// batches were refused or their outcome is unknown. It is called inside
	// the accept lock.
	Reset()
}

// Frame is a batch as it was read back.
type Frame struct {
	LSN     uint64
	Run     uint64
	Count   uint32
	Payload []byte
	Pos     Position
}

// Checksum is CRC-32C (Castagnoli), the checksum of Batch.BodyCRC.
func Checksum(p []byte) uint32 { return segment.Checksum(p) }
