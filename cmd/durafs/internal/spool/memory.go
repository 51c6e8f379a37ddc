package spool

import (
	"io"
	"sync"
)

// memory stands in for a file. It is used under the spool's rules: what is
// read was written before, and nothing is written before the front.
type memory struct {
	mu sync.Mutex // guards b: unlike a file's, its bytes move when it grows
	b  []byte
}

func (m *memory) ReadAt(p []byte, off int64) (int, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if off > int64(len(m.b)) {
		return 0, io.EOF
	}
	n := copy(p, m.b[off:])
	if n < len(p) {
		return n, io.EOF
	}
	return n, nil
}

func (m *memory) WriteAt(p []byte, off int64) (int, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.b = append(m.b[:off], p...)
	return len(p), nil
}

func (m *memory) Truncate(size int64) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.b = m.b[:size]
	return nil
}

func (m *memory) Close() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.b = nil
	return nil
}
