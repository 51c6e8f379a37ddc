package wal

import (
	"cmp"
	"errors"
	"io"
	"sync"
)

// salvageStepBytes is how much is lost where one sector cannot be read.
const salvageStepBytes = 4 << 10

// salvage reads around what cannot be read: one bad sector must not take with
// it what was asked for in the same call. What cannot be read reads as zeros,
// which no frame checks with, and is remembered.
type salvage struct {
	read func(p []byte, off int64) (int, error)

	// mu guards what follows: of a large file blocks are read ahead. first and
	// last bound what could not be read, and err is why; nil: all could.
	mu          sync.Mutex
	first, last int64
	err         error
}

func (s *salvage) ReadAt(p []byte, off int64) (int, error) {
	n, err := s.read(p, off)
	if err == nil || errors.Is(err, io.EOF) {
		return n, err
	}
	return s.pieces(p, off)
}

// pieces reads p piece by piece.
func (s *salvage) pieces(p []byte, off int64) (int, error) {
	got := 0
	for got < len(p) {
		at := off + int64(got)
		step := p[got:min(len(p), got+salvageStepBytes-int(at%salvageStepBytes))]
		n, err := s.read(step, at)
		if errors.Is(err, io.EOF) {
			return got + n, err
		}
		if err != nil {
			clear(step)
			s.note(at, err)
		}
		got += len(step)
	}
	return got, nil
}

func (s *salvage) note(at int64, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err == nil {
		s.first, s.err = at, err
	}
	s.first, s.last = min(s.first, at), max(s.last, at)
}

// unreadable tells where and why something from off on could not be read; a
// nil error if all could.
func (s *salvage) unreadable(off int64) (at int64, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err == nil || s.last+salvageStepBytes <= off {
		return 0, nil
	}
	return s.first, s.err
}

// because is why something could not be read, or else the first of errs.
func (s *salvage) because(errs ...error) error {
	_, err := s.unreadable(0)
	return cmp.Or(append([]error{err}, errs...)...)
}
