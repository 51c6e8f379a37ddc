package server

import (
	"bufio"
	"context"
	"encoding/base64"
	"io"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"durafs/control"
	"durafs/projection"
	"durafs/runs"
	"durafs/store"
)

// outcomeHead is the head of a request for the outcome of call 1, whose body
// comes in chunks.
func outcomeHead(id, token string) string {
	return "POST /v1/runs/" + id + "/tools/1/outcome HTTP/1.1\r\nHost: d\r\nContent-Type: application/x-ndjson\r\n" +
		control.HeaderWriter + ": " + token + "\r\nTransfer-Encoding: chunked\r\n\r\n"
}

// claimedRun is a run with an open call.
func (d *realDaemon) claimedRun() (id, token string) {
	d.t.Helper()
	id, token = d.run()
	_, err := d.client().WithWriter(token).Claim(d.t.Context(), id, control.ClaimRequest{CallID: "c", Name: "shot", Safety: "mutating", Args: []byte(`{"a":1}`)})
	if err != nil {
		d.t.Fatal(err)
	}
	return id, token
}

func (d *realDaemon) historyOf(id string, q control.HistoryQuery) string {
	d.t.Helper()
	h, err := d.client().History(d.t.Context(), id, q)
	if err != nil {
		d.t.Fatal(err)
	}
	defer h.Close()
	b, err := io.ReadAll(h)
	if err != nil {
		d.t.Fatal(err)
	}
	return string(b)
}

const oneText = `{"v":1,"status":"ok","parts":[{"kind":"text","text":"one"}]}`

// TestOutcome: claim, outcome with an image, history; through the client, live
// and after a restart.
func TestOutcome(t *testing.T) {
	d := serveStore(t)
	id, token := d.claimedRun()
	w := d.client().WithWriter(token)
	png := base64.StdEncoding.EncodeToString(append([]byte("\x89PNG\r\n\x1a\n"), make([]byte, 30_000)...))
	got, err := w.Outcome(t.Context(), id, 1, []byte(`{"status":"ok"}`), []byte(`{"v":1,"status":"ok","parts":[{"kind":"image","media_type":"image/png","data":"`+png+`"}]}`))
	if err != nil || got.Refused != "" || !strings.Contains(string(got.Projection), `"name":".projection-1-0"`) {
		t.Fatalf("%v %+v", err, got)
	}
	again, err := w.Outcome(t.Context(), id, 1, []byte(`{ "status":"ok"}`), nil)
	if err != nil || !again.Replayed || string(again.Projection) != string(got.Projection) {
		t.Errorf("again: %v %+v", err, again)
	}
	_, err = w.Outcome(t.Context(), id, 1, []byte(`{"status":"no"}`), nil)
	if p, ok := err.(*control.Problem); !ok || p.Status != 409 || p.Call != 1 || p.State != "settled" || string(p.Committed.Projection) != string(got.Projection) {
		t.Errorf("another outcome: %v", err)
	}
	plain := d.historyOf(id, control.HistoryQuery{})
	if want := `{"call":1,"call_id":"c","name":"shot","arguments":{"a":1},"result":` + string(got.Projection) + "}\n"; plain != want {
		t.Errorf("the history is\n%s\nwant\n%s", plain, want)
	}
	seen := d.historyOf(id, control.HistoryQuery{Materialize: true, Vision: true})
	if !strings.Contains(seen, `"data":"`+png+`"`) || !strings.Contains(seen, `"decision":"inline","bytes":30008`) {
		t.Errorf("with images: %.300s", seen)
	}
	if s := d.historyOf(id, control.HistoryQuery{Materialize: true}); !strings.Contains(s, `"no-vision"`) || strings.Contains(s, png) {
		t.Errorf("as text: %s", s)
	}
	if s := d.historyOf(id, control.HistoryQuery{Upto: 1}); s != "" {
		t.Errorf("before the claim: %s", s)
	}
	d.restart()
	if s := d.historyOf(id, control.HistoryQuery{}); s != plain {
		t.Errorf("after a restart it is %s", s)
	}
	if a := d.do("GET", "/v1/runs/"+id+"/payloads/.projection-1-0", ""); a.status != 404 {
		t.Errorf("an artifact is answered as a payload: %d", a.status)
	}
	for _, call := range []string{"0", "01", "-1", "x", "99999999999999999999"} {
		if a := d.do("POST", "/v1/runs/"+id+"/tools/"+call+"/outcome", "{}\n", control.HeaderWriter, token, "Content-Type", typeNDJSON); a.status != 400 {
			t.Errorf("the call %s: %d %s", call, a.status, a.body)
		}
	}
}

// TestOutcomeIsTotal: whatever becomes of the second line, the outcome is
// committed within the time, and the connection does not wait for it.
func TestOutcomeIsTotal(t *testing.T) {
	const wait = 300 * time.Millisecond
	first := chunk("{\"status\":\"ok\"}\n")
	for name, rest := range map[string]string{
		"hangs":           first,
		"half a line":     first + chunk(`{"v":1,"status":"ok","par`),
		"ends":            first + "0\r\n\r\n",
		"an empty line":   first + chunk("\n"),
		"refused":         first + chunk("{\"v\":2}\n"),
		"badly chunked":   first + "xyz\r\n",
		"a candidate":     first + chunk(oneText+"\n"),
		"without newline": first + chunk(oneText) + "0\r\n\r\n",
		"bytes behind it": first + chunk(oneText+"\nmore\nand more\n"),
	} {
		t.Run(name, func(t *testing.T) {
			d := serveQuick(t, wait)
			id, token := d.claimedRun()
			c := d.dial()
			io.WriteString(c, outcomeHead(id, token)+rest)
			resp, err := http.ReadResponse(bufio.NewReader(c), nil)
			if err != nil {
				t.Fatal(err)
			}
			body, err := io.ReadAll(resp.Body)
			want := projection.Sentinel
			if strings.Contains(rest, oneText) {
				want = oneText
			}
			if err != nil || resp.StatusCode != 200 || !strings.Contains(string(body), `"projection":`+want) {
				t.Errorf("%v %d %s", err, resp.StatusCode, body)
			}
		})
	}
}

// TestOutcomeOfAGibibyte: a projection without end is read as far as one can
// be, and refused.
func TestOutcomeOfAGibibyte(t *testing.T) {
	d := serveQuick(t, runs.ProjectionTimeoutMax)
	id, token := d.claimedRun()
	c := d.dial()
	c.SetDeadline(time.Now().Add(2 * time.Minute)) // it is much that is sent
	go func() {
		io.WriteString(c, outcomeHead(id, token)+chunk("{}\n"))
		part := chunk(strings.Repeat("x", 1<<20))
		for range 1 << 10 {
			if _, err := io.WriteString(c, part); err != nil {
				return
			}
		}
	}()
	resp, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		t.Fatal(err)
	}
	body, _ := io.ReadAll(resp.Body)
	if !strings.Contains(string(body), projection.Sentinel) || !strings.Contains(string(body), "projection_refused") {
		t.Errorf("%d %s", resp.StatusCode, body)
	}
}

// TestOutcomeAfterADisconnect: the outcome of a connection that broke is
// committed with the projection that another one brings, or without.
func TestOutcomeAfterADisconnect(t *testing.T) {
	d := serveQuick(t, 2*time.Second)
	id, token := d.claimedRun()
	c := d.dial()
	io.WriteString(c, outcomeHead(id, token)+chunk("{}\n")+chunk(`{"v":1`))
	c.Close()
	w := d.client().WithWriter(token)
	got, err := w.Outcome(t.Context(), id, 1, []byte("{}"), []byte(oneText))
	if err != nil || string(got.Projection) != oneText {
		t.Errorf("%v %+v", err, got)
	}
	other, token := d.claimedRun()
	c = d.dial()
	io.WriteString(c, outcomeHead(other, token)+chunk("{}\n"))
	c.Close()
	for s := ""; !strings.Contains(s, projection.Sentinel); s = d.historyOf(other, control.HistoryQuery{}) {
		if t.Context().Err() != nil {
			t.Fatal("the outcome is never committed")
		}
	}
}

// arriving tells that an outcome was received and waits for its projection.
type arriving struct {
	Domain
	arrived chan struct{}
}

func (a *arriving) Outcome(ctx context.Context, c runs.Caller, id string, r runs.OutcomeRequest) (runs.Committed, error) {
	read := r.Projection
	r.Projection = func(ctx context.Context) ([]byte, error) { close(a.arrived); return read(ctx) }
	return a.Domain.Outcome(ctx, c, id, r)
}

// TestOutcomeWaitsInACrash: an outcome that waited for its projection when the
// daemon died was not committed, its call is open, and nothing of the dead
// daemon waits on, which TestMain sees.
func TestOutcomeWaitsInACrash(t *testing.T) {
	d := serveStore(t)
	id, token := d.claimedRun()
	a := &arriving{d.s.runs, make(chan struct{})}
	d.s.runs = a
	io.WriteString(d.dial(), outcomeHead(id, token)+chunk("{}\n"))
	<-a.arrived
	d.crash()
	if h := d.historyOf(id, control.HistoryQuery{}); !strings.Contains(h, `"synthetic":true`) {
		t.Errorf("after the crash: %s", h)
	}
}

// serveQuick serves a store whose outcomes wait this long for projections.
func serveQuick(t *testing.T, wait time.Duration) *realDaemon {
	t.Helper()
	d := &realDaemon{daemon: daemon{t: t, dir: t.TempDir()}}
	s, err := store.Open(context.Background(), filepath.Join(d.dir, "store"), store.Options{UnsafeFilesystem: true, ProjectionTimeout: wait})
	if err != nil {
		t.Fatal(err)
	}
	d.store = s
	d.start(Options{Runs: s.Runs(), Status: func() any { return s.Status() }, Healthy: s.Healthy})
	t.Cleanup(func() { s.Runs().HurryNow(); d.close() })
	return d
}
