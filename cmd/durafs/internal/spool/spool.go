// Package spool keeps rows until the store has them: a bounded queue in a
// file of its own.
//
// # The idea
//
// Whoever prints must never wait for the store, so rows go to a file first and
// are delivered from there. The file is plain text, one row a line, so that
// what could not be delivered is of use to a person. What was delivered gives
// its disk blocks back at once (a hole is punched), and an empty spool begins
// at the front again. Where no file can be made, a smaller one in memory
// stands in for it.
//
// A spool promises nothing across a crash of its own process: the rows' home
// is the store.
package spool

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"

	"golang.org/x/sys/unix"
)

const (
	// BytesMax bounds the rows that wait in a file.
	BytesMax = 64 << 20
	// MemoryBytesMax bounds the rows that wait where there is no file.
	MemoryBytesMax = 8 << 20
	// BatchBytesMax bounds what Peek gives at once. A row must fit.
	BatchBytesMax = 256 << 10
	// holeBytes is how much must have been delivered to be worth a hole.
	holeBytes = 1 << 20
)

// Spool is a queue of rows. One goroutine peeks and advances; any number
// append.
type Spool struct {
	path  string // "" in memory
	place backing
	limit int64

	// ready has an element when rows may have come since the last Peek.
	ready chan struct{}

	mu     sync.Mutex // guards what follows
	head   int64      // rows from here to tail are not delivered
	tail   int64
	holes  int64 // everything before was given back
	punch  bool  // holes can be punched
	rows   uint64
	closed bool
}

// backing is a file, or what stands in for one.
type backing interface {
	ReadAt(p []byte, off int64) (int, error)
	WriteAt(p []byte, off int64) (int, error)
	Truncate(size int64) error
	Close() error
}

// Open makes a new spool under a name in the first of the directories where
// that is possible, else in memory.
func Open(name string, dirs ...string) *Spool {
	for _, dir := range dirs {
		if f, err := create(dir, name); err == nil {
			return newSpool(f, f.Name(), BytesMax)
		}
	}
	return newSpool(&memory{}, "", MemoryBytesMax)
}

func newSpool(place backing, path string, limit int64) *Spool {
	return &Spool{path: path, place: place, limit: limit, punch: path != "", ready: make(chan struct{}, 1)}
}

func create(dir, name string) (*os.File, error) {
	if dir == "" {
		return nil, errors.New("no directory")
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	return os.OpenFile(filepath.Join(dir, name), os.O_RDWR|os.O_CREATE|os.O_EXCL|unix.O_NOFOLLOW, 0o600)
}

// Append adds count rows, each ended by a line break, all or none of them. It
// reports false when there is no room, or when the disk takes no more.
func (s *Spool) Append(rows []byte, count int) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed || s.tail-s.front()+int64(len(rows)) > s.limit {
		return false
	}
	if _, err := s.place.WriteAt(rows, s.tail); err != nil {
		return false // what was written lies behind the tail, and is written over
	}
	s.tail += int64(len(rows))
	s.rows += uint64(count)
	select {
	case s.ready <- struct{}{}:
	default:
	}
	return true
}

// front is where the space that counts against the limit begins: without holes
// what was delivered still takes its place.
func (s *Spool) front() int64 {
	if s.punch {
		return s.head
	}
	return 0
}

// Ready returns a channel that receives when rows may have come. Peek until it
// gives nothing, then wait.
func (s *Spool) Ready() <-chan struct{} { return s.ready }

// Peek returns the oldest rows, at most BatchBytesMax bytes of whole rows, and
// nothing when there are none. They stay until Advance.
func (s *Spool) Peek() ([]byte, error) {
	s.mu.Lock()
	head, tail := s.head, s.tail
	s.mu.Unlock()
	batch := make([]byte, min(tail-head, BatchBytesMax))
	if _, err := s.place.ReadAt(batch, head); err != nil && len(batch) > 0 {
		return nil, fmt.Errorf("reading the spool: %w", err)
	}
	return batch[:bytes.LastIndexByte(batch, '\n')+1], nil
}

// Advance takes delivered rows, which Peek gave, off the front.
func (s *Spool) Advance(delivered []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.head += int64(len(delivered))
	s.rows -= uint64(bytes.Count(delivered, []byte("\n")))
	switch {
	case s.head == s.tail:
		if s.place.Truncate(0) == nil {
			s.head, s.tail, s.holes = 0, 0, 0
		}
	case s.head-s.holes >= holeBytes:
		s.giveBack()
	}
}

// giveBack frees the disk blocks of what was delivered.
func (s *Spool) giveBack() {
	f, ok := s.place.(*os.File)
	if !ok || !s.punch {
		return
	}
	const mode = unix.FALLOC_FL_PUNCH_HOLE | unix.FALLOC_FL_KEEP_SIZE
	if err := unix.Fallocate(int(f.Fd()), mode, s.holes, s.head-s.holes); err != nil {
		s.punch = false // this file system cannot
		return
	}
	s.holes = s.head
}

// Rows tells how many rows wait.
func (s *Spool) Rows() uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.rows
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
	if s.path == "" {
		return "", nil
	}
	if s.rows == 0 {
		return "", os.Remove(s.path)
	}
	return s.path, s.settleFile()
}

// settleFile moves the rows that are left to the front of the file, in steps:
// each is read whole before its place is written over.
func (s *Spool) settleFile() error {
	to := int64(0)
	if s.head > 0 {
		step := make([]byte, BatchBytesMax)
		for from := s.head; from < s.tail; {
			n := min(int64(len(step)), s.tail-from)
			if _, err := s.place.ReadAt(step[:n], from); err != nil {
				return err
			}
			if _, err := s.place.WriteAt(step[:n], to); err != nil {
				return err
			}
			from, to = from+n, to+n
		}
	} else {
		to = s.tail
	}
	return s.place.Truncate(to)
}
