// Package wal is the order of everything: one log of batches, made durable by
// group commit, replayed at open.
//
// # The idea
//
// A caller asks Submit to run its accept step: a short critical section in
// which it validates a change against the accepted state, is given an LSN, and
// hands over the batches that make the change. One writer goroutine takes all
// batches that have come together, writes them with one pwrite and makes them
// durable with one fdatasync, the barrier. While a barrier runs the next group
// forms; no timer, no knob. After the barrier the values that the batches make
// are published, in LSN order, and only then the callers are woken: visible
// means durable.
//
// The log knows nothing of what is in a batch.
package wal

import "context"

// BatchBytesMax bounds the payload of a batch (Body and Stamp together).
const BatchBytesMax = 1 << 20

// Position tells where a frame lies: a segment's id and the frame's offset in
// it. The zero Position is no place.
type Position struct {
	Segment uint32
	Offset  uint32
}

// Batch is several entries that become durable together or not at all: one
// frame of the log.
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
	// Reserved batches (beats, outcomes, settlements, cancellations,
	// recovery) pass a queue full of ordinary ones and may use the spare.
	Reserved
)

// Decision is what an accept step came to.
type Decision struct {
	// Batches to append as one unit: they get consecutive LSNs and share one
	// barrier. Empty: nothing is written.
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
	// step. It is called by the writer goroutine after the barrier and before
	// any waiter is woken; it must not block on a caller.
	Publish(batches []*Batch)
	// Reset drops all accepted values that were not published, since their
	// batches were refused. It is called inside the accept lock.
	Reset()
}

// Ticket stands for a submitted decision.
type Ticket struct {
	lsn   uint64
	err   error
	group *group
}

// LSN is the LSN of the decision's last batch, 0 without batches.
func (t Ticket) LSN() uint64 { return t.lsn }

// Wait returns when the decision is durable and published: nil, or the
// decision's Err. It returns ctx's error when ctx ends first, which says
// nothing about the batch.
func (t Ticket) Wait(ctx context.Context) error { panic("unimplemented") }

type group struct{}

// Log is an open log. Its methods may be called concurrently.
type Log struct{}

// Submit runs decide inside the accept lock, with the LSN that the first of
// its batches will get, and queues what it decided. decide must not block and
// must not call the log. The order of accept steps is the order of LSNs.
func (l *Log) Submit(class Class, decide func(lsn uint64) Decision) Ticket { panic("unimplemented") }

// Durable is the highest LSN known durable and published.
func (l *Log) Durable() uint64 { panic("unimplemented") }

// ReadBatch reads and checks the frame at pos, into buf where that is large
// enough, and tells the position behind it (next is a place to try, not a
// promise that a frame is there). Payload is Body and Stamp together. A frame
// that does not check is a *DamageError.
func (l *Log) ReadBatch(pos Position, buf []byte) (b Frame, next Position, err error) {
	panic("unimplemented")
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
func Checksum(p []byte) uint32 { panic("unimplemented") }
