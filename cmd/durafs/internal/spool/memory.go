package spool

import "io"

// memory stands in for a file. The spool's lock guards it.
type memory struct{ b []byte }

func (m *memory) ReadAt(p []byte, off int64) (int, error) {
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
	m.b = append(m.b[:off], p...)
	return len(p), nil
}

func (m *memory) Truncate(size int64) error {
	m.b = m.b[:size]
	return nil
}

func (m *memory) Close() error {
	m.b = nil
	return nil
}
