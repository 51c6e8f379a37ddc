package server

import (
	"io"
	"strings"
	"testing"
	"time"

	"durafs/control"
	"durafs/runs"
)

// TestEmptyHeader: a condition or key that was forgotten (a variable that was
// not set) does not make a request without one.
func TestEmptyHeader(t *testing.T) {
	d := serve(t, newFake())
	id, token := d.run()
	for _, c := range []struct{ method, path, body, header string }{
		{"POST", "/v1/runs", `{}`, control.HeaderIdempotencyKey},
		{"POST", "/v1/runs/" + id + "/settle", `{"status":"success"}`, "If-Match"},
	} {
		header := []string{"Content-Type", typeJSON, c.header, ""}
		if c.header == "If-Match" {
			header = append(header, control.HeaderWriter, token)
		}
		if a := d.do(c.method, c.path, c.body, header...); a.status != 400 || a.code() != control.CodeBadHeader || a.p.Field != c.header {
			t.Errorf("an empty %s: %d %s", c.header, a.status, a.body)
		}
	}
	if len(d.f.refs) != 1 || d.f.runs[id].rec.Terminal != nil {
		t.Error("something changed")
	}
}

// TestProblemIsBounded: what a caller sent does not come back at any length.
func TestProblemIsBounded(t *testing.T) {
	d := serve(t, newFake())
	id, token := d.run()
	long := strings.Repeat("9", 500<<10)
	for _, c := range []struct{ path, body string }{
		{"/v1/runs", `{"lease_ms":` + long + `}`},
		{"/v1/runs", `{"x` + long + `":1}`},
		{"/v1/runs", `{"id":"` + long + `"}`},
		{"/v1/runs", `{"labels":{"` + long + `":1}}`},
		{"/v1/runs/" + id + "/attach", `{"calls":{"x` + long + `":"ended"}}`},
		{"/v1/runs/" + id + "/attach", `{"calls":{"` + long + `":"ended"}}`},
		{"/v1/runs/" + id + "/settle", `{"status":"` + long + `"}`},
	} {
		header := []string{"Content-Type", typeJSON}
		if c.path != "/v1/runs" {
			header = append(header, control.HeaderWriter, token)
		}
		a := d.do("POST", c.path, c.body, header...)
		if a.status != 200 && (a.status < 400 || a.status > 499 || len(a.body) > 2<<10) {
			t.Errorf("%.40s: %d with %d bytes", c.body, a.status, len(a.body))
		}
	}
}

// TestFollowFromAfar: rows before the one that was asked for are not sent,
// also where that one is not there yet.
func TestFollowFromAfar(t *testing.T) {
	d := serve(t, newFake())
	id, token := d.run()
	c := d.client().WithWriter(token)
	appendRow := func() {
		if _, err := c.Append(t.Context(), id, []byte(`{"a":1}`), ""); err != nil {
			t.Fatal(err)
		}
	}
	appendRow()
	l, err := c.Log(t.Context(), id, control.LogQuery{From: 4, Follow: true})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	for range 4 {
		appendRow()
	}
	for want := uint64(4); want <= 5; want++ {
		line, err := l.Next()
		if err != nil || control.RowSeq(line) != want {
			t.Fatalf("%q, %v; want row %d", line, err, want)
		}
	}
	far, err := c.Log(t.Context(), id, control.LogQuery{From: 99, Follow: true})
	if err != nil {
		t.Fatal(err)
	}
	defer far.Close()
	if _, err := c.Settle(t.Context(), id, control.SettleRequest{Status: control.Success}); err != nil {
		t.Fatal(err)
	}
	for _, l := range []*control.LogReader{l, far} {
		if line, err := l.Next(); err != io.EOF {
			t.Errorf("after the end: %q, %v", line, err)
		}
	}
}

// TestStreamPanicIsAnAnswer: the goroutines of a stream are not the handler's,
// and a panic there must not end the daemon either.
func TestStreamPanicIsAnAnswer(t *testing.T) {
	f := newFake()
	d := serve(t, f, func(o *Options) { o.Limits.SendIdle = time.Second })
	id, token := d.run()
	n := 0
	f.onAppend = func([]runs.Row) error {
		if n++; n == 1 {
			panic("a bug")
		}
		return nil
	}
	header := []string{"Content-Type", typeNDJSON, control.HeaderWriter, token}
	if a := d.do("POST", "/v1/runs/"+id+"/log", rows(1, 3), header...); a.status != 500 || a.code() != control.CodeOutcomeUnknown {
		t.Errorf("got %d %s", a.status, a.body)
	}
	if got := d.s.Stats().Panics; got != 1 {
		t.Errorf("%d panics were counted", got)
	}
	a := d.do("POST", "/v1/runs/"+id+"/log", rows(1, 3), header...)
	if lines := a.acks(t); !lines[len(lines)-1].Done {
		t.Errorf("then: %d %s", a.status, a.body)
	}
}

// TestStreamDrainedAtShutdown: rows that came after the daemon had begun to go
// down are dropped, and a stream with such rows is not whole, even though its
// body came to its end.
func TestStreamDrainedAtShutdown(t *testing.T) {
	f := newFake()
	d := serve(t, f)
	id, token := d.run()
	inBarrier, gate := make(chan struct{}, 1), make(chan struct{})
	f.barrier = func() error {
		select {
		case inBarrier <- struct{}{}:
		default:
		}
		<-gate
		return nil
	}
	pr, pw := io.Pipe()
	type result struct {
		last control.Ack
		err  error
	}
	done := make(chan result, 1)
	go func() {
		last, err := d.client().WithWriter(token).Stream(t.Context(), id, "", pr, nil)
		done <- result{last, err}
	}()
	io.WriteString(pw, rows(1, 10))
	<-inBarrier
	d.s.closeOnce.Do(func() { close(d.s.closing) })
	time.Sleep(20 * time.Millisecond) // something wrong shows because of it, nothing right depends on it
	io.WriteString(pw, rows(11, 20))
	pw.Close()
	time.Sleep(20 * time.Millisecond)
	close(gate)
	if r := <-done; r.last.Done && r.last.Acked != 20 || r.last.Done != (r.err == nil) {
		t.Errorf("%+v, %v", r.last, r.err)
	}
}
