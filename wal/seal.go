package wal

import (
	"fmt"
	"io"

	"github.com/zeebo/blake3"
)

// seal gives a segment that will not grow its final form:
//
//	MANIFEST {ended at, last LSN}   from here on a shorter file is no damage
//	ftruncate to the end            the blocks written ahead go back
//	fdatasync
//	MANIFEST {BLAKE3}               from here on it never changes
func (l *Log) seal(s *segFile) error {
	state := l.man.current()
	e := state.segments[s.id]
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

// hashFile is the BLAKE3 of the first n bytes.
func hashFile(f io.ReaderAt, n int64) (sum [32]byte, err error) {
	h := blake3.New()
	got, err := io.CopyBuffer(h, io.NewSectionReader(f, 0, n), make([]byte, 256<<10))
	if err == nil && got != n {
		err = io.ErrUnexpectedEOF
	}
	h.Sum(sum[:0])
	return sum, err
}
