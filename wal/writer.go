package wal

import (
	"fmt"
	"io"
	"runtime"
	"time"

	"durafs/internal/mutant"
	"durafs/segment"
)

// The writer lets callers go first for at most patienceMax, or an eighth of
// what the last barrier took, in which nobody comes; see yield.
const patienceMax = 50 * time.Microsecond

// writer is what the committer owns: the writer goroutine, or while
// Log.leading is set the caller of Do that leads.
type writer struct {
	seg *active
	// pos is where the next frame goes, prev the header checksum of the last.
	pos  int64
	prev uint32
	// dead is true after a failed write: nothing more goes into seg.
	dead bool
	// followed is true once it is known that there is a segment behind seg.
	followed bool
	buf      []byte

	// expect is what Log.accepted comes to when all whom the last group woke
	// have submitted again, and took how long its barrier was.
	expect uint64
	took   time.Duration
}

// write is the writer goroutine: it commits groups, one after the other, until
// the log is closed and the queue is empty, or the log is poisoned.
func (l *Log) write() {
	for {
		g := l.take()
		if g == nil {
			return
		}
		l.commit(g)
	}
}

// take waits for a group and takes it. nil is the end.
func (l *Log) take() *group {
	l.mu.Lock()
	for l.leading || !l.due() && !l.closing && l.poison == nil {
		l.idle = true
		l.work.Wait()
	}
	l.idle = false
	l.mu.Unlock()

	l.yield()

	l.mu.Lock()
	defer l.mu.Unlock()
	if l.poison != nil {
		l.answerAll(ErrUnknown)
		return nil
	}
	if len(l.queue) == 0 {
		return nil
	}
	l.queue[0].taken = true
	return l.queue[0]
}

// yield lets callers that are about to submit do so. Those of the last group
// were woken a moment ago; without this the writer would start with the first
// of them, and the others would wait for a whole barrier: two cohorts of half
// the size, for ever, at half the speed.
//
// It ends when as many have come as were woken, or when for a while nobody did.
// One look at whether the queue still grows is not enough: the others may be
// running on another processor, and the scheduler then comes back here at once.
func (l *Log) yield() {
	w := &l.writer
	patience := min(w.took/8, patienceMax)
	n := l.accepted.Load()
	if n >= w.expect {
		return // who was woken has come, and to let others run costs a lone one dearly
	}
	begin := l.opts.Clock.Now()
	for last := begin; ; {
		runtime.Gosched()
		now := l.accepted.Load()
		if now >= w.expect {
			return
		}
		t := l.opts.Clock.Now()
		if now != n {
			n, last = now, t
		}
		if t.Sub(last) >= patience || t.Sub(begin) >= w.took {
			return
		}
	}
}

// commit makes a group durable, in this order:
//
//	pwrite of all frames      nothing is promised yet
//	fdatasync                 the barrier: from here on the group is durable
//	State.Publish             from here on it is visible
//	close(done)               from here on it is acknowledged
func (l *Log) commit(g *group) {
	if err := l.room(g); err != nil {
		l.refuse(err)
		return
	}
	buf := l.encode(g)
	start := l.opts.Clock.Now() // its monotonic part; asking Boot is a system call
	n, err := l.writer.seg.f.WriteAt(buf, l.writer.pos)
	if err == nil && n != len(buf) {
		err = io.ErrShortWrite
	}
	if err != nil {
		l.writeFailed(err)
		return
	}
	if err := l.barrier(g); err != nil {
		// What is on disk now nobody knows, and a second fdatasync would
		// answer for less than it seems to.
		l.poisoned(fmt.Errorf("barrier on %s: %w", l.writer.seg.name, err))
		return
	}
	l.writer.took = l.opts.Clock.Now().Sub(start)
	batches := len(g.batches)
	l.publish(g, int64(len(buf)))
	if l.opts.OnBarrier != nil {
		l.opts.OnBarrier(l.writer.took, batches, len(buf))
	}
}

// encode lays the frames of a group out as they will stand in the file.
func (l *Log) encode(g *group) []byte {
	w := &l.writer
	if w.buf == nil { // a log that is only opened needs none
		w.buf = make([]byte, 0, l.opts.groupBytesMax()+segment.FrameBytes(0))
	}
	buf, durable := w.buf[:0], l.durableOf(g)
	for _, b := range g.batches {
		off := w.pos + int64(len(buf))
		h := segment.FrameHeader{
			PayloadCRC: segment.ExtendChecksum(b.BodyCRC, b.Stamp),
			PayloadLen: uint32(len(b.Body) + len(b.Stamp)),
			Kind:       segment.Batch,
			LSN:        b.LSN,
			Durable:    durable,
			Run:        b.Run,
			Count:      b.Count,
			Prev:       w.prev,
		}
		buf = segment.AppendParts(buf, &h, w.seg.key, off, b.Body, b.Stamp)
		b.Pos = Position{w.seg.id, uint32(off)}
		w.prev = h.CRC
	}
	last := g.batches[len(g.batches)-1].LSN
	pad := segment.FrameHeader{LSN: last, Durable: durable, Prev: w.prev}
	buf = l.pad(buf, &pad, w.seg.key, w.pos, w.seg.size)
	w.prev = pad.Prev
	w.buf = buf
	return buf
}

// publish installs a durable group and wakes its waiters.
func (l *Log) publish(g *group, bytes int64) {
	w := &l.writer
	w.pos += bytes
	w.seg.end.Store(w.pos) // readable
	l.state.Publish(g.batches)
	if mutant.On(mutant.NewestPublished) {
		l.publishNewest()
	}

	l.stats.note(len(g.batches), bytes)
	l.mu.Lock()
	l.durable.Store(g.last)
	w.expect = l.accepted.Load() + uint64(len(g.batches))
	l.pop(g)
	l.mu.Unlock()
	close(g.done)
	if !l.unvouched.Load() {
		l.unvouched.Store(true)
		l.kickKeeper()
	}
}

// room makes sure that a group fits into the active segment, rolling to the
// next one if need be, and that what is held back of it stays so. All barriers
// on the old one have returned.
func (l *Log) room(g *group) error {
	w := &l.writer
	end := w.pos + g.bytes
	switch {
	case w.dead || end > w.seg.size:
		return l.roll()
	case g.ordinary && !w.followed && end > w.seg.size-heldBack(w.seg.size):
		l.mu.Lock()
		defer l.mu.Unlock()
		err := l.awaitReady()
		w.followed = err == nil
		return err
	}
	return nil
}

// roll goes on in the next segment.
func (l *Log) roll() error {
	next, err := l.takeReady()
	if err != nil {
		return err
	}
	w := &l.writer
	l.retire(w.seg, l.durable.Load())
	w.seg, w.pos, w.prev, w.dead, w.followed = next, segment.HeaderBytes, 0, false, false
	return nil
}

// takeReady waits for the next segment, or for the news that there is none.
func (l *Log) takeReady() (*active, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.awaitReady(); err != nil {
		return nil, err
	}
	next := l.ready
	l.ready = nil
	l.kickKeeper()
	return next, nil
}

// awaitReady waits until the next segment is ready. The accept lock is held.
func (l *Log) awaitReady() error {
	for l.ready == nil && l.short == nil && l.poison == nil {
		l.kickKeeper()
		l.work.Wait()
	}
	switch {
	case l.poison != nil:
		return l.poison
	case l.ready == nil:
		l.kickKeeper()
		return l.short
	}
	return nil
}

// retire hands a segment that will not grow to the sealer.
func (l *Log) retire(old *active, last uint64) {
	old.f.Close() // what it holds is durable, or was refused
	old.last = last
	old.closed.Store(true)
	l.mu.Lock()
	l.toSeal = append(l.toSeal, old.segFile)
	l.mu.Unlock()
	select {
	case l.sealerKick <- struct{}{}:
	default:
	}
}
