package wal

import (
	"context"
	"slices"
	"time"

	"durafs/internal/mutant"
	"durafs/segment"
)

// group is what shares one write and one barrier.
type group struct {
	// done is closed when the group was published or refused; err is set
	// before that.
	done chan struct{}
	err  error

	// Guarded by the accept lock until the writer has taken the group.
	batches []*Batch
	bytes   int64 // of frames
	last    uint64
	taken   bool
	// ordinary is set when it has ordinary batches.
	ordinary bool
	// urgent is set when somebody is in a hurry for it; until then timer, if
	// there is one, makes it so. See lazy.go.
	urgent  bool
	timer   *time.Timer
	settled bool // it has left the queue
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
func (t Ticket) Wait(ctx context.Context) error {
	if t.group == nil {
		return t.err
	}
	if err := t.group.wait(ctx); err != nil {
		return err
	}
	if t.group.err != nil {
		return t.group.err
	}
	return t.err
}

// wait waits until the group was answered, or ctx ends before that.
func (g *group) wait(ctx context.Context) error {
	end := ctx.Done()
	if end == nil {
		<-g.done // waiting for one thing costs half of waiting for two
		return nil
	}
	select {
	case <-g.done:
		return nil
	case <-end:
	}
	select {
	case <-g.done:
		return nil
	default:
		return ctx.Err()
	}
}

// Submit runs decide inside the accept lock, with the LSN that the first of
// its batches will get, and queues what it decided. decide must not block and
// must not call the log. The order of accept steps is the order of LSNs.
//
// Where the log refuses by itself (ErrBusy, *NoSpaceError, ErrPoisoned,
// ErrClosed) decide is not called. A batch over BatchBytesMax is ErrTooLarge
// and nothing of the unit is written: decide has to see that before it changes
// the accepted state.
func (l *Log) Submit(class Class, decide func(lsn uint64) Decision) Ticket {
	l.mu.Lock()
	defer l.mu.Unlock()
	t := l.submit(class, decide)
	l.wakeWriter()
	return t
}

// submit is Submit inside the accept lock. The writer is not woken.
func (l *Log) submit(class Class, decide func(lsn uint64) Decision) Ticket {
	if err := l.admit(class); err != nil {
		return Ticket{err: err}
	}
	d := decide(l.next)
	if len(d.Batches) == 0 {
		return l.answerAfter(class, d)
	}
	for _, b := range d.Batches {
		if b.Count == 0 {
			panic("wal: a batch without entries") // its frame would not be valid
		}
		if int64(len(b.Body)+len(b.Stamp)) > BatchBytesMax || frameBytes(b) > l.opts.frameBytesMax() {
			return Ticket{err: ErrTooLarge}
		}
	}
	return l.accept(class, d)
}

// admit says whether a submission of this class is taken at all.
func (l *Log) admit(class Class) error {
	if !l.started {
		panic("wal: Submit before Start")
	}
	limit := int64(1)
	if class != Ordinary {
		limit = 2
	}
	switch {
	case l.poison != nil:
		return l.poison
	case l.closing:
		return ErrClosed
	case l.queuedBytes >= limit*l.opts.QueueBytesMax, l.queuedBatches >= int(limit)*l.opts.QueueBatchesMax:
		return ErrBusy
	case class == Ordinary && l.short != nil:
		l.kickKeeper()
		return l.short
	}
	return nil
}

// answerAfter is the ticket of a decision that writes nothing.
func (l *Log) answerAfter(class Class, d Decision) Ticket {
	if d.After <= l.durable.Load() || mutant.On(mutant.DuplicateBeforeBarrier) {
		return Ticket{err: d.Err}
	}
	for _, g := range l.queue {
		if g.last >= d.After {
			l.hurryFor(g, class)
			return Ticket{err: d.Err, group: g}
		}
	}
	panic("wal: a decision was based on an LSN that was never given")
}

// accept queues a unit of batches.
func (l *Log) accept(class Class, d Decision) Ticket {
	var unit int64
	for _, b := range d.Batches {
		unit += frameBytes(b)
	}
	g := l.forming(unit)
	for _, b := range d.Batches {
		n := frameBytes(b)
		if g == nil || g.bytes > 0 && g.bytes+n > l.opts.groupBytesMax() {
			g = l.newGroup()
		}
		b.LSN = l.next
		l.next++
		g.batches = append(g.batches, b)
		g.bytes += n
		g.last = b.LSN
		g.ordinary = g.ordinary || class == Ordinary
	}
	l.hurryFor(g, class)
	l.queuedBytes += unit
	l.queuedBatches += len(d.Batches)
	l.accepted.Add(uint64(len(d.Batches)))
	return Ticket{lsn: g.last, err: d.Err, group: g}
}

// forming is the last group of the queue if a unit of n bytes still fits.
func (l *Log) forming(n int64) *group {
	if len(l.queue) == 0 {
		return nil
	}
	g := l.queue[len(l.queue)-1]
	if g.taken || g.bytes+n > l.opts.groupBytesMax() {
		return nil
	}
	return g
}

func (l *Log) newGroup() *group {
	if n := len(l.queue); n > 0 {
		l.hasten(l.queue[n-1]) // it has all the company that it can have
	}
	g := &group{done: make(chan struct{})}
	if n := len(l.spare); n > 0 {
		g.batches, l.spare = l.spare[n-1], l.spare[:n-1]
	}
	l.queue = append(l.queue, g)
	return g
}

// pop takes the first group, which is answered, out of the queue.
func (l *Log) pop(g *group) {
	l.queue = slices.Delete(l.queue, 0, 1)
	l.queuedBytes -= g.bytes
	l.queuedBatches -= len(g.batches)
	l.settle(g)
	if len(l.spare) < 4 {
		clear(g.batches)
		l.spare = append(l.spare, g.batches[:0])
	}
	g.batches = nil
}

func frameBytes(b *Batch) int64 {
	return segment.FrameBytes(int64(len(b.Body) + len(b.Stamp)))
}
