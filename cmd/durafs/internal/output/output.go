// Package output turns what a command prints into rows of a log.
//
// # The idea
//
// A row is a line: its bytes, its stream, when it was complete, and a number
// that counts the command's rows over both streams. The bytes come back
// exactly: write out each row's line, and a line break after it unless the row
// says "eol":false, which marks the pieces of a very long line and a last line
// without a line break. A line that is not UTF-8 stands as "b64" instead of
// "line".
package output

import (
	"encoding/base64"
	"strconv"
	"sync"
	"time"
	"unicode/utf8"

	"durafs/internal/clock"
)

// The fields of a row that tell it from every other row of the command:
// delivered twice, it is the same row. A command that was begun again counts
// from 1 again, and its rows have a key that says so.
const (
	keyField      = "n"
	keyFieldAgain = "key"
)

// Types of the rows that a Recorder makes.
const (
	TypeOutput = "output"
	// TypeLost stands for lines that the sink had no room for.
	TypeLost = "output-lost"
)

// Sink takes whole rows, each ended by a line break. It returns false, without
// having taken any of them, when it has no room. It must not block on
// anything but the local disk, and must not keep the slice.
type Sink func(rows []byte, count int) bool

// Recorder numbers the rows of all streams of one command and hands them to a
// sink, in the order of their numbers.
type Recorder struct {
	clock clock.Clock
	sink  Sink
	again []byte // what the rows of a command have that was begun again, before the number in their key

	mu    sync.Mutex // guards what follows; held while the sink is called
	n     uint64
	gap   gap
	total Totals
	rows  []byte // scratch
}

// Totals counts what a command printed.
type Totals struct {
	Rows  uint64 `json:"rows"`  // rows made, lost ones included
	Bytes int64  `json:"bytes"` // of output
	Lost  uint64 `json:"lost"`  // rows that found no room
}

// gap is a stretch of rows that found no room and was not told of yet.
type gap struct {
	from, to uint64
	bytes    int64
}

// NewRecorder returns a Recorder that hands its rows to sink.
func NewRecorder(c clock.Clock, sink Sink) *Recorder {
	return &Recorder{clock: c, sink: sink}
}

// Again says that the command was begun for the nth time: its rows say so. It is
// called before there is a row.
func (r *Recorder) Again(attempt uint64) {
	a := strconv.FormatUint(attempt, 10)
	r.again = []byte(`,"attempt":` + a + `,"` + keyFieldAgain + `":"` + a + `-`)
}

// KeyField is the field of each row that is its key.
func (r *Recorder) KeyField() string {
	if r.again != nil {
		return keyFieldAgain
	}
	return keyField
}

// number appends a row's number, and its key where that is another.
func (r *Recorder) number(b []byte, n uint64) []byte {
	b = strconv.AppendUint(b, n, 10)
	if r.again != nil {
		b = append(b, r.again...)
		b = append(strconv.AppendUint(b, n, 10), '"')
	}
	return b
}

// Totals tells what was recorded so far.
func (r *Recorder) Totals() Totals {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.total
}

// Stream returns the writer of one stream. Streams may be used concurrently,
// each by one goroutine.
func (r *Recorder) Stream(name string) *Stream {
	return &Stream{recorder: r, name: name}
}

// record makes rows of lines and hands them on together.
func (r *Recorder) record(stream string, lines []line) {
	if len(lines) == 0 {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.tellGap()
	now := r.clock.Now()
	first, size := r.n+1, int64(0)
	r.rows = r.rows[:0]
	for _, l := range lines {
		r.n++
		size += l.size()
		r.rows = r.appendRow(r.rows, now, r.n, stream, l)
	}
	r.total.Rows += uint64(len(lines))
	r.total.Bytes += size
	if !r.sink(r.rows, len(lines)) {
		r.lose(first, size)
	}
}

// lose remembers that the rows from first to the newest found no room.
func (r *Recorder) lose(first uint64, size int64) {
	if r.gap.from == 0 {
		r.gap.from = first
	}
	r.gap.to = r.n
	r.gap.bytes += size
	r.total.Lost += r.n - first + 1
}

// tellGap puts a row in the place of those that were lost, as soon as there is
// room again. It has the number of the first of them, so that it cannot be
// taken for another.
func (r *Recorder) tellGap() {
	if r.gap.from == 0 {
		return
	}
	row := append([]byte(nil), `{"type":"`+TypeLost+`","time":"`...)
	row = r.clock.Now().AppendFormat(row, time.RFC3339Nano)
	row = r.number(append(row, `","n":`...), r.gap.from)
	row = strconv.AppendUint(append(row, `,"n_to":`...), r.gap.to, 10)
	row = strconv.AppendInt(append(row, `,"bytes":`...), r.gap.bytes, 10)
	if r.sink(append(row, "}\n"...), 1) {
		r.gap = gap{}
	}
}

// Close tells of rows that were lost last, if there is room by now.
func (r *Recorder) Close() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.tellGap()
}

func (r *Recorder) appendRow(b []byte, now time.Time, n uint64, stream string, l line) []byte {
	b = append(b, `{"type":"`+TypeOutput+`","time":"`...)
	b = now.AppendFormat(b, time.RFC3339Nano)
	b = r.number(append(b, `","n":`...), n)
	b = append(b, `,"stream":"`+stream+`",`...)
	if utf8.Valid(l.text) {
		b = appendString(append(b, `"line":`...), l.text)
	} else {
		b = base64.StdEncoding.AppendEncode(append(b, `"b64":"`...), l.text)
		b = append(b, '"')
	}
	if !l.eol {
		b = append(b, `,"eol":false`...)
	}
	return append(b, "}\n"...)
}

// appendString appends text, which is UTF-8, as a JSON string with no escapes
// but those that JSON demands: what was printed can be searched for as it is.
func appendString(b, text []byte) []byte {
	const hex = "0123456789abcdef"
	b = append(b, '"')
	for _, c := range text {
		switch {
		case c == '"' || c == '\\':
			b = append(b, '\\', c)
		case c == '\t':
			b = append(b, '\\', 't')
		case c == '\r':
			b = append(b, '\\', 'r')
		case c < 0x20:
			b = append(b, '\\', 'u', '0', '0', hex[c>>4], hex[c&15])
		default:
			b = append(b, c)
		}
	}
	return append(b, '"')
}
