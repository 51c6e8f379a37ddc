// Package spool keeps rows until the store has them: a bounded queue in a
// file of its own.
//
// # The idea
//
// Whoever prints must never wait for the store, so rows go to a file first and
// are delivered from there. The file is plain text, one row a line, so that
// what could not be delivered is of use to a person. What the store has
// acknowledged gives its disk blocks back at once (a hole is punched), and an
// empty spool begins at the front again. Where no file can be made, a smaller
// one in memory stands in for it.
//
// A spool promises nothing across a crash of its own process: the rows' home
// is the store.
package spool

import (
	"errors"
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
	// holeBytes is how much must have been acknowledged to be worth a hole.
	holeBytes = 1 << 20
	// stepBytes is how much is read at a time.
	stepBytes = 64 << 10
)

// Spool is a queue of rows, numbered from 1. Its methods may be called
// concurrently; ReadRows by one goroutine at a time.
type Spool struct {
	path  string // "" in memory
	limit int64

	// mu guards what follows. It is held while the file is read or written,
	// which means that an append waits for the local disk, and for nothing
	// else.
	mu     sync.Mutex
	place  backing
	acked  uint64 // rows before head
	head   int64  // where the first row begins that is not acknowledged
	read   cursor
	tail   int64
	rows   uint64 // between head and tail
	holes  int64  // everything before was given back
	punch  bool   // holes can be punched
	ended  bool
	closed bool
	wake   chan struct{} // closed and made anew when rows come or the end does
}

// cursor is where a row begins.
type cursor struct {
	row uint64
	off int64
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
	return &Spool{
		path: path, place: place, limit: limit, punch: path != "",
		read: cursor{row: 1}, wake: make(chan struct{}),
	}
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
	s.wakeUp()
	return true
}

// front is where the space that counts against the limit begins: without holes
// what was acknowledged still takes its place.
func (s *Spool) front() int64 {
	if s.punch {
		return s.head
	}
	return 0
}

// End says that no row will be appended any more.
func (s *Spool) End() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ended = true
	s.wakeUp()
}

// Rows tells how many rows are not acknowledged.
func (s *Spool) Rows() uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.rows
}

func (s *Spool) wakeUp() {
	close(s.wake)
	s.wake = make(chan struct{})
}
