package server

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"durafs/control"
	"durafs/runs"
	"durafs/store"
)

// realDaemon serves a real store on a real socket, and can be restarted.
type realDaemon struct {
	daemon
	store *store.Store
}

func serveStore(t testing.TB) *realDaemon {
	t.Helper()
	d := &realDaemon{daemon: daemon{t: t, dir: t.TempDir()}}
	d.open()
	t.Cleanup(d.close)
	return d
}

func (d *realDaemon) open() {
	d.t.Helper()
	s, err := store.Open(context.Background(), filepath.Join(d.dir, "store"), store.Options{UnsafeFilesystem: true, Sinks: []string{"mail"}})
	if err != nil {
		d.t.Fatal(err)
	}
	d.store = s
	d.start(Options{
		Runs:    s.Runs(),
		Status:  func() any { return s.Status() },
		Healthy: s.Healthy,
		Reset:   resetExample,
		Compact: compactExample,
		Metrics: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "durafs_up 1\n") }),
	})
}

// resetExample is a daemon's answer to a reset of the store of the description's
// examples; internal/daemon has the real one.
func resetExample(_ context.Context, _ runs.Caller, r ResetRequest) (ResetDone, error) {
	const store = "5a3c1d0e-0000-4000-8000-000000000000"
	if r.Store != store {
		return ResetDone{}, &runs.Refusal{Code: runs.RevisionMismatch, Field: "store", Detail: "this is another store"}
	}
	return ResetDone{Store: "b", Former: store, BootID: "c", Runs: 2, Active: 1, LSN: 9}, nil
}

// compactExample is a daemon's answer to a compaction.
func compactExample(context.Context) (CompactDone, error) {
	return CompactDone{Packs: 3, PacksFreed: 2, RecordsMoved: 5, BytesMoved: 6, BytesFreed: 7}, nil
}

func (d *realDaemon) close() {
	if d.store == nil {
		return
	}
	d.stop()
	if err := d.store.Close(context.Background()); err != nil {
		d.t.Errorf("closing the store: %v", err)
	}
	d.store = nil
}

func (d *realDaemon) restart() {
	d.close()
	d.open()
}

// crash cuts every connection, whatever is on its way, and opens the store
// again: clients see what they see when the daemon is killed.
func (d *realDaemon) crash() {
	d.s.mu.Lock()
	for _, h := range d.s.servers {
		h.Close()
	}
	d.s.mu.Unlock()
	died := d.store.Runs()
	d.close()
	died.HurryNow() // what waits in there would be gone with the process; it finds a closed store
	d.open()
}

// rowsOf reads the agent's rows of a run, without what the store put in.
func (d *realDaemon) rowsOf(id string) (rows []string) {
	d.t.Helper()
	l, err := d.client().Log(d.t.Context(), id, control.LogQuery{})
	if err != nil {
		d.t.Fatal(err)
	}
	defer l.Close()
	seq := uint64(0)
	for {
		line, err := l.Next()
		if err == io.EOF {
			return rows
		}
		if err != nil {
			d.t.Fatal(err)
		}
		if got := control.RowSeq(line); got != seq+1 {
			d.t.Fatalf("seq %d follows %d", got, seq)
		}
		seq++
		if !bytes.Contains(line, []byte(`"by":"store"`)) {
			_, rest, _ := strings.Cut(string(line), ",")
			rows = append(rows, "{"+rest)
		}
	}
}

// wantAgentRows checks that the run has the rows {"n":1} to {"n":n}, once and
// in order.
func (d *realDaemon) wantAgentRows(id string, n int) {
	d.t.Helper()
	got := d.rowsOf(id)
	for i, row := range got {
		if want := fmt.Sprintf(`{"n":%d}`, i+1); row != want {
			d.t.Fatalf("row %d is %s, want %s", i+1, row, want)
		}
	}
	if len(got) != n {
		d.t.Fatalf("%d rows, want %d", len(got), n)
	}
}

// TestRealRefused: each refusal of a real run is its own clear 4xx, and the
// record and the log are as before.
func TestRealRefused(t *testing.T) {
	d := serveStore(t)
	start := func(key string) (id, token string) {
		s, err := d.client().Start(t.Context(), control.StartRequest{IdempotencyKey: key})
		if err != nil || s.Writer == "" {
			t.Fatalf("%+v, %v", s, err)
		}
		return s.Record.ID, s.Writer
	}
	id, token := start("k")
	w := d.client().WithWriter(token)
	if _, err := w.Append(t.Context(), id, []byte(`{"k":"a","v":1}`), "k"); err != nil {
		t.Fatal(err)
	}
	if _, err := w.Put(t.Context(), id, "p", "", strings.NewReader("one")); err != nil {
		t.Fatal(err)
	}
	stale, old := start("again")
	_, fresh := start("again") // a replay before any progress gives a newer writer
	if old == fresh {
		t.Fatal("the replay gave the same token")
	}
	before, tag, err := d.client().Get(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	jw := []string{control.HeaderWriter, token, "Content-Type", typeJSON}
	run := "/v1/runs/" + id
	for _, c := range []struct {
		name, method, path, body string
		header                   []string
		status                   int
		code                     runs.Code
	}{
		{"id in use", "POST", "/v1/runs", `{"id":"` + id + `"}`, []string{"Content-Type", typeJSON}, 409, runs.RunExists},
		{"key with another body", "POST", "/v1/runs", `{"task":"x"}`, []string{"Content-Type", typeJSON, control.HeaderIdempotencyKey, "k"}, 422, runs.IdempotencyMismatch},
		{"label too long", "POST", "/v1/runs", `{"labels":{"a":"` + strings.Repeat("x", 257) + `"}}`, []string{"Content-Type", typeJSON}, 400, runs.BadLabel},
		{"target", "POST", "/v1/runs", `{"target":"agent:x"}`, []string{"Content-Type", typeJSON}, 409, runs.TargetNotEnrolled},
		{"not an object", "POST", run + "/log", `"x"`, jw, 422, runs.RowNotObject},
		{"not JSON", "POST", run + "/log", `{"a":}`, jw, 422, runs.RowInvalid},
		{"trailing bytes", "POST", run + "/log", `{} {}`, jw, 422, runs.RowInvalid},
		{"reserved seq", "POST", run + "/log", `{"seq":1}`, jw, 422, runs.ReservedName},
		{"reserved by", "POST", run + "/log", `{"by":"me"}`, jw, 422, runs.ReservedName},
		{"no key", "POST", run + "/log?key=id", `{"a":1}`, jw, 422, runs.KeyMissing},
		{"key with another row", "POST", run + "/log?key=k", `{"k":"a","v":2}`, jw, 409, runs.KeyConflict},
		{"wrong token", "POST", run + "/log", `{}`, []string{control.HeaderWriter, strings.Repeat("0", 64), "Content-Type", typeJSON}, 403, runs.WrongToken},
		{"another run's token", "POST", run + "/log", `{}`, []string{control.HeaderWriter, fresh, "Content-Type", typeJSON}, 403, runs.WrongToken},
		{"stale epoch", "POST", "/v1/runs/" + stale + "/log", `{"a":1}`, []string{control.HeaderWriter, old, "Content-Type", typeJSON}, 409, runs.StaleWriter},
		{"stale epoch in a stream", "POST", "/v1/runs/" + stale + "/log", `{"a":1}`, []string{control.HeaderWriter, old, "Content-Type", typeNDJSON}, 409, runs.StaleWriter},
		{"payload reused", "PUT", run + "/payloads/p", "two", []string{control.HeaderWriter, token}, 409, runs.PayloadConflict},
		{"payload dot", "PUT", run + "/payloads/.hidden", "x", []string{control.HeaderWriter, token}, 400, runs.BadName},
		{"payload terminal", "PUT", run + "/payloads/.terminal", "x", []string{control.HeaderWriter, token}, 400, runs.BadName},
		{"payload slash", "PUT", run + "/payloads/a%2fb", "x", []string{control.HeaderWriter, token}, 400, runs.BadName},
		{"payload control", "PUT", run + "/payloads/a%00b", "x", []string{control.HeaderWriter, token}, 400, runs.BadName},
		{"payload proto", "PUT", run + "/payloads/__proto__", "x", []string{control.HeaderWriter, token}, 400, runs.BadName},
		{"payload long", "PUT", run + "/payloads/" + strings.Repeat("x", 256), "x", []string{control.HeaderWriter, token}, 400, runs.BadName},
		{"payload protected", "PUT", run + "/payloads/q?source=resume_request", "x", []string{control.HeaderWriter, token}, 403, runs.ProtectedSource},
		{"note too long", "POST", run + "/heartbeat", `{"note":"` + strings.Repeat("x", 513) + `"}`, jw, 413, runs.TooLarge},
		{"status", "POST", run + "/settle", `{"status":"done"}`, jw, 400, runs.BadStatus},
		{"status of the store", "POST", run + "/settle", `{"status":"resume-exhausted"}`, jw, 400, runs.BadStatus},
		{"wrong revision", "POST", run + "/settle", `{"status":"success"}`, append([]string{"If-Match", `"1-99"`}, jw...), 412, runs.RevisionMismatch},
		{"unknown payload", "POST", run + "/settle", `{"status":"success","payload":{"name":"none"}}`, jw, 404, runs.UnknownPayload},
		{"attach while running", "POST", run + "/attach", `{}`, jw, 409, runs.WrongPhase},
		{"unknown cursor", "GET", "/v1/runs?after=nonsense", ``, nil, 400, runs.BadCursor},
	} {
		t.Run(c.name, func(t *testing.T) {
			a := d.do(c.method, c.path, c.body, c.header...)
			if a.status != c.status || a.code() != string(c.code) {
				t.Errorf("got %d %s, want %d %s", a.status, a.body, c.status, c.code)
			}
			if c.status == 412 && a.p.ETag != tag {
				t.Errorf("the current ETag is %s, the answer says %s", tag, a.p.ETag)
			}
		})
	}
	after, tagAfter, err := d.client().Get(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	if string(before.Raw) != string(after.Raw) || tag != tagAfter {
		t.Errorf("the record changed:\n%s\n%s", before.Raw, after.Raw)
	}
	if page, _ := d.client().List(t.Context(), control.ListQuery{}); len(page.Runs) != 2 {
		t.Errorf("%d runs", len(page.Runs))
	}
	if rec, _, _ := d.client().Get(t.Context(), stale); rec.LateRows != 2 || rec.Log.Rows != 1 {
		t.Errorf("of the stale writer: %d late rows, %d rows", rec.LateRows, rec.Log.Rows)
	}
}

func TestRealSettleTwice(t *testing.T) {
	d := serveStore(t)
	id, token := d.run()
	w := d.client().WithWriter(token)
	_, tag, err := w.Get(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	text := "the answer"
	q := control.SettleRequest{Status: control.Success, Summary: "s", Payload: &control.TerminalPayload{Text: &text}, IfMatch: tag}
	s, err := w.Settle(t.Context(), id, q)
	if err != nil || s.Replayed || !s.Record.Sealed() || s.ETag == tag {
		t.Fatalf("%+v, %v", s, err)
	}
	q.IfMatch = ""
	again, err := w.Settle(t.Context(), id, q)
	if err != nil || !again.Replayed || again.ETag != s.ETag {
		t.Errorf("the same again: %+v, %v", again, err)
	}
	q.Summary = "other"
	_, err = w.Settle(t.Context(), id, q)
	isProblem(t, err, string(runs.SettleConflict))
	_, err = w.Append(t.Context(), id, []byte(`{}`), "")
	isProblem(t, err, control.CodeFinished)

	r, err := d.client().Payload(t.Context(), id, control.TerminalName, 0, -1)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if b, _ := io.ReadAll(r); string(b) != text || r.B3 != s.Record.Terminal.Payload.B3 {
		t.Errorf("the terminal payload is %q, %s", b, r.B3)
	}
}

// TestRunAcrossRestarts: a handle logs, puts and beats while the daemon is
// restarted under it; each row is there once.
func TestRunAcrossRestarts(t *testing.T) {
	d := serveStore(t)
	lease := int64(300)
	run, err := d.client().Run(t.Context(), control.StartRequest{LeaseMS: &lease})
	if err != nil {
		t.Fatal(err)
	}
	defer run.Close()
	const n = 200
	var logged atomic.Int64
	var wg sync.WaitGroup
	wg.Go(func() {
		for i := 1; i <= n; i++ {
			if _, err := run.Log(t.Context(), map[string]int{"n": i}); err != nil {
				t.Errorf("row %d: %v", i, err)
				return
			}
			logged.Add(1)
			if i%50 == 0 {
				if _, err := run.Payload(t.Context(), fmt.Sprint("p", i), "", strings.NewReader("bytes")); err != nil {
					t.Errorf("payload: %v", err)
				}
			}
		}
	})
	for i := int64(1); i <= 4; i++ {
		waitFor(t, "rows", func() bool { return logged.Load() >= i*40 || t.Failed() })
		if i%2 == 0 {
			d.restart()
		} else {
			d.crash()
		}
	}
	wg.Wait()
	if run.Attached() == 0 {
		t.Error("the handle never attached")
	}
	d.wantAgentRows(run.ID(), n)
	if _, err := run.Settle(t.Context(), control.SettleRequest{Status: control.Success}); err != nil {
		t.Error(err)
	}
}

// TestBeats: a handle keeps its run alive for longer than its lease; without
// it the run is interrupted, and taken back by the next write.
func TestBeats(t *testing.T) {
	d := serveStore(t)
	lease := int64(150)
	run, err := d.client().Run(t.Context(), control.StartRequest{LeaseMS: &lease})
	if err != nil {
		t.Fatal(err)
	}
	first := run.Record().HeartbeatAt
	waitFor(t, "beats", func() bool { return run.Record().HeartbeatAt.Sub(first) > 3*150*time.Millisecond })
	if rec, _, err := d.client().Get(t.Context(), run.ID()); err != nil || rec.Phase != control.PhaseRunning {
		t.Errorf("after three leases: %+v, %v", rec, err)
	}
	run.Close()
	if _, err := run.Log(t.Context(), `{"n":1}`); err != nil {
		t.Error(err)
	}
}

// source is a RowSource of the rows {"n":1} to {"n":n}.
type source struct{ n uint64 }

func (s source) ReadRows(ctx context.Context, n uint64, buf []byte, max int) ([]byte, int, error) {
	count := 0
	for ; n <= s.n && len(buf) < min(max, 2000); n++ {
		buf = fmt.Appendf(buf, "{\"n\":%d}\n", n)
		count++
	}
	if count == 0 {
		return buf, 0, io.EOF
	}
	return buf, count, nil
}

// TestDeliverAcrossRestarts: a stream whose daemon is restarted again and again
// delivers each row once, with a key and without.
func TestDeliverAcrossRestarts(t *testing.T) {
	for _, key := range []string{"n", ""} {
		t.Run("key "+key, func(t *testing.T) {
			d := serveStore(t)
			run, err := d.client().Run(t.Context(), control.StartRequest{})
			if err != nil {
				t.Fatal(err)
			}
			defer run.Close()
			const n = 30000
			var acked atomic.Uint64
			done := make(chan error, 1)
			go func() {
				got, err := run.Deliver(t.Context(), source{n}, 0, control.StreamOptions{Key: key, OnAck: func(a, _ uint64) { acked.Store(a) }})
				if err == nil && got != n {
					err = fmt.Errorf("%d rows delivered", got)
				}
				done <- err
			}()
			for i := uint64(1); i <= 6; i++ {
				waitFor(t, "acknowledgements", func() bool { return acked.Load() >= i*n/8 || len(done) > 0 })
				if i%2 == 0 {
					d.restart()
				} else {
					d.crash()
				}
			}
			if err := <-done; err != nil {
				t.Fatal(err)
			}
			d.wantAgentRows(run.ID(), n)
		})
	}
}

// TestStream pushes rows from many goroutines and flushes.
func TestStream(t *testing.T) {
	d := serveStore(t)
	run, err := d.client().Run(t.Context(), control.StartRequest{})
	if err != nil {
		t.Fatal(err)
	}
	defer run.Close()
	s := run.Stream(t.Context(), control.StreamOptions{WindowBytes: 1000})
	for i := 1; i <= 500; i++ {
		if err := s.Log(map[string]int{"n": i}); err != nil {
			t.Fatal(err)
		}
		if i == 250 {
			if err := s.Flush(t.Context()); err != nil {
				t.Fatal(err)
			}
			d.wantAgentRows(run.ID(), 250)
			d.restart()
		}
	}
	w := s.LineWriter(func(line []byte) any { return map[string]string{"line": string(line)} })
	io.WriteString(w, "one\ntw")
	io.WriteString(w, "o\nthree")
	w.Close()
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	rows := d.rowsOf(run.ID())
	if got := strings.Join(rows[500:], " "); len(rows) != 503 || got != `{"line":"one"} {"line":"two"} {"line":"three"}` {
		t.Errorf("%d rows, at last %s", len(rows), got)
	}
	bad := run.Stream(t.Context(), control.StreamOptions{})
	bad.Log(`{"a":1}`)
	bad.Log(`[]`)
	p := isProblem(t, bad.Close(), string(runs.RowNotObject))
	if p.Row != 2 {
		t.Errorf("the bad row is %d", p.Row)
	}
}

// TestFindsLostRow: when the answer to a row was lost, the handle looks into
// the log before it repeats: rows of any shape are found again.
func TestFindsLostRow(t *testing.T) {
	d := serveStore(t)
	run, err := d.client().Run(t.Context(), control.StartRequest{})
	if err != nil {
		t.Fatal(err)
	}
	defer run.Close()
	lossy := &lossyDomain{Domain: d.s.runs}
	d.s.runs = lossy
	rowsSent := []string{
		`{"a":1}`, `{}`, ` { "a" : [1, 2] } `, "{\n \"a\": \"x\\n\",\r\n\"b\":\t1}", `{ }`,
		`{"big":"` + strings.Repeat("y", 100<<10) + `"}`,
	}
	for i, row := range rowsSent {
		lossy.lose.Store(true)
		a, err := run.Log(t.Context(), row)
		if err != nil || !a.Replayed {
			t.Errorf("row %d: %+v, %v", i, a, err)
		}
	}
	if got := d.rowsOf(run.ID()); len(got) != len(rowsSent) {
		t.Errorf("%d rows in the log, want %d", len(got), len(rowsSent))
	}
}

// lossyDomain loses the answer to an append that happened.
type lossyDomain struct {
	Domain
	lose atomic.Bool
}

func (l *lossyDomain) Append(ctx context.Context, c runs.Caller, id string, rows []runs.Row, key string) (runs.Appended, error) {
	a, err := l.Domain.Append(ctx, c, id, rows, key)
	if err == nil && l.lose.Swap(false) {
		err = errors.Join(context.Canceled)
	}
	return a, err
}
