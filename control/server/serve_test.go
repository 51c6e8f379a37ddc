package server

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"durafs/control"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// daemon is a server on two real sockets.
type daemon struct {
	t      testing.TB
	s      *Server
	f      *fake
	dir    string
	served chan error
}

// serve starts a server over a fake domain; it is stopped with the test.
func serve(t testing.TB, f *fake, change ...func(*Options)) *daemon {
	t.Helper()
	d := &daemon{t: t, f: f, dir: t.TempDir()}
	opt := Options{
		Runs:    f,
		Status:  func() any { return map[string]any{"health": "ok"} },
		Healthy: func() error { return nil },
		Metrics: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "durafs_up 1\n") }),
	}
	for _, c := range change {
		c(&opt)
	}
	d.start(opt)
	t.Cleanup(func() { d.stop() })
	return d
}

func (d *daemon) start(opt Options) {
	d.s = New(opt)
	d.served = make(chan error, 2)
	for kind, name := range map[Socket]string{Control: "control.sock", Agent: "agent.sock"} {
		l, err := Listen(filepath.Join(d.dir, name), 0o600)
		if err != nil {
			d.t.Fatal(err)
		}
		s := d.s
		go func() { d.served <- s.Serve(l, kind) }()
	}
}

func (d *daemon) stop() {
	if d.s == nil {
		return
	}
	// What is on its way is answered first, on a busy machine under the race
	// detector too. How quick an end is has tests of its own.
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if err := d.s.Shutdown(ctx); err != nil {
		d.t.Errorf("Shutdown: %v", err)
	}
	for range 2 {
		if err := <-d.served; err != nil {
			d.t.Errorf("Serve: %v", err)
		}
	}
	d.s = nil
}

func (d *daemon) socket() string { return filepath.Join(d.dir, "control.sock") }

func (d *daemon) client() *control.Client {
	c := &control.Client{Socket: d.socket(), Patience: 5 * time.Second}
	d.t.Cleanup(c.CloseIdle)
	return c
}

// dial opens a connection of its own.
func (d *daemon) dial() net.Conn {
	d.t.Helper()
	c, err := net.Dial("unix", d.socket())
	if err != nil {
		d.t.Fatal(err)
	}
	d.t.Cleanup(func() { c.Close() })
	c.SetDeadline(time.Now().Add(10 * time.Second))
	return c
}

// answer is a response with its body read.
type answer struct {
	status int
	header http.Header
	body   string
	p      control.Problem // if it is one
}

func (a answer) code() string { return a.p.Code }

func readAnswer(t testing.TB, c io.Reader) answer {
	t.Helper()
	resp, err := http.ReadResponse(newReader(c), nil)
	if err != nil {
		t.Fatalf("no answer: %v", err)
	}
	return toAnswer(t, resp)
}

func toAnswer(t testing.TB, resp *http.Response) answer {
	t.Helper()
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatalf("the answer broke off: %v (so far %q)", err, b)
	}
	a := answer{status: resp.StatusCode, header: resp.Header, body: string(b)}
	if resp.Header.Get("Content-Type") == control.TypeProblem {
		if err := json.Unmarshal(b, &a.p); err != nil {
			t.Fatalf("a problem that is no JSON: %q", b)
		}
		if a.p.Status != a.status || a.p.Type != control.ProblemType(a.p.Code) || a.p.Title == "" || a.p.Detail == "" {
			t.Errorf("a problem that is not whole: %s", b)
		}
	}
	return a
}

// do sends a request over HTTP. header is name, value, name, value, …
func (d *daemon) do(method, path, body string, header ...string) answer {
	d.t.Helper()
	return doOn(d.t, d.socket(), method, path, body, header...)
}

func doOn(t testing.TB, socket, method, path, body string, header ...string) answer {
	t.Helper()
	tr := transportTo(socket)
	req, err := http.NewRequest(method, "http://d"+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i < len(header); i += 2 {
		req.Header.Add(header[i], header[i+1])
	}
	resp, err := tr.RoundTrip(req)
	if err != nil {
		t.Fatal(err)
	}
	return toAnswer(t, resp)
}

func transportTo(socket string) *http.Transport {
	return &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "unix", socket)
	}, DisableKeepAlives: true, DisableCompression: true}
}

const typeJSON, typeNDJSON = "application/json", "application/x-ndjson"

// run starts a run and returns its id and token.
func (d *daemon) run() (id, token string) {
	d.t.Helper()
	s, err := d.client().Start(d.t.Context(), control.StartRequest{})
	if err != nil {
		d.t.Fatal(err)
	}
	return s.Record.ID, s.Writer
}

func isProblem(t *testing.T, err error, code string) *control.Problem {
	t.Helper()
	var p *control.Problem
	if !errors.As(err, &p) || p.Code != code {
		t.Fatalf("got %v, want a problem %s", err, code)
	}
	return p
}

// TestShutdownWithUnusedConnections: a client that has dialed and asked nothing
// does not keep the daemon from ending, as it would for 5 seconds.
func TestShutdownWithUnusedConnections(t *testing.T) {
	d := serve(t, newFake())
	for _, name := range []string{"control.sock", "agent.sock"} {
		c, err := net.Dial("unix", filepath.Join(d.dir, name))
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
	}
	waitFor(t, "the connections", func() bool {
		d.s.unused.mu.Lock()
		defer d.s.unused.mu.Unlock()
		return len(d.s.unused.conns) == 2
	})
	ctx, cancel := context.WithTimeout(t.Context(), 4*time.Second)
	defer cancel()
	if err := d.s.Shutdown(ctx); err != nil {
		t.Errorf("Shutdown: %v", err)
	}
}
