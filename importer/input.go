package importer

import (
	"bufio"
	"bytes"
	"errors"
	"io"
)

// place is where something begins in the file.
type place struct {
	line   int // from 1
	offset int64
}

// input reads bytes and knows where it is.
type input struct {
	r *bufio.Reader
	place
	bytesMax int  // of a line or part; RowBytesMax but in tests
	last     byte // read
	buf      []byte
}

func newInput(r io.Reader) *input {
	return &input{r: bufio.NewReaderSize(r, HeadBytesMax), place: place{line: 1}, bytesMax: RowBytesMax}
}

// passed counts bytes that were read.
func (in *input) passed(p []byte) {
	for _, c := range p {
		if c == '\n' {
			in.line++
		}
	}
	in.offset += int64(len(p))
	if len(p) > 0 {
		in.last = p[len(p)-1]
	}
}

// skipBOM passes over a byte order mark.
func (in *input) skipBOM() {
	if head, _ := in.r.Peek(len(bom)); string(head) == string(bom) {
		in.r.Discard(len(bom))
		in.passed(head)
	}
}

// readLine returns the next line without its line break, and whether it had
// one. A line over bytesMax is read to its end, and long is its length; of
// its bytes only the first are returned. The line is valid until the next read.
func (in *input) readLine() (line []byte, whole bool, long int64, err error) {
	in.buf = in.buf[:0]
	n := int64(0)
	for {
		part, err := in.r.ReadSlice('\n')
		in.passed(part)
		n += int64(len(part))
		if room := in.bytesMax + 1 - len(in.buf); room > 0 {
			in.buf = append(in.buf, part[:min(room, len(part))]...)
		}
		if errors.Is(err, bufio.ErrBufferFull) {
			continue
		}
		if err != nil && (!errors.Is(err, io.EOF) || n == 0) {
			return nil, false, 0, err
		}
		whole = err == nil
		break
	}
	if whole {
		n--
		in.buf = bytes.TrimSuffix(in.buf, []byte("\n"))
	}
	if n > int64(in.bytesMax) {
		long = n
	}
	return in.buf, whole, long, nil
}

// peek returns the next byte that is not blank, without reading it.
func (in *input) peek() (byte, error) {
	for {
		c, err := in.r.ReadByte()
		if err != nil {
			return 0, err
		}
		switch c {
		case ' ', '\t', '\r', '\n':
			in.passed([]byte{c})
		default:
			return c, in.r.UnreadByte()
		}
	}
}

// skip passes over one byte.
func (in *input) skip() {
	if c, err := in.r.ReadByte(); err == nil {
		in.passed([]byte{c})
	}
}
