package server

import (
	"bufio"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"durafs/control"
	"durafs/runs"
)

func newReader(r io.Reader) *bufio.Reader { return bufio.NewReader(r) }

// TestPrincipals lists every route and who may take it: an owner, somebody
// else on the owner's socket (played by an owner on the agents' one: there
// everyone is an agent), and either of them with a writer or a resume token.
// What a route answers beyond the door is not asked here.
func TestPrincipals(t *testing.T) {
	d := serve(t, newFake())
	id, token := d.run()
	wantDoor := map[need][6]bool{ // owner, agent; each with a writer token; each with a resume token
		needOwner:      {true, false, false, false, false, false},
		needWriter:     {false, false, true, true, false, false},
		needAny:        {true, true, true, true, true, true},
		needResume:     {false, false, false, false, true, true},
		needDispatcher: {true, false, false, false, true, true},
	}
	known := map[string]need{
		"POST /v1/runs":                        needAny,
		"GET /v1/runs":                         needAny,
		"GET /v1/runs/{id}":                    needAny,
		"POST /v1/runs/{id}/heartbeat":         needWriter,
		"POST /v1/runs/{id}/log":               needWriter,
		"GET /v1/runs/{id}/log":                needAny,
		"PUT /v1/runs/{id}/payloads/{name}":    needWriter,
		"GET /v1/runs/{id}/payloads/{name}":    needAny,
		"DELETE /v1/runs/{id}/payloads/{name}": needOwner,
		"POST /v1/runs/{id}/settle":            needWriter,

		"POST /v1/runs/{id}/tools":                needWriter,
		"POST /v1/runs/{id}/tools/{call}/outcome": needWriter,
		"POST /v1/runs/{id}/tools/{call}/again":   needWriter,
		"GET /v1/runs/{id}/history":               needAny,
		"POST /v1/runs/{id}/copy":                 needAny,
		"POST /v1/runs/{id}/attach":               needWriter,
		"POST /v1/runs/{id}/cancel":               needOwner,
		"POST /v1/runs/{id}/abort":                needWriter,
		"POST /v1/runs/{id}/pause":                needWriter,
		"POST /v1/runs/{id}/resume/prepare":       needOwner,
		"POST /v1/runs/{id}/resume/activate":      needResume,
		"POST /v1/runs/{id}/resume/fail":          needDispatcher,
		"GET /v1/runs/{id}/resume/request":        needAny,
		"GET /v1/resumable":                       needOwner,
		"GET /v1/scopes":                          needOwner,
		"GET /v1/scopes/{scope}":                  needOwner,
		"PUT /v1/scopes/{scope}":                  needOwner,
		"DELETE /v1/scopes/{scope}":               needOwner,
		"POST /v1/runs/{id}/rollback":             needWriter,
		"GET /v1/events":                          needAny,
		"POST /v1/runs/{id}/pin":                  needOwner,
		"GET /v1/threads":                         needOwner,
		"GET /v1/threads/{thread}":                needOwner,
		"POST /v1/threads/{thread}/messages":      needOwner,
		"GET /v1/journal/{target}":                needOwner,
		"GET /v1/targets":                         needOwner,
		"GET /v1/targets/{target}":                needOwner,
		"PUT /v1/targets/{target}":                needOwner,
		"DELETE /v1/targets/{target}":             needOwner,
		"GET /v1/policy":                          needOwner,
		"PUT /v1/policy":                          needOwner,
		"GET /v1/outbox":                          needOwner,
		"POST /v1/outbox/{id}/retry":              needOwner,
		"POST /v1/outbox/{id}/drop":               needOwner,
		"POST /v1/compact":                        needOwner,
		"POST /v1/reset":                          needOwner,
		"GET /v1/status":                          needOwner,
		"GET /v1/openapi.json":                    needAny,
		"GET /healthz":                            needAny,
		"GET /metrics":                            needOwner,
	}
	for _, rt := range routes {
		name := rt.method + " " + rt.pattern
		want, ok := known[name]
		if !ok {
			t.Errorf("%s is not in this list: who may take it?", name)
			continue
		}
		path := strings.NewReplacer("{id}", id, "{name}", "none", "{call}", "1", "{scope}", "s", "{thread}", "t", "{target}", "master").Replace(rt.pattern)
		for i, socket := range []string{"control.sock", "agent.sock", "control.sock", "agent.sock", "control.sock", "agent.sock"} {
			var header []string
			switch i / 2 {
			case 1:
				header = []string{control.HeaderWriter, token}
			case 2:
				header = []string{control.HeaderResume, token}
			}
			a := doOn(t, filepath.Join(d.dir, socket), rt.method, path, "", header...)
			let := !(a.code() == control.CodeNotOwner && strings.HasPrefix(a.p.Detail, "this is the owner's") || a.code() == control.CodeWriterNeeded || a.code() == control.CodeResumeNeeded)
			if let != wantDoor[want][i] {
				t.Errorf("%s for caller %d: let through %v, want %v (%d %s)", name, i, let, wantDoor[want][i], a.status, a.body)
			}
		}
	}
	if len(known) != len(routes) {
		t.Errorf("the list has %d routes, the table %d", len(known), len(routes))
	}
}

// TestTokenIsNoMore: on the owner's socket a writer token takes the owner's
// powers away for its request.
func TestTokenIsNoMore(t *testing.T) {
	d := serve(t, newFake())
	mine, token := d.run()
	other, _ := d.run()
	if a := d.do("GET", "/v1/runs/"+other, ""); a.status != 200 {
		t.Errorf("the owner reads any run: %d %s", a.status, a.body)
	}
	if a := d.do("GET", "/v1/runs/"+other, "", control.HeaderWriter, token); a.status != 403 {
		t.Errorf("with another run's token: %d %s", a.status, a.body)
	}
	if a := d.do("GET", "/v1/runs/"+mine, "", control.HeaderWriter, token); a.status != 200 {
		t.Errorf("with its own token: %d %s", a.status, a.body)
	}
}

func TestNoSuchRoute(t *testing.T) {
	d := serve(t, newFake())
	id, _ := d.run()
	for _, c := range []struct {
		method, path string
		status       int
		code, allow  string
	}{
		{"GET", "/", 404, control.CodeNoRoute, ""},
		{"GET", "/v1", 404, control.CodeNoRoute, ""},
		{"GET", "/v2/runs", 404, control.CodeNoRoute, ""},
		{"GET", "/v1/event", 404, control.CodeNoRoute, ""},
		{"POST", "/v1/runs/" + id + "/nothing", 404, control.CodeNoRoute, ""},
		{"DELETE", "/v1/runs/" + id, 405, control.CodeMethod, "GET, HEAD"},
		{"PUT", "/v1/runs", 405, control.CodeMethod, "GET, HEAD, POST"},
		{"OPTIONS", "/v1/runs", 405, control.CodeMethod, "GET, HEAD, POST"},
		{"PATCH", "/v1/runs/" + id + "/payloads/x", 405, control.CodeMethod, "DELETE, GET, HEAD, PUT"},
		{"GET", "/v1/runs/" + id + "/settle", 405, control.CodeMethod, "POST"},
		{"GET", "/v1/runs/", 400, control.CodeBadPath, ""},
		{"GET", "/v1/runs//log", 400, control.CodeBadPath, ""},
		{"GET", "/v1/runs/../log", 400, control.CodeBadPath, ""},
		{"GET", "/v1/runs/%2e%2e/log", 400, control.CodeBadPath, ""},
		{"GET", "/v1/runs/a%2f..%2fb/log", 400, control.CodeBadPath, ""},
		{"GET", "/v1/runs/./log", 400, control.CodeBadPath, ""},
		{"GET", "//v1/runs", 400, control.CodeBadPath, ""},
	} {
		a := d.do(c.method, c.path, "")
		if a.status != c.status || a.code() != c.code || a.header.Get("Allow") != c.allow {
			t.Errorf("%s %s: %d %s, Allow %q; want %d %s, Allow %q", c.method, c.path, a.status, a.code(), a.header.Get("Allow"), c.status, c.code, c.allow)
		}
		if got := a.header.Get(control.HeaderAPI); got != control.APIVersion {
			t.Errorf("%s %s: %s is %q", c.method, c.path, control.HeaderAPI, got)
		}
	}
}

func TestHead(t *testing.T) {
	d := serve(t, newFake())
	id, _ := d.run()
	for _, path := range []string{"/v1/runs", "/v1/runs/" + id, "/v1/runs/" + id + "/log", "/v1/runs/" + id + "/log?follow=1", "/v1/status", "/healthz", "/v1/openapi.json"} {
		if a := d.do("HEAD", path, ""); a.status != 200 || a.body != "" {
			t.Errorf("HEAD %s: %d %q", path, a.status, a.body)
		}
	}
}

func TestStatusAndHealth(t *testing.T) {
	var sick error
	d := serve(t, newFake(), func(o *Options) { o.Healthy = func() error { return sick } })
	if a := d.do("GET", "/v1/status", ""); a.status != 200 || a.body != `{"api":1,"health":"ok"}`+"\n" {
		t.Errorf("status: %d %q", a.status, a.body)
	}
	if a := d.do("GET", "/metrics", ""); a.status != 200 || a.body != "durafs_up 1\n" {
		t.Errorf("metrics: %d %q", a.status, a.body)
	}
	h, err := d.client().Health(t.Context())
	if err != nil || !h.OK {
		t.Errorf("health: %+v, %v", h, err)
	}
	sick = fmt.Errorf("a sync failed")
	h, err = d.client().Health(t.Context())
	if err != nil || h.OK || h.Reason != "a sync failed" {
		t.Errorf("health when sick: %+v, %v", h, err)
	}
	if a := d.do("GET", "/healthz", ""); a.status != 503 || a.code() != control.CodeDegraded {
		t.Errorf("healthz when sick: %d %s", a.status, a.body)
	}
}

func TestPanicIsAnAnswer(t *testing.T) {
	f := newFake()
	f.onStart = func() error { panic("boom") }
	d := serve(t, f)
	a := d.do("POST", "/v1/runs", "{}", "Content-Type", typeJSON)
	if a.status != 500 || a.code() != control.CodeOutcomeUnknown || strings.Contains(a.body, "boom") {
		t.Errorf("after a panic: %d %s", a.status, a.body)
	}
	if got := d.s.Stats().Panics; got != 1 {
		t.Errorf("%d panics counted", got)
	}
	f.mu.TryLock() // the panic left it locked, or not
	f.mu.Unlock()
	f.onStart = nil
	if a := d.do("POST", "/v1/runs", "{}", "Content-Type", typeJSON); a.status != 201 {
		t.Errorf("after the panic the daemon goes on: %d %s", a.status, a.body)
	}
}

// TestConnectionLimit fills the socket with connections that ask nothing: the
// next one is told, and the other socket is not harmed.
func TestConnectionLimit(t *testing.T) {
	const limit = 50
	d := serve(t, newFake(), func(o *Options) { o.Limits.ConnectionsMax = limit })
	for range limit {
		d.dial()
	}
	waitFor(t, "the connections", func() bool { return d.s.Stats().OpenConnections == limit })
	a := d.do("GET", "/healthz", "")
	if a.status != 503 || a.code() != control.CodeTooManyRequests || a.p.Limit != limit || !a.p.Retryable || a.header.Get("Retry-After") == "" {
		t.Errorf("connection beyond the limit: %d %s", a.status, a.body)
	}
	if a := doOn(t, filepath.Join(d.dir, "agent.sock"), "GET", "/healthz", ""); a.status != 200 {
		t.Errorf("the other socket: %d %s", a.status, a.body)
	}
}

// TestManyConnections holds 1000 requests open at once.
func TestManyConnections(t *testing.T) {
	const n = 1000
	f := newFake()
	d := serve(t, f, func(o *Options) { o.Limits.RequestsMax, o.Limits.ConnectionsMax = n, n+100 })
	id, token := d.run()
	var began, ended sync.WaitGroup
	began.Add(n)
	for range n {
		ended.Go(func() {
			c := d.dial()
			c.SetDeadline(time.Now().Add(30 * time.Second))
			fmt.Fprintf(c, "GET /v1/runs/%s/log?follow=1 HTTP/1.1\r\nHost: d\r\n%s: %s\r\n\r\n", id, control.HeaderWriter, token)
			resp, err := http.ReadResponse(newReader(c), nil)
			began.Done()
			if err != nil || resp.StatusCode != 200 {
				t.Errorf("a follower did not get through: %v", err)
				return
			}
			io.Copy(io.Discard, resp.Body)
		})
	}
	began.Wait()
	a := d.do("GET", "/v1/runs", "")
	if a.status != 503 || a.code() != control.CodeTooManyRequests {
		t.Errorf("request beyond the limit: %d %s", a.status, a.body)
	}
	if _, err := f.Settle(t.Context(), runs.Caller{Writer: token}, id, runs.SettleRequest{Status: "success"}); err != nil {
		t.Fatal(err)
	}
	ended.Wait()
}

// TestSlowSender: a body that stops coming is cut off after its time, and
// others do not wait for it.
func TestSlowSender(t *testing.T) {
	d := serve(t, newFake(), func(o *Options) {
		o.Limits.SendIdle, o.Limits.EnvelopeTime = 200*time.Millisecond, 200*time.Millisecond
	})
	id, token := d.run()
	writer := control.HeaderWriter + ": " + token + "\r\n"
	for name, raw := range map[string]string{
		"envelope": "POST /v1/runs HTTP/1.1\r\nHost: d\r\nContent-Type: application/json\r\nContent-Length: 10\r\n\r\n{",
		"row":      "POST /v1/runs/" + id + "/log HTTP/1.1\r\nHost: d\r\n" + writer + "Content-Type: application/json\r\nContent-Length: 10\r\n\r\n{",
		"payload":  "PUT /v1/runs/" + id + "/payloads/p HTTP/1.1\r\nHost: d\r\n" + writer + "Content-Length: 10\r\n\r\nabc",
		"stream":   "POST /v1/runs/" + id + "/log HTTP/1.1\r\nHost: d\r\n" + writer + "Content-Type: application/x-ndjson\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{\"\r\n",
	} {
		t.Run(name, func(t *testing.T) {
			c := d.dial()
			io.WriteString(c, raw)
			if a := d.do("GET", "/healthz", ""); a.status != 200 {
				t.Errorf("beside a slow sender: %d", a.status)
			}
			a := readAnswer(t, c)
			if a.status != 408 || a.code() != control.CodeSlowSender {
				t.Errorf("slow sender: %d %s", a.status, a.body)
			}
			if _, err := c.Read(make([]byte, 1)); err != io.EOF {
				t.Errorf("the connection is still open: %v", err)
			}
		})
	}
	if got := d.f.logOf(id); got != "" {
		t.Errorf("rows of slow senders: %q", got)
	}
}

// TestUnreadBody: a request that is refused before its body is read does not
// keep its connection for a body that never comes.
func TestUnreadBody(t *testing.T) {
	d := serve(t, newFake(), func(o *Options) { o.Limits.SendIdle = 100 * time.Millisecond })
	c := d.dial()
	io.WriteString(c, "POST /v1/runs/x/log HTTP/1.1\r\nHost: d\r\nContent-Length: 1000\r\n\r\n")
	if a := readAnswer(t, c); a.status != 401 {
		t.Errorf("got %d %s", a.status, a.body)
	}
	if _, err := c.Read(make([]byte, 1)); err != io.EOF {
		t.Errorf("the connection is still open: %v", err)
	}
}

func TestListen(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "s.sock")
	l, err := Listen(path, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	fi, err := os.Stat(path)
	if err != nil || fi.Mode().Perm() != 0o600 {
		t.Errorf("mode %v, %v", fi.Mode(), err)
	}
	l.SetUnlinkOnClose(false)
	l.Close() // as after SIGKILL: the name stays
	l, err = Listen(path, 0o600)
	if err != nil {
		t.Fatalf("over a stale socket: %v", err)
	}
	l.Close()

	file := filepath.Join(dir, "file")
	os.WriteFile(file, []byte("keep"), 0o600)
	if _, err := Listen(file, 0o600); err == nil || !strings.Contains(err.Error(), "no socket") {
		t.Errorf("over a file: %v", err)
	}
	if b, _ := os.ReadFile(file); string(b) != "keep" {
		t.Error("the file is gone")
	}
	long := filepath.Join(dir, strings.Repeat("x", 120))
	if _, err := Listen(long, 0o600); err == nil || !strings.Contains(err.Error(), "107") {
		t.Errorf("a long path: %v", err)
	}
}

// waitFor waits until ok, for at most ten seconds.
func waitFor(t testing.TB, what string, ok func() bool) {
	t.Helper()
	for range 2000 {
		if ok() {
			return
		}
		time.Sleep(5 * time.Millisecond)
	}
	t.Fatalf("waited in vain for %s", what)
}
