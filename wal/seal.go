package wal

import (
	"fmt"
	"io"
	"runtime"

	"github.com/zeebo/blake3"

	"durafs/internal/mutant"
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
		return s, l.poison == nil
	}
}

// sealQueued seals the first segment of the queue. One that cannot be sealed
// is not tried again: its sync failed, and a second one proves nothing. It is
// as readable as before, and sealed by the next open.
func (l *Log) sealQueued(s *segFile) {
	if err := l.seal(s); err != nil {
		l.log.Warn("a segment could not be sealed", "file", s.name, "cause", err)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.toSeal = l.toSeal[1:]
}

// seal gives a segment that will not grow its final form:
//
//	MANIFEST {ended at, last LSN}   from here on a shorter file is no damage
//	ftruncate to the end            the blocks written ahead go back
//	fdatasync
//	MANIFEST {BLAKE3}               from here on it never changes
func (l *Log) seal(s *segFile) error {
	state := l.man.current()
	e := state.segments[s.id]
	if mutant.On(mutant.CutBeforeListed) && e.State == segLive {
		l.cut(s.name, s.end.Load())
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
	sum, err := l.cut(s.name, e.End)
	if err != nil {
		return fmt.Errorf("wal: seal %s: %w", s.name, err)
	}
	e.State, e.B3 = segSealed, sum
	return l.man.commit(setSegment(e))
}

// cut truncates a file to its end, syncs it, and hashes what it has.
func (l *Log) cut(name string, end int64) (sum [32]byte, err error) {
	f, err := l.fs.OpenWrite(l.path(name))
	if err != nil {
		return sum, err
	}
	defer f.Close()
	size, err := f.Size()
	if err != nil {
		return sum, err
	}
	if size != end {
		if err := f.Truncate(end); err != nil {
			return sum, err
		}
	}
	if err := f.Datasync(); err != nil {
		return sum, err
	}
	return hashFile(f, end)
}

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
