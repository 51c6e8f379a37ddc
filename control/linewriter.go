package control

import (
	"bytes"
	"io"
)

// LineWriter is an io.WriteCloser that makes each line written to it a row of
// the stream, by wrap. A last line without a newline is a row when it is
// closed. Closing it leaves the stream open. It is for one goroutine.
func (s *Stream) LineWriter(wrap func(line []byte) any) io.WriteCloser {
	return &lineWriter{s: s, wrap: wrap}
}

type lineWriter struct {
	s    *Stream
	wrap func([]byte) any
	part []byte
}

func (l *lineWriter) Write(p []byte) (int, error) {
	n := 0
	for {
		line, rest, ok := bytes.Cut(p[n:], []byte("\n"))
		if !ok {
			l.part = append(l.part, line...)
			return len(p), nil
		}
		if err := l.s.Log(l.wrap(append(l.part, line...))); err != nil {
			return n, err
		}
		l.part = l.part[:0]
		n = len(p) - len(rest)
	}
}

func (l *lineWriter) Close() error {
	if len(l.part) == 0 {
		return nil
	}
	defer func() { l.part = nil }()
	return l.s.Log(l.wrap(l.part))
}
