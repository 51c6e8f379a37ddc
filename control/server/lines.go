package server

import (
	"bytes"
	"errors"
	"io"
	"strconv"
	"sync/atomic"
)

// lineBytesMin is the size of the first buffer of a stream: one that brings a
// row now and then needs no more.
const lineBytesMin = 16 << 10

// rowBuffer is memory that rows lie in. It is given back when neither the
// reader nor a group on its way refers to it.
type rowBuffer struct {
	b    []byte
	refs atomic.Int32
	from *budget // what b was taken from, nil for none
}

func newRowBuffer(n int, from *budget) *rowBuffer {
	buf := &rowBuffer{from: from}
	if n == copyBytes {
		buf.b = *takeBuffer()
	} else {
		buf.b = make([]byte, n)
	}
	buf.refs.Store(1)
	return buf
}

func (b *rowBuffer) release() {
	if b.refs.Add(-1) != 0 {
		return
	}
	if b.from != nil {
		b.from.give(len(b.b))
	}
	if len(b.b) == copyBytes {
		giveBuffer(&b.b)
	}
}

var errRowTooLarge = errors.New("row too large")

// lineReader splits what it reads into lines, which stay where they were read
// to: only the beginning of a line that is cut by the end of a buffer moves to
// the next one.
type lineReader struct {
	large *budget // for buffers of lines over copyBytes
	buf   *rowBuffer
	start int // of the line that is not complete
	end   int // of what was read
	seen  int // up to here there is no newline behind start
	lines [][]byte
}

// within reports whether a part of a line is there.
func (l *lineReader) within() bool { return l.end > l.start }

// full reports whether the next read needs another buffer.
func (l *lineReader) full() bool { return l.buf != nil && l.end == len(l.buf.b) }

// read reads once and returns the lines that are complete now, without their
// ends and without empty ones; valid until the next read, and what they hold
// as long as the buffer. A last line needs no newline.
func (l *lineReader) read(r io.Reader, lineBytesMax int64) ([][]byte, error) {
	if err := l.room(); err != nil {
		return nil, err
	}
	n, err := r.Read(l.buf.b[l.end:])
	l.end += n
	l.lines = l.lines[:0]
	for {
		i := bytes.IndexByte(l.buf.b[l.seen:l.end], '\n')
		if i < 0 {
			break
		}
		if !l.take(l.seen+i, lineBytesMax) {
			return l.lines, errRowTooLarge
		}
		l.start = l.seen + i + 1
		l.seen = l.start
	}
	l.seen = l.end
	if int64(l.end-l.start) > lineBytesMax {
		return l.lines, errRowTooLarge
	}
	if err == io.EOF {
		l.take(l.end, lineBytesMax)
		l.start = l.end
	}
	return l.lines, err
}

// take adds the line from start to end, if it is not too large.
func (l *lineReader) take(end int, bytesMax int64) bool {
	line := bytes.TrimSuffix(l.buf.b[l.start:end], []byte("\r"))
	if int64(len(line)) > bytesMax {
		return false
	}
	if len(line) > 0 {
		l.lines = append(l.lines, line[:len(line):len(line)])
	}
	return true
}

// room sees to it that there is something to read into. Rows that were given
// out keep the old buffer.
func (l *lineReader) room() error {
	switch {
	case l.buf == nil:
		l.buf = newRowBuffer(lineBytesMin, nil)
	case l.full():
		part := l.buf.b[l.start:l.end]
		size := copyBytes
		for size < 2*len(part) {
			size *= 2
		}
		var from *budget
		if size > copyBytes && l.large != nil {
			from = l.large
			if err := from.take(size); err != nil {
				return err
			}
		}
		next := newRowBuffer(size, from)
		copy(next.b, part)
		l.buf.release()
		l.buf, l.start, l.end, l.seen = next, 0, len(part), len(part)
	}
	return nil
}

func (l *lineReader) close() {
	if l.buf != nil {
		l.buf.release()
		l.buf = nil
	}
}

// appendAck is an acknowledgement as a line.
func appendAck(b []byte, acked, lastSeq uint64) []byte {
	b = append(b, `{"acked":`...)
	b = strconv.AppendUint(b, acked, 10)
	b = append(b, `,"last_seq":`...)
	b = strconv.AppendUint(b, lastSeq, 10)
	return append(b, "}\n"...)
}
