package output

import (
	"bytes"
	"unicode/utf8"
)

// PieceBytesMax bounds the bytes of a row's line; longer lines come in pieces.
const PieceBytesMax = 32 << 10

// line is a line, or a piece of one when eol is false.
type line struct {
	text []byte
	eol  bool
}

// size is what of the output the line stands for.
func (l line) size() int64 {
	if l.eol {
		return int64(len(l.text)) + 1
	}
	return int64(len(l.text))
}

// Stream takes what one stream of the command prints.
type Stream struct {
	recorder *Recorder
	name     string

	rest  []byte // the beginning of a line, at most PieceBytesMax
	lines []line // scratch
}

// Write records the lines that p completes. It takes all of p and never fails.
func (s *Stream) Write(p []byte) (int, error) {
	size := len(p)
	s.rest = append(s.rest, p...)
	data := s.rest
	s.lines = s.lines[:0]
	for {
		n := s.next(data)
		if n == 0 {
			break
		}
		data = data[n:]
	}
	s.recorder.record(s.name, s.lines)
	s.rest = append(s.rest[:0], data...)
	return size, nil
}

// next takes one line, or one piece, from the front of data and tells how many
// bytes that were: 0 when data holds neither.
func (s *Stream) next(data []byte) int {
	end := bytes.IndexByte(data, '\n')
	switch {
	case end >= 0 && end <= PieceBytesMax:
		s.lines = append(s.lines, line{data[:end], true})
		return end + 1
	case len(data) > PieceBytesMax:
		n := pieceLen(data)
		s.lines = append(s.lines, line{data[:n], false})
		return n
	}
	return 0
}

// Close records what is left as a line without a line break.
func (s *Stream) Close() error {
	if len(s.rest) > 0 {
		s.recorder.record(s.name, []line{{s.rest, false}})
		s.rest = nil
	}
	return nil
}

// pieceLen is PieceBytesMax, or up to three bytes less so that a character
// stays whole.
func pieceLen(data []byte) int {
	for n := PieceBytesMax; n > PieceBytesMax-utf8.UTFMax; n-- {
		if utf8.RuneStart(data[n]) {
			return n
		}
	}
	return PieceBytesMax
}
