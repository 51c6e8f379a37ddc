package server

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"durafs/control"
	"durafs/runs"
	"durafs/wal"
)

func chunk(s string) string { return fmt.Sprintf("%x\r\n%s\r\n", len(s), s) }

func readAnswerFrom(t testing.TB, br *bufio.Reader) answer {
	t.Helper()
	resp, err := http.ReadResponse(br, nil)
	if err != nil {
		t.Fatalf("no answer: %v", err)
	}
	return toAnswer(t, resp)
}

// acks decodes the lines of a stream's answer.
func (a answer) acks(t *testing.T) (lines []control.Ack) {
	t.Helper()
	for l := range strings.Lines(a.body) {
		var k control.Ack
		if err := json.Unmarshal([]byte(l), &k); err != nil {
			t.Fatalf("an acknowledgement %q: %v", l, err)
		}
		lines = append(lines, k)
	}
	return lines
}

func rows(from, to int) string {
	var b strings.Builder
	for i := from; i <= to; i++ {
		fmt.Fprintf(&b, "{\"n\":%d}\n", i)
	}
	return b.String()
}

// wantRows checks that a log holds rows 1 to n, in order, once.
func wantRows(t *testing.T, log string, n int) {
	t.Helper()
	i := 0
	for l := range strings.Lines(log) {
		i++
		if want := fmt.Sprintf("{\"seq\":%d,\"n\":%d}\n", i, i); l != want {
			t.Fatalf("line %d is %q, want %q", i, l, want)
		}
	}
	if i != n {
		t.Fatalf("the log has %d rows, want %d", i, n)
	}
}

func TestStreamWhole(t *testing.T) {
	for name, c := range map[string]struct {
		body string
		n    int
	}{
		"empty":           {"", 0},
		"only line ends":  {"\n\r\n\n", 0},
		"one":             {rows(1, 1), 1},
		"no last newline": {strings.TrimSuffix(rows(1, 3), "\n"), 3},
		"CRLF":            {strings.ReplaceAll(rows(1, 3), "\n", "\r\n"), 3},
		"empty lines":     {"\n" + strings.ReplaceAll(rows(1, 3), "\n", "\n\n"), 3},
		"many":            {rows(1, 50000), 50000},
	} {
		t.Run(name, func(t *testing.T) {
			d := serve(t, newFake())
			id, token := d.run()
			a := d.do("POST", "/v1/runs/"+id+"/log", c.body, "Content-Type", typeNDJSON, control.HeaderWriter, token)
			lines := a.acks(t)
			last := lines[len(lines)-1]
			if a.status != 200 || last != (control.Ack{Acked: uint64(c.n), LastSeq: uint64(c.n), Done: true}) {
				t.Fatalf("%d, last %+v", a.status, last)
			}
			wantRows(t, d.f.logOf(id), c.n)
			for i, k := range lines[1:] {
				if k.Acked < lines[i].Acked {
					t.Errorf("acknowledgements go back: %+v", lines)
				}
			}
		})
	}
}

// TestStreamLargeRows puts rows around the sizes of buffers through, cut into
// chunks at odd places.
func TestStreamLargeRows(t *testing.T) {
	d := serve(t, newFake())
	id, token := d.run()
	var body, want bytes.Buffer
	for i, n := range []int{1, lineBytesMin - 20, lineBytesMin, copyBytes - 20, copyBytes, copyBytes + 1, 3 * copyBytes, 5, 2 << 20, 7} {
		text := strings.Repeat(string(rune('a'+i)), n)
		fmt.Fprintf(&body, "{\"t\":%q}\n", text)
		fmt.Fprintf(&want, "{\"seq\":%d,\"t\":%q}\n", i+1, text)
	}
	var acks atomic.Int64
	last, err := d.client().WithWriter(token).Stream(t.Context(), id, "", &oddReader{b: body.Bytes()}, func(control.Ack) { acks.Add(1) })
	if err != nil || last.Acked != 10 || !last.Done {
		t.Fatalf("%+v, %v", last, err)
	}
	if d.f.logOf(id) != want.String() {
		t.Error("the log is not what was sent")
	}
}

// oddReader gives its bytes in pieces of odd sizes.
type oddReader struct {
	b []byte
	n int
}

func (o *oddReader) Read(p []byte) (int, error) {
	if len(o.b) == 0 {
		return 0, io.EOF
	}
	o.n = (o.n*7 + 13) % 9973
	n := copy(p[:min(len(p), o.n+1)], o.b)
	o.b = o.b[n:]
	return n, nil
}

// TestStreamBadRow: the rows before a bad one are taken and acknowledged, the
// last line says which row it was, and nothing behind it is taken.
func TestStreamBadRow(t *testing.T) {
	for _, bad := range []int{2, 17, 1024, 1025, 30000} {
		t.Run(fmt.Sprint(bad), func(t *testing.T) {
			d := serve(t, newFake())
			id, token := d.run()
			body := rows(1, bad-1) + "[]\n" + rows(bad+1, bad+5000)
			a := d.do("POST", "/v1/runs/"+id+"/log", body, "Content-Type", typeNDJSON, control.HeaderWriter, token)
			lines := a.acks(t)
			last := lines[len(lines)-1]
			if a.status != 200 || last.Problem == nil || last.Problem.Code != string(runs.RowNotObject) ||
				last.Row != uint64(bad) || last.Problem.Row != uint64(bad) || last.Acked != uint64(bad-1) || last.Done {
				t.Fatalf("%d, last %+v", a.status, last)
			}
			wantRows(t, d.f.logOf(id), bad-1)
		})
	}
}

// TestStreamAcksUnread sends far more rows than an unread connection has room
// for acknowledgements, reading none: all rows are taken, and what is read in
// the end is short and ends with the newest.
func TestStreamAcksUnread(t *testing.T) {
	const n = 20000
	d := serve(t, newFake())
	id, token := d.run()
	c := d.dial()
	io.WriteString(c, "POST /v1/runs/"+id+"/log HTTP/1.1\r\nHost: d\r\nContent-Type: application/x-ndjson\r\n"+control.HeaderWriter+": "+token+"\r\nTransfer-Encoding: chunked\r\n\r\n")
	for i := 1; i <= n; i++ {
		if _, err := io.WriteString(c, chunk(rows(i, i))); err != nil {
			t.Fatalf("row %d: %v", i, err)
		}
	}
	io.WriteString(c, "0\r\n\r\n")
	waitFor(t, "the rows", func() bool { return strings.Count(d.f.logOf(id), "\n") == n })
	a := readAnswer(t, c)
	lines := a.acks(t)
	if last := lines[len(lines)-1]; last.Acked != n || !last.Done {
		t.Errorf("last %+v", last)
	}
	wantRows(t, d.f.logOf(id), n)
}

// TestStreamAcksAsTheyCome: each row is acknowledged when it is durable, while
// the stream is open.
func TestStreamAcksAsTheyCome(t *testing.T) {
	d := serve(t, newFake())
	id, token := d.run()
	pr, pw := io.Pipe()
	acks := make(chan control.Ack, 16)
	var last control.Ack
	var err error
	var wg sync.WaitGroup
	wg.Go(func() {
		last, err = d.client().WithWriter(token).Stream(t.Context(), id, "", pr, func(a control.Ack) { acks <- a })
	})
	for i := 1; i <= 5; i++ {
		io.WriteString(pw, rows(i, i))
		if a := <-acks; a.Acked != uint64(i) || a.LastSeq != uint64(i) {
			t.Errorf("after row %d: %+v", i, a)
		}
	}
	pw.Close()
	wg.Wait()
	if err != nil || !last.Done || last.Acked != 5 {
		t.Errorf("%+v, %v", last, err)
	}
}

// TestStreamGroups: while the disk is busy, rows wait together; then they go
// together, and no acknowledgement comes before its barrier.
func TestStreamGroups(t *testing.T) {
	f := newFake()
	d := serve(t, f)
	id, token := d.run()
	var sizes []int // under f.mu
	f.onAppend = func(rows []runs.Row) error { sizes = append(sizes, len(rows)); return nil }
	gate := make(chan struct{})
	f.barrier = func() error { <-gate; return nil }
	pr, pw := io.Pipe()
	var acked atomic.Uint64
	var wg sync.WaitGroup
	wg.Go(func() {
		last, err := d.client().WithWriter(token).Stream(t.Context(), id, "", pr, func(a control.Ack) { acked.Store(a.Acked) })
		if err != nil || last.Acked != 3000 {
			t.Errorf("%+v, %v", last, err)
		}
	})
	for i := 1; i <= 3000; i++ {
		io.WriteString(pw, rows(i, i))
	}
	pw.Close()
	time.Sleep(20 * time.Millisecond) // something wrong would show in it, nothing right depends on it
	if got := acked.Load(); got != 0 {
		t.Errorf("%d rows acknowledged before a barrier", got)
	}
	close(gate)
	wg.Wait()
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(sizes) > 100 {
		t.Errorf("3000 rows went in %d groups", len(sizes))
	}
	wantRows(t, string(f.runs[id].log), 3000)
}

// TestStreamBusy: a full queue holds a stream back and does not end it, unless
// it stays full.
func TestStreamBusy(t *testing.T) {
	f := newFake()
	d := serve(t, f, func(o *Options) { o.Limits.busyTries = 6 })
	id, token := d.run()
	busy := 0
	f.onAppend = func([]runs.Row) error {
		if busy++; busy%3 != 0 {
			return fmt.Errorf("append: %w", wal.ErrBusy)
		}
		return nil
	}
	a := d.do("POST", "/v1/runs/"+id+"/log", rows(1, 5000), "Content-Type", typeNDJSON, control.HeaderWriter, token)
	lines := a.acks(t)
	if last := lines[len(lines)-1]; last.Acked != 5000 || !last.Done {
		t.Fatalf("last %+v", last)
	}
	wantRows(t, f.logOf(id), 5000)

	f.mu.Lock()
	f.onAppend = func([]runs.Row) error { return wal.ErrBusy }
	f.mu.Unlock()
	a = d.do("POST", "/v1/runs/"+id+"/log", rows(1, 1), "Content-Type", typeNDJSON, control.HeaderWriter, token)
	if a.status != 503 || a.code() != control.CodeBusy || a.header.Get("Retry-After") == "" {
		t.Errorf("always busy: %d %s", a.status, a.body)
	}
}

// TestStreamFailedBarrier: what a failed barrier carried is not acknowledged,
// nor what came behind it.
func TestStreamFailedBarrier(t *testing.T) {
	for _, c := range []struct {
		err  error
		code string
	}{
		{wal.ErrUnknown, control.CodeOutcomeUnknown},
		{&wal.NoSpaceError{Mount: "/m", FreeBytes: 5, FreeInodes: -1, Err: errors.New("full")}, control.CodeNoSpace},
	} {
		f := newFake()
		d := serve(t, f)
		id, token := d.run()
		var n atomic.Int64
		f.barrier = func() error {
			if n.Add(1) > 1 {
				return c.err
			}
			return nil
		}
		pr, pw := io.Pipe()
		first := make(chan struct{})
		var once sync.Once
		go func() {
			io.WriteString(pw, rows(1, 1))
			<-first
			for i := 2; i <= 2000; i++ {
				if _, err := io.WriteString(pw, rows(i, i)); err != nil {
					return
				}
			}
			pw.Close()
		}()
		last, err := d.client().WithWriter(token).Stream(t.Context(), id, "", pr, func(control.Ack) { once.Do(func() { close(first) }) })
		pr.Close()
		isProblem(t, err, c.code)
		if last.Done || last.Acked != 1 {
			t.Errorf("%v: last %+v", c.err, last)
		}
	}
}

// TestStreamSenderGone: a sender that dies within a row leaves its whole rows.
func TestStreamSenderGone(t *testing.T) {
	d := serve(t, newFake())
	id, token := d.run()
	c := d.dial()
	io.WriteString(c, "POST /v1/runs/"+id+"/log HTTP/1.1\r\nHost: d\r\nContent-Type: application/x-ndjson\r\n"+control.HeaderWriter+": "+token+"\r\nTransfer-Encoding: chunked\r\n\r\n"+chunk(rows(1, 3)+`{"n":`))
	waitFor(t, "the rows", func() bool { return strings.Count(d.f.logOf(id), "\n") == 3 })
	c.Close()
	waitFor(t, "the end of the request", func() bool { return d.s.Stats().OpenRequests == 0 })
	wantRows(t, d.f.logOf(id), 3)
}

// TestStreamAtShutdown: a stream that is open when the daemon goes down
// acknowledges what it took and says why it ends.
func TestStreamAtShutdown(t *testing.T) {
	d := serve(t, newFake())
	id, token := d.run()
	pr, pw := io.Pipe()
	defer pw.Close()
	acks := make(chan control.Ack, 16)
	ended := make(chan error, 1)
	go func() {
		_, err := d.client().WithWriter(token).Stream(t.Context(), id, "", pr, func(a control.Ack) { acks <- a })
		ended <- err
	}()
	io.WriteString(pw, rows(1, 1))
	<-acks
	d.stop()
	isProblem(t, <-ended, control.CodeShuttingDown)
	wantRows(t, d.f.logOf(id), 1)
}

func FuzzLineReader(f *testing.F) {
	f.Add([]byte("{}\n{}\n"), 3)
	f.Add([]byte("\r\n\n{}\r"), 1)
	f.Add([]byte("no end"), 2)
	f.Fuzz(func(t *testing.T, b []byte, step int) {
		if step < 1 || step > 1<<16 {
			return
		}
		var got [][]byte
		var l lineReader
		src := &stepReader{b: b, step: step}
		for {
			lines, err := l.read(src, 1<<30)
			for _, x := range lines {
				got = append(got, bytes.Clone(x))
			}
			if err == io.EOF {
				break
			}
		}
		l.close()
		var want [][]byte
		for _, x := range bytes.Split(b, []byte("\n")) {
			if x = bytes.TrimSuffix(x, []byte("\r")); len(x) > 0 {
				want = append(want, x)
			}
		}
		if !bytes.Equal(bytes.Join(got, []byte("\n")), bytes.Join(want, []byte("\n"))) || len(got) != len(want) {
			t.Fatalf("lines %q, want %q", got, want)
		}
	})
}

type stepReader struct {
	b    []byte
	step int
}

func (s *stepReader) Read(p []byte) (int, error) {
	if len(s.b) == 0 {
		return 0, io.EOF
	}
	n := copy(p[:min(len(p), s.step)], s.b)
	s.b = s.b[n:]
	return n, nil
}
