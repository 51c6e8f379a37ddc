package server

import (
	"bufio"
	"context"
	"encoding/json"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"durafs/control"
	"durafs/runs"
)

// eventStream opens a stream of events, as it comes.
func (d *daemon) eventStream(path string, header ...string) (*http.Response, *bufio.Reader) {
	d.t.Helper()
	tr := &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "unix", d.socket())
	}, DisableKeepAlives: true, DisableCompression: true}
	req, err := http.NewRequestWithContext(d.t.Context(), "GET", "http://d"+path, nil)
	if err != nil {
		d.t.Fatal(err)
	}
	for i := 0; i < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	resp, err := tr.RoundTrip(req)
	if err != nil {
		d.t.Fatal(err)
	}
	return resp, bufio.NewReader(resp.Body)
}

// rawEvent is an event's text up to the line that ends it.
func rawEvent(t testing.TB, r *bufio.Reader) (text string) {
	t.Helper()
	for {
		line, err := r.ReadString('\n')
		if err != nil {
			t.Fatalf("%q, then %v", text, err)
		}
		if line == "\n" {
			return text
		}
		text += line
	}
}

// firstEvent is the answer of a stream, up to its first event.
func (d *realDaemon) firstEvent(path string) answer {
	d.t.Helper()
	resp, r := d.eventStream(path)
	defer resp.Body.Close()
	return answer{status: resp.StatusCode, header: resp.Header, body: rawEvent(d.t, r)}
}

// watch begins to watch with a client of its own.
func (d *realDaemon) watch(q control.WatchQuery) *control.Watcher {
	d.t.Helper()
	w, err := d.client().Watch(d.t.Context(), q)
	if err != nil {
		d.t.Fatal(err)
	}
	d.t.Cleanup(func() { w.Close() })
	return w
}

func next(t testing.TB, w *control.Watcher, kind string) control.Event {
	t.Helper()
	ev, err := w.Next()
	if err != nil || ev.Kind != kind {
		t.Fatalf("%+v, %v, want %s", ev, err, kind)
	}
	return ev
}

// TestEvents: a snapshot of what is not finished, then every change.
func TestEvents(t *testing.T) {
	d := serveStore(t)
	a := d.example(control.StartRequest{Labels: map[string]string{"thread": "t"}})
	done := d.example(control.StartRequest{})
	settle := func(e example) {
		must(t)(d.client().WithWriter(e.token).Settle(t.Context(), e.id, control.SettleRequest{Status: control.Success}))
	}
	settle(done)
	all := d.watch(control.WatchQuery{})
	thread := d.watch(control.WatchQuery{Thread: "t"})
	if ev := next(t, all, control.EventSnapshot); len(ev.Records) != 1 || ev.Records[0].ID != a.id || ev.More || ev.Position == 0 {
		t.Errorf("%+v", ev)
	}
	next(t, thread, control.EventSnapshot)
	b := d.example(control.StartRequest{})
	if ev := next(t, all, control.EventRecord); ev.ID != b.id || ev.Record.Phase != control.PhaseRunning {
		t.Errorf("%+v", ev)
	}
	settle(a)
	for _, phase := range []string{control.PhaseSettling, control.PhaseTerminal} {
		for _, w := range []*control.Watcher{all, thread} {
			if ev := next(t, w, control.EventRecord); ev.ID != a.id || ev.Record.Phase != phase {
				t.Errorf("%+v, want %s", ev.Record, phase)
			}
		}
	}
}

// TestEventsOfAgents: an agent watches its own run, is told of the abort there,
// and of nothing else.
func TestEventsOfAgents(t *testing.T) {
	d := serveStore(t)
	a, b := d.example(control.StartRequest{}), d.example(control.StartRequest{})
	c := d.client().WithWriter(a.token)
	for _, q := range []control.WatchQuery{{}, {Thread: "t"}, {Run: b.id}} {
		_, err := c.Watch(t.Context(), q)
		if p, ok := err.(*control.Problem); !ok || p.Status != http.StatusForbidden {
			t.Errorf("%+v: %v", q, err)
		}
	}
	w, err := c.Watch(t.Context(), control.WatchQuery{Run: a.id})
	must(t)(w, err)
	defer w.Close()
	next(t, w, control.EventSnapshot)
	must(t)(d.client().Cancel(t.Context(), b.id, control.CancelRequest{}))
	must(t)(d.client().Cancel(t.Context(), a.id, control.CancelRequest{}))
	if ev := next(t, w, control.EventRecord); ev.ID != a.id || ev.Record.Phase != control.PhaseCancelRequested {
		t.Errorf("%+v", ev)
	}
	if ev := next(t, w, control.EventAbort); ev.ID != a.id {
		t.Errorf("%+v", ev)
	}
}

// TestEventsAtEveryBoundary: whoever breaks off at any event and goes on behind
// the last id that it has, is told each revision, in the end exactly once when
// it drops what it has.
func TestEventsAtEveryBoundary(t *testing.T) {
	d := serveStore(t)
	first := d.watch(control.WatchQuery{})
	start := next(t, first, control.EventSnapshot).Position
	e := d.example(control.StartRequest{Labels: map[string]string{"thread": "t"}})
	w := d.client().WithWriter(e.token)
	must(t)(w.Claim(t.Context(), e.id, control.ClaimRequest{CallID: "c", Name: "t", Safety: "read-only"}))
	f := d.example(control.StartRequest{})
	must(t)(w.Settle(t.Context(), e.id, control.SettleRequest{Status: control.Success}))
	must(t)(d.client().Cancel(t.Context(), f.id, control.CancelRequest{}))
	must(t)(d.client().WithWriter(f.token).Abort(t.Context(), f.id, control.AbortAcknowledged))

	// What the log has: each revision of both, in order.
	var want []string
	revisions := func(id string) uint64 {
		rec, _, err := d.client().Get(t.Context(), id)
		must(t)(rec, err)
		return rec.Revision
	}
	total := revisions(e.id) + revisions(f.id)
	told := func(ev control.Event) string { return ev.ID + " " + strconv.FormatUint(ev.Record.Revision, 10) }
	full := d.watch(control.WatchQuery{After: &start})
	for uint64(len(want)) < total {
		ev, err := full.Next()
		if err != nil {
			t.Fatal(err)
		}
		if ev.Kind == control.EventRecord {
			want = append(want, told(ev))
		}
	}
	restarted := false
	for cut := 1; cut < len(want); cut++ {
		if cut == len(want)/2 && !restarted { // the positions outlive the daemon
			restarted = true
			d.restart()
		}
		var got []string
		after := start
		r := d.watch(control.WatchQuery{After: &after})
		for len(got) < len(want) {
			if len(got) == cut {
				r.Close()
				r = d.watch(control.WatchQuery{After: &after})
			}
			ev, err := r.Next()
			if err != nil {
				t.Fatal(err)
			}
			if ev.Position != 0 {
				after = ev.Position
			}
			if ev.Kind == control.EventRecord && !slices.Contains(got, told(ev)) {
				got = append(got, told(ev))
			}
		}
		r.Close()
		if !slices.Equal(got, want) {
			t.Fatalf("cut at %d: %v, want %v", cut, got, want)
		}
	}
}

// TestWatcherGoesOn: the client's watcher outlives the daemon, and tells each
// revision once.
func TestWatcherGoesOn(t *testing.T) {
	d := serveStore(t)
	w := d.watch(control.WatchQuery{})
	next(t, w, control.EventSnapshot)
	a := d.example(control.StartRequest{})
	if ev := next(t, w, control.EventRecord); ev.ID != a.id || ev.Record.Revision != 1 {
		t.Fatalf("%+v", ev)
	}
	d.crash()
	must(t)(d.client().Cancel(t.Context(), a.id, control.CancelRequest{}))
	want := uint64(2)
	for {
		ev, err := w.Next()
		if err != nil {
			t.Fatal(err)
		}
		if ev.Kind != control.EventRecord {
			continue
		}
		if ev.Record.Revision != want {
			t.Fatalf("revision %d, want %d", ev.Record.Revision, want)
		}
		if want++; ev.Record.Phase == control.PhaseCancelled {
			return
		}
	}
}

// TestEventsOfASlowReader: one who stops reading holds nobody up, costs no
// memory but the socket's, and has missed nothing when it reads again. (That it
// begins anew when the ring has left it behind, the domain's tests show.)
func TestEventsOfASlowReader(t *testing.T) {
	d := serveStore(t)
	resp, r := d.eventStream("/v1/events")
	defer resp.Body.Close()
	rawEvent(t, r)
	const revisions = 150 // of each run: together far more than a socket holds
	ids := make([]string, 16)
	for i := range ids {
		ids[i], _ = d.run()
	}
	errs := make(chan error, len(ids))
	for _, id := range ids {
		go func() {
			for n := range revisions {
				if _, err := d.store.Runs().Pin(t.Context(), runs.Caller{Owner: true}, id, runs.PinRequest{Pinned: n%2 == 0}); err != nil {
					errs <- err
					return
				}
			}
			errs <- nil
		}()
	}
	for range ids {
		if err := <-errs; err != nil {
			t.Fatal(err)
		}
	}
	told := map[string]uint64{}
	for range len(ids) * (1 + revisions) {
		_, data, _ := strings.Cut(rawEvent(t, r), "\ndata: ")
		var ev control.Event
		if err := json.Unmarshal([]byte(data), &ev); err != nil || ev.Record == nil || ev.Record.Revision != told[ev.ID]+1 {
			t.Fatalf("behind revision %d: %.200s, %v", told[ev.ID], data, err)
		}
		told[ev.ID]++
	}
}

// TestEventsBounded: streams of events leave room for everyone else, and end
// when the daemon goes down.
func TestEventsBounded(t *testing.T) {
	d := serveStore(t)
	most := d.s.watchersMax()
	var streams []*bufio.Reader
	for range most {
		resp, r := d.eventStream("/v1/events")
		defer resp.Body.Close()
		streams = append(streams, r)
	}
	resp, _ := d.eventStream("/v1/events")
	resp.Body.Close()
	if resp.StatusCode != http.StatusServiceUnavailable {
		t.Errorf("one more: %d", resp.StatusCode)
	}
	d.run()
	began := time.Now()
	d.close()
	if took := time.Since(began); took > 5*time.Second {
		t.Errorf("it took %v to go down beside %d streams", took, most)
	}
	for _, r := range streams {
		for {
			if _, err := r.ReadString('\n'); err != nil {
				break
			}
		}
	}
}

// TestEventID: the standard's own way to go on, and what is no id.
func TestEventID(t *testing.T) {
	d := serveStore(t)
	d.run()
	resp, r := d.eventStream("/v1/events")
	text := rawEvent(t, r)
	resp.Body.Close()
	_, rest, ok := strings.Cut(text, "\nid: ")
	id, _, _ := strings.Cut(rest, "\n")
	if !ok || id == "" {
		t.Fatalf("the snapshot has no id: %s", text)
	}
	run, _ := d.run()
	resp, r = d.eventStream("/v1/events?after=0", control.HeaderLastEventID, id)
	if text := rawEvent(t, r); !strings.HasPrefix(text, "event: record\nid: ") || !strings.Contains(text, run) {
		t.Errorf("behind %s: %s", id, text)
	}
	resp.Body.Close()
	resp, _ = d.eventStream("/v1/events", control.HeaderLastEventID, "yesterday")
	resp.Body.Close()
	if resp.StatusCode != http.StatusBadRequest {
		t.Errorf("no id: %d", resp.StatusCode)
	}
}

// TestAbortByEvent: a handle that listens learns of a cancel without a beat.
func TestAbortByEvent(t *testing.T) {
	d := serveStore(t)
	none := int64(0) // no lease, no beats
	run, err := d.client().Run(t.Context(), control.StartRequest{LeaseMS: &none})
	if err != nil {
		t.Fatal(err)
	}
	defer run.Close()
	abort := run.Abort()
	if _, err := d.client().Cancel(t.Context(), run.ID(), control.CancelRequest{}); err != nil {
		t.Fatal(err)
	}
	select {
	case <-abort:
	case <-time.After(10 * time.Second):
		t.Fatal("it was not told")
	}
}
