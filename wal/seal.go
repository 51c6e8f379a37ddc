package wal

import (
	"errors"
	"fmt"
	"io"
	"runtime"
	"time"

	"github.com/zeebo/blake3"

	"durafs/internal/mutant"
	"durafs/internal/vfs"
	"durafs/segment"
)

// sealer is the sealer goroutine: it seals what is full, one after the other.
// It is not the keeper's work, for which the writer may have to wait.
func (l *Log) sealer() {
	for {
		s, ok := l.nextToSeal()
		if !ok {
			return
		}
		if s != nil {
			l.sealQueued(s)
			continue
		}
		select {
		case <-l.stop:
			return
		case <-l.sealerKick:
		}
	}
}

func (l *Log) nextToSeal() (s *segFile, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.toSeal) > 0 {
		s = l.toSeal[0]
	}
	select {
	case <-l.stop:
		return nil, false
	default:
		return s, l.poison == nil && !l.sealingOver
	}
}

// sealQueued seals the first segment of the queue. On a full disk it is tried
// again. After any other failure nothing is sealed any more: its sync failed,
// and a second one proves nothing; and those behind it may not overtake it.
// What is not sealed is as readable as before, and sealed by the next open.
func (l *Log) sealQueued(s *segFile) {
	err := l.seal(s)
	if isFull(err) && l.waitToSeal() {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if err != nil {
		l.log.Warn("a segment could not be sealed", "file", s.name, "cause", err)
		l.sealingOver = !isFull(err)
		return
	}
	l.toSeal = l.toSeal[1:]
}

func isFull(err error) bool { return err != nil && isNoSpace(err) }

// waitToSeal lets time pass in which space may come back; false is the end.
func (l *Log) waitToSeal() bool {
	timer := time.NewTimer(l.opts.SpaceRetryMax)
	defer timer.Stop()
	select {
	case <-l.stop:
		return false
	case <-timer.C:
		return true
	}
}

// seal gives a segment that will not grow its final form:
//
//	MANIFEST {ended at, last LSN}   from here on what is behind does not count
//	pwrite                          the footer, over blocks written ahead
//	ftruncate to its end            the other blocks go back
//	fdatasync
//	MANIFEST {size, BLAKE3}         from here on it never changes
//
// A crash before the last leaves a segment that has ended, and the next open
// seals it in the same way.
func (l *Log) seal(s *segFile) error {
	state := l.man.current()
	e := state.segments[s.id]
	if mutant.On(mutant.CutBeforeListed) && e.State == segLive {
		early := e
		early.End, early.Last = s.end.Load(), s.last
		l.finishFile(s, early)
	}
	if e.State == segLive {
		e.State, e.End, e.Last = segEnded, s.end.Load(), s.last
		if err := l.man.commit(setSegment(e)); err != nil {
			return err
		}
	}
	if e.State == segSealed {
		return nil
	}
	foot, sum, err := l.finishFile(s, e)
	if err != nil {
		return fmt.Errorf("wal: seal %s: %w", s.name, err)
	}
	e.State, e.Bytes, e.B3 = segSealed, foot.Size, sum
	if err := l.man.commit(setSegment(e), l.highNow()); err != nil {
		return err
	}
	s.footer.Store(&foot)
	if l.opts.Derived != nil {
		l.opts.Derived.Sealed(s.id)
	}
	return nil
}

// highNow is the edit that keeps the numbers that were given.
func (l *Log) highNow() raiseHigh {
	var h raiseHigh
	if l.opts.Derived != nil {
		h.Numbers = l.opts.Derived.Numbers()
	}
	return h
}

// finishFile writes the footer, syncs the file, and hashes what it has.
func (l *Log) finishFile(s *segFile, e segEntry) (foot segment.Footer, sum [32]byte, err error) {
	f, err := l.fs.OpenWrite(l.path(s.name))
	if err != nil {
		return foot, sum, err
	}
	defer f.Close()
	size, err := f.Size()
	if err == nil && size < e.End {
		err = &segment.InvalidError{Offset: size, Reason: "the file ends here"}
	}
	if err != nil {
		return foot, sum, err
	}
	if foot, err = l.writeFooter(f, s, e); err != nil {
		f.Truncate(e.End) // whatever of it was written may be the space that is missing
		return foot, sum, err
	}
	if err := f.Datasync(); err != nil {
		return foot, sum, err
	}
	sum, err = sealedSum(f, foot.Size)
	return foot, sum, err
}

// sealedSum is the BLAKE3 of a file that will not change; zeros where a part of
// it cannot be read: one bad sector must not keep the rest, and all segments
// behind it, from being sealed. Who reads what was there is told.
func sealedSum(f io.ReaderAt, n int64) (sum [32]byte, err error) {
	sum, err = hashFile(f, n)
	var short *segment.InvalidError
	if err == nil || errors.As(err, &short) {
		return sum, err
	}
	return [32]byte{}, nil
}

func (l *Log) writeFooter(f vfs.File, s *segFile, e segEntry) (segment.Footer, error) {
	foot := segment.Footer{
		Header: segment.Header{Kind: segment.LogFile, StoreID: l.opts.StoreID, ID: e.ID, Salt: e.Salt, Generation: e.Generation},
		End:    e.End, First: e.Last + 1, Last: e.Last,
	}
	if e.End > segment.HeaderBytes {
		w := walkerOf(f, s.key, e)
		defer w.Close()
		first, err := w.Pass() // its payload may have rotted
		if err != nil {
			return foot, err
		}
		if foot.First = first.LSN; first.Count == 0 {
			foot.First++
		}
	}
	w := newFooterWriter(f, s.key, e.End, l.paceSeal)
	if l.opts.Derived != nil {
		if err := l.opts.Derived.Derive(e.ID, batchesOf(f, s.key, e), w); err != nil {
			return foot, err
		}
	}
	return w.finish(foot)
}

func walkerOf(f vfs.File, key segment.Key, e segEntry) *segment.Walker {
	read := salvage{read: f.ReadAt}
	w := segment.NewWalker(read.ReadAt, key, segment.HeaderBytes, e.End, 0)
	w.FreeStart()
	return w
}

// batchesOf are those of a segment that will not grow.
func batchesOf(f vfs.File, key segment.Key, e segEntry) Batches {
	return func(each func(Frame) error, lost func(*DamageError) error) error {
		return eachBatch(walkerOf(f, key, e), e.ID, each, lost)
	}
}

// eachBatch walks a segment that will not grow. Nobody waits for it, so it
// gives its processor away again and again.
func eachBatch(w *segment.Walker, id uint32, each func(Frame) error, lost func(*DamageError) error) error {
	defer w.Close()
	rested := w.Offset()
	for {
		f, err := w.Next()
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			if err := stepOverLost(w, id, err, lost); err != nil {
				return err
			}
			continue
		case f.Kind != segment.Batch:
			continue
		}
		if err := each(Frame{LSN: f.LSN, Run: f.Run, Count: f.Count, Payload: f.Payload, Pos: Position{id, uint32(f.Offset)}}); err != nil {
			return err
		}
		if w.Offset()-rested >= hashStepBytes {
			rested = w.Offset()
			runtime.Gosched()
		}
	}
}

// stepOverLost tells of the batch where a walk has stopped, and moves it
// behind. Where nobody can tell whose batch it was, that is the error.
func stepOverLost(w *segment.Walker, id uint32, cause error, lost func(*DamageError) error) error {
	off := w.Offset()
	damage := damageAt(segmentName(id), off, w.LSN+1, w.LSN+1, cause)
	d, ok := errors.AsType[*DamageError](damage)
	if !ok {
		return damage
	}
	h, err := w.Pass()
	switch {
	case err != nil, h.Kind == segment.Batch && h.Run == 0:
		return damage
	case h.Kind != segment.Batch:
		return nil // it held nothing
	}
	d.LSNFrom, d.LSNTo, d.Run, d.Count = h.LSN, h.LSN, h.Run, h.Count
	return lost(d)
}

// paceSeal lies between the steps of a large footer, so that the log's own
// barriers, which share the disk, find little to wait for.
func (l *Log) paceSeal() error {
	select {
	case <-l.stop: // Close waits
		return nil
	default:
	}
	timer := time.NewTimer(sealStepPause)
	defer timer.Stop()
	select {
	case <-l.stop:
	case <-timer.C:
	}
	return nil
}

// sealStepPause lies between two steps of a footer.
const sealStepPause = time.Millisecond

// hashStepBytes is how much is hashed before others may run.
const hashStepBytes = 64 << 10

// hashFile is the BLAKE3 of the first n bytes. Nobody waits for it, so it
// gives its processor away again and again.
func hashFile(f io.ReaderAt, n int64) (sum [32]byte, err error) {
	h := blake3.New()
	buf := make([]byte, hashStepBytes)
	for off := int64(0); off < n; {
		b := buf[:min(hashStepBytes, n-off)]
		if err := readFull(f, b, off); err != nil {
			return sum, err
		}
		h.Write(b)
		off += int64(len(b))
		runtime.Gosched()
	}
	h.Sum(sum[:0])
	return sum, nil
}
