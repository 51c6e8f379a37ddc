package output

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
	"unicode/utf8"

	"pgregory.net/rapid"
)

type fixedClock struct{}

func (fixedClock) Now() time.Time      { return time.Date(2026, 1, 2, 3, 4, 5, 6, time.UTC) }
func (fixedClock) Boot() time.Duration { return 0 }

type row struct {
	Type   string  `json:"type"`
	N      uint64  `json:"n"`
	NTo    uint64  `json:"n_to"`
	Bytes  int64   `json:"bytes"`
	Stream string  `json:"stream"`
	Line   *string `json:"line"`
	B64    []byte  `json:"b64"`
	EOL    *bool   `json:"eol"`
}

// collect is a sink that keeps everything, or refuses while full.
type collect struct {
	mu   sync.Mutex
	buf  bytes.Buffer
	full bool
}

func (c *collect) sink(rows []byte, count int) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.full {
		return false
	}
	if bytes.Count(rows, []byte("\n")) != count {
		panic("count is not the number of rows")
	}
	c.buf.Write(rows)
	return true
}

func (c *collect) rows(t interface{ Fatalf(string, ...any) }) []row {
	var rows []row
	for l := range strings.Lines(c.buf.String()) {
		var r row
		if err := json.Unmarshal([]byte(l), &r); err != nil {
			t.Fatalf("row %q: %v", l, err)
		}
		rows = append(rows, r)
	}
	return rows
}

// restore is the documented way back from rows to bytes.
func restore(rows []row, stream string) []byte {
	var b []byte
	for _, r := range rows {
		if r.Stream != stream {
			continue
		}
		if r.Line != nil {
			b = append(b, *r.Line...)
		}
		b = append(b, r.B64...)
		if r.EOL == nil {
			b = append(b, '\n')
		}
	}
	return b
}

func TestRow(t *testing.T) {
	var c collect
	r := NewRecorder(fixedClock{}, c.sink)
	s := r.Stream("stdout")
	s.Write([]byte("plain\n\"quoted\" <&> \x1b[1m\n\xff\nlast"))
	s.Close()
	want := `{"type":"output","time":"2026-01-02T03:04:05.000000006Z","n":1,"stream":"stdout","line":"plain"}
{"type":"output","time":"2026-01-02T03:04:05.000000006Z","n":2,"stream":"stdout","line":"\"quoted\" <&> \u001b[1m"}
{"type":"output","time":"2026-01-02T03:04:05.000000006Z","n":3,"stream":"stdout","b64":"/w=="}
{"type":"output","time":"2026-01-02T03:04:05.000000006Z","n":4,"stream":"stdout","line":"last","eol":false}
`
	if got := c.buf.String(); got != want {
		t.Errorf("rows:\n%s\nwant:\n%s", got, want)
	}
	if got, want := r.Totals(), (Totals{Rows: 4, Bytes: 30}); got != want {
		t.Errorf("Totals = %+v, want %+v", got, want)
	}
}

// Restoring the rows is the inverse of recording, however the output was cut
// into writes.
func TestRestore(t *testing.T) {
	piece := rapid.OneOf(
		rapid.SliceOf(rapid.SampledFrom([]byte("ab\n\r\xff\x00é"))),
		rapid.Just(bytes.Repeat([]byte("é"), PieceBytesMax/2+1)),
		rapid.Just(bytes.Repeat([]byte("x"), PieceBytesMax)),
		rapid.Just(append(bytes.Repeat([]byte("y"), PieceBytesMax), '\n')),
		rapid.Just(bytes.Repeat([]byte{0x80}, 2*PieceBytesMax)),
	)
	rapid.Check(t, func(t *rapid.T) {
		var c collect
		r := NewRecorder(fixedClock{}, c.sink)
		s := r.Stream("stdout")
		var in []byte
		for _, p := range rapid.SliceOfN(piece, 0, 8).Draw(t, "pieces") {
			in = append(in, p...)
			s.Write(p)
		}
		s.Close()
		rows := c.rows(t)
		if got := restore(rows, "stdout"); !bytes.Equal(got, in) {
			t.Fatalf("restored %d bytes, printed %d", len(got), len(in))
		}
		for i, r := range rows {
			if r.N != uint64(i+1) {
				t.Fatalf("row %d has number %d", i+1, r.N)
			}
		}
	})
}

func TestLongLineIsCutBetweenCharacters(t *testing.T) {
	var c collect
	s := NewRecorder(fixedClock{}, c.sink).Stream("stdout")
	s.Write([]byte("x" + strings.Repeat("日", PieceBytesMax) + "\n"))
	rows := c.rows(t)
	if len(rows) < 3 {
		t.Fatalf("%d rows", len(rows))
	}
	for i, r := range rows {
		if r.Line == nil || !utf8.ValidString(*r.Line) || len(*r.Line) > PieceBytesMax {
			t.Errorf("piece %d is not whole characters within the bound", i)
		}
		if last := i == len(rows)-1; last != (r.EOL == nil) {
			t.Errorf("piece %d: eol %v", i, r.EOL)
		}
	}
}

// Rows that find no room are told of, with their numbers, once there is room.
func TestLost(t *testing.T) {
	var c collect
	r := NewRecorder(fixedClock{}, c.sink)
	s := r.Stream("stdout")
	s.Write([]byte("one\n"))
	c.full = true
	s.Write([]byte("two\nthree\n"))
	s.Write([]byte("four\n"))
	c.full = false
	s.Write([]byte("five\n"))
	rows := c.rows(t)
	var numbers []uint64
	for _, r := range rows {
		numbers = append(numbers, r.N)
	}
	if !slices.Equal(numbers, []uint64{1, 2, 5}) {
		t.Fatalf("numbers %v", numbers)
	}
	if lost := rows[1]; lost.Type != TypeLost || lost.NTo != 4 || lost.Bytes != 15 {
		t.Errorf("lost row %+v", lost)
	}
	if got := r.Totals(); got.Lost != 3 || got.Rows != 5 {
		t.Errorf("Totals = %+v", got)
	}
}

func TestStreamsShareOneOrder(t *testing.T) {
	var c collect
	r := NewRecorder(fixedClock{}, c.sink)
	var wg sync.WaitGroup
	for _, name := range []string{"stdout", "stderr"} {
		wg.Go(func() {
			s := r.Stream(name)
			for range 500 {
				s.Write([]byte("line\nline\n"))
			}
		})
	}
	wg.Wait()
	rows := c.rows(t)
	if len(rows) != 2000 {
		t.Fatalf("%d rows", len(rows))
	}
	for i, r := range rows {
		if r.N != uint64(i+1) {
			t.Fatalf("row %d has number %d", i+1, r.N)
		}
	}
}
