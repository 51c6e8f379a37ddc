package spool

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"

	"golang.org/x/sys/unix"
)

// ReadRows appends rows to buf, from row n on, whole ones, about max bytes but
// at least one, and returns buf and their number. It waits until there is one;
// io.EOF says that there will not be. n is the row behind the last one read,
// or the first one that is not acknowledged.
func (s *Spool) ReadRows(ctx context.Context, n uint64, buf []byte, max int) ([]byte, int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if n == s.acked+1 {
		s.read = cursor{row: n, off: s.head}
	}
	if n != s.read.row {
		return buf, 0, fmt.Errorf("row %d of the spool was asked for out of order", n)
	}
	for s.read.off == s.tail {
		if s.ended {
			return buf, 0, io.EOF
		}
		if err := s.await(ctx); err != nil {
			return buf, 0, err
		}
	}
	rows, err := s.wholeRows(s.read.off, int64(max))
	if err != nil {
		return buf, 0, err
	}
	count := bytes.Count(rows, newline)
	s.read = cursor{row: n + uint64(count), off: s.read.off + int64(len(rows))}
	return append(buf, rows...), count, nil
}

var newline = []byte("\n")

// await waits, with mu held, for rows or the end.
func (s *Spool) await(ctx context.Context) error {
	wake := s.wake
	s.mu.Unlock()
	defer s.mu.Lock()
	select {
	case <-wake:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// wholeRows reads the whole rows of the size bytes at off, or one that is
// longer.
func (s *Spool) wholeRows(off, size int64) ([]byte, error) {
	for {
		size = min(size, s.tail-off)
		b := make([]byte, size)
		if _, err := s.place.ReadAt(b, off); err != nil {
			return nil, fmt.Errorf("reading the spool: %w", err)
		}
		if end := bytes.LastIndexByte(b, '\n'); end >= 0 {
			return b[:end+1], nil
		}
		if size == s.tail-off {
			return nil, fmt.Errorf("the spool's last row has no end")
		}
		size *= 2
	}
}

// Ack takes the first rows, up to row n, off the front: the store has them.
func (s *Spool) Ack(n uint64) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for s.acked < n {
		rows, err := s.wholeRows(s.head, stepBytes)
		if err != nil {
			return err
		}
		for len(rows) > 0 && s.acked < n {
			end := bytes.IndexByte(rows, '\n') + 1
			rows = rows[end:]
			s.head += int64(end)
			s.acked++
			s.rows--
		}
	}
	s.giveBack()
	return nil
}

// giveBack frees the disk blocks of what was acknowledged.
func (s *Spool) giveBack() {
	if s.head == s.tail {
		if s.place.Truncate(0) == nil {
			s.head, s.tail, s.holes = 0, 0, 0
			s.read = cursor{row: s.acked + 1}
		}
		return
	}
	f, ok := s.place.(*os.File)
	if !ok || !s.punch || s.head-s.holes < holeBytes {
		return
	}
	const mode = unix.FALLOC_FL_PUNCH_HOLE | unix.FALLOC_FL_KEEP_SIZE
	if err := unix.Fallocate(int(f.Fd()), mode, s.holes, s.head-s.holes); err != nil {
		s.punch = false // this file system cannot
		return
	}
	s.holes = s.head
}

// Close ends the spool. When rows are left and there is a file, it keeps
// exactly these, and Close returns its path; else nothing stays behind.
func (s *Spool) Close() (path string, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return "", nil
	}
	s.closed = true
	defer s.place.Close()
	switch {
	case s.path == "":
		return "", nil
	case s.rows == 0:
		return "", os.Remove(s.path)
	}
	return s.path, s.moveToFront()
}

// moveToFront moves the rows that are left to the front of the file, in steps:
// each is read whole before its place is written over.
func (s *Spool) moveToFront() error {
	if s.head == 0 {
		return s.place.Truncate(s.tail) // a failed append may lie behind it
	}
	step := make([]byte, stepBytes)
	to := int64(0)
	for from := s.head; from < s.tail; {
		n := min(stepBytes, s.tail-from)
		if _, err := s.place.ReadAt(step[:n], from); err != nil {
			return err
		}
		if _, err := s.place.WriteAt(step[:n], to); err != nil {
			return err
		}
		from, to = from+n, to+n
	}
	return s.place.Truncate(to)
}
