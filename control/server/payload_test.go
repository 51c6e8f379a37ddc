package server

import (
	"bytes"
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"durafs/cas"
	"durafs/control"
	"durafs/runs"
)

func testBytes(n int) []byte {
	b := make([]byte, n)
	rand.NewChaCha8([32]byte{1}).Read(b)
	return b
}

func TestPayloadInAndOut(t *testing.T) {
	d := serve(t, newFake())
	id, token := d.run()
	c := d.client().WithWriter(token)
	for _, n := range []int{0, 1, 4096, copyBytes, copyBytes + 1, 3 << 20} {
		name := "p" + strings.Repeat("x", n%7)
		b := testBytes(n)
		p, err := c.Put(t.Context(), id, name, "text/x-test", bytes.NewReader(b))
		if err != nil || p.Replayed || p.Payload.Bytes != int64(n) {
			t.Fatalf("put %d: %+v, %v", n, p, err)
		}
		again, err := c.Put(t.Context(), id, name, "text/x-test", io.MultiReader(bytes.NewReader(b)))
		if err != nil || !again.Replayed {
			t.Errorf("put %d again: %+v, %v", n, again, err)
		}
		r, err := c.Payload(t.Context(), id, name, 0, -1)
		if err != nil {
			t.Fatal(err)
		}
		got, err := io.ReadAll(r)
		r.Close()
		if err != nil || !bytes.Equal(got, b) || r.B3 != p.Payload.B3 || r.ContentType != "text/x-test" || r.Bytes != int64(n) {
			t.Errorf("get %d: %d bytes, %v, %+v", n, len(got), err, r)
		}
		delete(d.f.runs[id].payloads, name)
	}
}

func TestPayloadRanges(t *testing.T) {
	f := newFake()
	d := serve(t, f)
	id, token := d.run()
	put := d.do("PUT", "/v1/runs/"+id+"/payloads/p", "0123456789", control.HeaderWriter, token)
	etag := put.header.Get("ETag")
	for _, c := range []struct {
		header []string
		status int
		body   string
	}{
		{nil, 200, "0123456789"},
		{[]string{"Range", "bytes=0-0"}, 206, "0"},
		{[]string{"Range", "bytes=3-"}, 206, "3456789"},
		{[]string{"Range", "bytes=-2"}, 206, "89"},
		{[]string{"Range", "bytes=5-100"}, 206, "56789"},
		{[]string{"Range", "bytes=10-"}, 416, ""},
		{[]string{"Range", "bytes=a-b"}, 416, ""},
		{[]string{"Range", "bytes=0-1", "If-Range", etag}, 206, "01"},
		{[]string{"Range", "bytes=0-1", "If-Range", `"other"`}, 200, "0123456789"},
		{[]string{"If-None-Match", etag}, 304, ""},
		{[]string{"If-None-Match", `"other"`}, 200, "0123456789"},
		{[]string{"If-Match", `"other"`}, 412, ""},
	} {
		a := d.do("GET", "/v1/runs/"+id+"/payloads/p", "", c.header...)
		if a.status != c.status || c.status < 400 && a.body != c.body {
			t.Errorf("%v: %d %q, want %d %q", c.header, a.status, a.body, c.status, c.body)
		}
		switch {
		case a.status == 416:
			if a.code() != control.CodeRange || a.p.Size != 10 {
				t.Errorf("%v: %s", c.header, a.body)
			}
		case a.status < 300:
			if a.header.Get("ETag") != etag || a.header.Get("X-Content-Type-Options") != "nosniff" || a.header.Get("Content-Type") != "application/octet-stream" {
				t.Errorf("%v: headers %v", c.header, a.header)
			}
		}
	}
	if a := d.do("HEAD", "/v1/runs/"+id+"/payloads/p", ""); a.status != 200 || a.header.Get("Content-Length") != "10" || a.body != "" {
		t.Errorf("HEAD: %d %v %q", a.status, a.header, a.body)
	}
	if a := d.do("GET", "/v1/runs/"+id+"/payloads/p?source=named", ""); a.status != 200 {
		t.Errorf("by its source: %d", a.status)
	}
	if a := d.do("GET", "/v1/runs/"+id+"/payloads/p?source=tool_result", ""); a.status != 404 {
		t.Errorf("by another source: %d", a.status)
	}
}

// TestPayloadDamaged: damage at the beginning is an answer; damage later cuts
// the answer short, so that nobody takes it for whole.
func TestPayloadDamaged(t *testing.T) {
	f := newFake()
	d := serve(t, f)
	id, token := d.run()
	c := d.client().WithWriter(token)
	if _, err := c.Put(t.Context(), id, "p", "", bytes.NewReader(testBytes(2<<20))); err != nil {
		t.Fatal(err)
	}
	damage := &cas.DamageError{File: "pack", Offset: 7, Reason: "test"}
	f.onRead = func(int64) error { return damage }
	if a := d.do("GET", "/v1/runs/"+id+"/payloads/p", ""); a.status != 500 || a.code() != control.CodeDamaged || a.p.File != "pack" {
		t.Errorf("at the beginning: %d %s", a.status, a.body)
	}
	f.onRead = func(off int64) error {
		if off > 1<<20 {
			return damage
		}
		return nil
	}
	r, err := c.Payload(t.Context(), id, "p", 0, -1)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if n, err := io.Copy(io.Discard, r); err == nil {
		t.Errorf("in the midst: read %d bytes and a clean end", n)
	}
}

func TestLogReading(t *testing.T) {
	d := serve(t, newFake())
	id, token := d.run()
	d.do("POST", "/v1/runs/"+id+"/log", rows(1, 10), "Content-Type", typeNDJSON, control.HeaderWriter, token)
	for query, want := range map[string][2]int{
		"":               {1, 10},
		"?from=0":        {1, 10},
		"?from=1":        {1, 10},
		"?from=4":        {4, 10},
		"?from=10":       {10, 10},
		"?from=11":       {11, 10},
		"?from=999":      {11, 10},
		"?tail=3":        {8, 10},
		"?tail=10":       {1, 10},
		"?tail=99":       {1, 10},
		"?tail=3&from=5": {8, 10},
		"?tail=3&from=9": {9, 10},
	} {
		a := d.do("GET", "/v1/runs/"+id+"/log"+query, "")
		lines := strings.Count(a.body, "\n")
		if a.status != 200 || lines != want[1]-want[0]+1 || a.header.Get("Content-Type") != typeNDJSON {
			t.Errorf("%q: %d, %q", query, a.status, a.body)
			continue
		}
		if lines > 0 && control.RowSeq([]byte(a.body)) != uint64(want[0]) {
			t.Errorf("%q begins with %q", query, a.body)
		}
	}
}

// TestFollow: rows come as they are published, and the end when the run is
// finished.
func TestFollow(t *testing.T) {
	d := serve(t, newFake())
	id, token := d.run()
	c := d.client().WithWriter(token)
	l, err := c.Log(t.Context(), id, control.LogQuery{Follow: true})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	for i := 1; i <= 5; i++ {
		if _, err := c.Append(t.Context(), id, []byte(`{"a":1}`), ""); err != nil {
			t.Fatal(err)
		}
		line, err := l.Next()
		if err != nil || control.RowSeq(line) != uint64(i) {
			t.Fatalf("row %d: %q, %v", i, line, err)
		}
	}
	if _, err := c.Settle(t.Context(), id, control.SettleRequest{Status: control.Success}); err != nil {
		t.Fatal(err)
	}
	if line, err := l.Next(); err != io.EOF {
		t.Errorf("after the end: %q, %v", line, err)
	}
}

// TestFollowAcrossRestart: a follower goes on behind its last row.
func TestFollowAcrossRestart(t *testing.T) {
	f := newFake()
	d := serve(t, f)
	opt := d.s.opt
	id, token := d.run()
	c := d.client().WithWriter(token)
	append1 := func() {
		if _, err := c.Append(t.Context(), id, []byte(`{"a":1}`), ""); err != nil {
			t.Fatal(err)
		}
	}
	append1()
	l, err := c.Log(t.Context(), id, control.LogQuery{Follow: true})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	for i := 1; i <= 4; i++ {
		line, err := l.Next()
		if err != nil || control.RowSeq(line) != uint64(i) {
			t.Fatalf("row %d: %q, %v", i, line, err)
		}
		d.stop()
		d.start(opt)
		append1()
	}
}

// TestReaderGone: a follower who leaves, or who stops reading, is let go.
func TestReaderGone(t *testing.T) {
	d := serve(t, newFake(), func(o *Options) { o.Limits.ReadIdle = 200 * time.Millisecond })
	id, token := d.run()
	ctx, cancel := context.WithCancel(t.Context())
	l, err := d.client().Log(ctx, id, control.LogQuery{Follow: true})
	if err != nil {
		t.Fatal(err)
	}
	cancel()
	l.Close()
	waitFor(t, "the follower to be gone", func() bool { return d.s.Stats().OpenRequests == 0 })

	c := d.dial()
	io.WriteString(c, "GET /v1/runs/"+id+"/log?follow=1 HTTP/1.1\r\nHost: d\r\n\r\n")
	waitFor(t, "the follower", func() bool { return d.s.Stats().OpenRequests == 1 })
	big := []runs.Row{{JSON: []byte(`{"a":"` + strings.Repeat("x", 1<<20) + `"}`)}}
	for range 4 { // more than a socket holds
		if _, err := d.f.Append(t.Context(), runs.Caller{Writer: token}, id, big, ""); err != nil {
			t.Fatal(err)
		}
	}
	waitFor(t, "the reader who does not read to be cut off", func() bool { return d.s.Stats().OpenRequests == 0 })
}

// TestClientRepeats: what nobody received is sent again; what may have
// happened is not.
func TestClientRepeats(t *testing.T) {
	c := &control.Client{Socket: t.TempDir() + "/none.sock"}
	_, err := c.Append(t.Context(), "exec_x", []byte(`{}`), "")
	if !errors.Is(err, control.ErrAway) || errors.Is(err, control.ErrOutcomeUnknown) {
		t.Errorf("nobody listens: %v", err)
	}

	f := newFake()
	d := serve(t, f)
	id, token := d.run()
	var n atomic.Int64
	hook := func(h func([]runs.Row) error) {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.onAppend = h
		n.Store(0)
	}
	hook(func([]runs.Row) error {
		n.Add(1)
		panic(http.ErrAbortHandler) // the connection breaks after the row was sent
	})
	w := d.client().WithWriter(token)
	_, err = w.Append(t.Context(), id, []byte(`{}`), "")
	if !errors.Is(err, control.ErrOutcomeUnknown) || n.Load() != 1 {
		t.Errorf("without a key: %v after %d requests", err, n.Load())
	}
	hook(func([]runs.Row) error {
		if n.Add(1) < 3 {
			panic(http.ErrAbortHandler)
		}
		return nil
	})
	if a, err := w.Append(t.Context(), id, []byte(`{"k":1}`), "k"); err != nil || a.LastSeq != 1 || n.Load() != 3 {
		t.Errorf("with a key: %+v, %v after %d requests", a, err, n.Load())
	}
}

// TestRunPayloadWhole: what a handle puts is stored whole, or refused, when the
// first attempt at it was answered that the run must be taken back.
func TestRunPayloadWhole(t *testing.T) {
	d := serveStore(t)
	run, err := d.client().Run(t.Context(), control.StartRequest{})
	if err != nil {
		t.Fatal(err)
	}
	defer run.Close()
	small, large := testBytes(5), testBytes(300<<10)
	file := bytes.NewReader(append([]byte("head"), large...))
	if _, err := file.Seek(4, io.SeekStart); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name string
		r    io.Reader
		want []byte
	}{
		{"small", bytes.NewReader(small), small},
		{"large", bytes.NewReader(large), large},
		{"from-its-place", file, large},
		{"once-small", io.MultiReader(bytes.NewReader(small)), small},
		{"once-large", io.MultiReader(bytes.NewReader(large)), large},
		{"empty", bytes.NewReader(nil), nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			d.restart()
			before := run.Attached()
			p, err := run.Payload(t.Context(), c.name, "", c.r)
			if run.Attached() == before {
				t.Fatal("the handle did not have to attach")
			}
			if _, seeks := c.r.(io.Seeker); !seeks {
				if !errors.Is(err, control.ErrOutcomeUnknown) {
					t.Fatalf("a reader that was read, once: %+v, %v", p, err)
				}
				_, err := d.client().Payload(t.Context(), run.ID(), c.name, 0, -1)
				isProblem(t, err, string(runs.UnknownPayload))
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			r, err := d.client().Payload(t.Context(), run.ID(), c.name, 0, -1)
			if err != nil {
				t.Fatal(err)
			}
			defer r.Close()
			if b, err := io.ReadAll(r); err != nil || !bytes.Equal(b, c.want) {
				t.Errorf("%d bytes are stored, %v; given were %d", len(b), err, len(c.want))
			}
		})
	}
}
