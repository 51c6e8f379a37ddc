package server

import (
	"context"
	"encoding/json"
	"maps"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"durafs/control"
)

// sample is a request to a route that the route takes, as the description has
// it: so a new route comes with one, and the tests that walk the table have it.
type sample struct {
	name, path, body string
	header           []string
}

// samples has one request for each route of the table, of the run id.
func samples(t *testing.T, id string) map[string]sample {
	t.Helper()
	_, ops := describe(t)
	all := map[string]sample{}
	for _, rt := range routes {
		name := rt.method + " " + rt.pattern
		s := sample{name: name}
		param := "p"
		for _, contentType := range slices.Sorted(maps.Keys(ops[name].RequestBody.Content)) {
			for _, key := range slices.Sorted(maps.Keys(ops[name].RequestBody.Content[contentType].Examples)) {
				e := ops[name].RequestBody.Content[contentType].Examples[key]
				if e.Status != 0 || s.body != "" {
					continue
				}
				s.body = string(e.Value)
				var text string
				if contentType != typeJSON && json.Unmarshal(e.Value, &text) == nil {
					s.body = text
				}
				s.header = []string{"Content-Type", strings.Replace(contentType, "*/*", "text/markdown", 1)}
			}
		}
		for _, key := range slices.Sorted(maps.Keys(ops[name].Examples)) {
			if e := ops[name].Examples[key]; e.Status == 0 && e.Name != "" {
				param = e.Name
				break
			}
		}
		of := "master"
		if rt.method != "GET" {
			of = "agent:a"
		}
		s.path = strings.NewReplacer("{id}", id, "{name}", param, "{call}", "1", "{scope}", "s", "{thread}", "t", "{target}", of).Replace(rt.pattern)
		all[name] = s
	}
	return all
}

// tokenWorld is a store with the tokens that there can be.
type tokenWorld struct {
	*realDaemon
	run, current, stale, used string // a run that was resumed
	waiting, unused, lost     string // one that is to be resumed, and its agent's token of before
	other, others             string // one that nobody has touched
}

func newTokenWorld(t *testing.T) *tokenWorld {
	t.Helper()
	w := &tokenWorld{realDaemon: serveStore(t)}
	request := control.StartRequest{ResumeRequest: []byte("go on"), Binding: &control.Binding{Provider: "p", Model: "m"}}
	resumed, waiting := w.example(request), w.example(request)
	w.run, w.stale, w.waiting, w.lost = resumed.id, resumed.token, waiting.id, waiting.token
	w.restart()
	w.used = w.prepare(w.run, control.PrepareRequest{Force: true}).Resume
	act, err := w.client().Activate(t.Context(), w.run, w.used, request.Binding)
	if err != nil {
		t.Fatal(err)
	}
	w.current = act.Writer
	w.unused = w.prepare(w.waiting, control.PrepareRequest{Force: true}).Resume
	e := w.example(control.StartRequest{})
	w.other, w.others = e.id, e.token
	return w
}

// mayResume are the routes that an unused resume token opens, of its own run.
var mayResume = map[string]bool{
	"POST /v1/runs/{id}/resume/activate": true, "POST /v1/runs/{id}/resume/fail": true, "GET /v1/runs/{id}/resume/request": true,
}

// TestTokensReachOnlyTheirRun sends to every route of a run a request that it
// would take, with every token that is not good for it, from both sockets: none
// is taken, and nothing has changed. The same requests are taken with the token
// that is.
func TestTokensReachOnlyTheirRun(t *testing.T) {
	w := newTokenWorld(t)
	state := func() string {
		var b strings.Builder
		for _, id := range []string{w.run, w.waiting, w.other} {
			a := w.do("GET", "/v1/runs/"+id, "")
			var rec map[string]any
			json.Unmarshal([]byte(a.body), &rec)
			delete(rec, "heartbeat_at")
			delete(rec, "late_rows") // what a token of before has tried is kept
			delete(rec, "changed_at")
			text, _ := json.Marshal(rec)
			b.Write(append(text, w.do("GET", "/v1/runs/"+id+"/log", "").body...))
		}
		return b.String()
	}
	before := state()
	sent := 0
	for _, target := range []struct {
		id     string
		tokens map[string][2]string
	}{
		{w.run, map[string][2]string{
			"none": {}, "its token of before": {control.HeaderWriter, w.stale}, "another run's": {control.HeaderWriter, w.others},
			"one made up": {control.HeaderWriter, strings.Repeat("0", 64)}, "its resume token as a writer": {control.HeaderWriter, w.used},
			"its used resume token": {control.HeaderResume, w.used}, "another's unused resume token": {control.HeaderResume, w.unused},
			"its writer token as a resume token": {control.HeaderResume, w.current},
		}},
		{w.waiting, map[string][2]string{
			"none": {}, "its agent's of before": {control.HeaderWriter, w.lost}, "another run's": {control.HeaderWriter, w.current},
			"its resume token as a writer": {control.HeaderWriter, w.unused}, "another's used resume token": {control.HeaderResume, w.used},
			"its unused resume token": {control.HeaderResume, w.unused}, "its agent's as a resume token": {control.HeaderResume, w.lost},
		}},
	} {
		for name, s := range samples(t, target.id) {
			ofARun := strings.Contains(name, "/v1/runs/{id}")
			if name == "GET /v1/events" {
				s.path, ofARun = s.path+"?run="+target.id, true
			}
			if !ofARun {
				continue
			}
			for who, token := range target.tokens {
				if who == "its unused resume token" && mayResume[name] {
					continue
				}
				for _, socket := range []string{"control.sock", "agent.sock"} {
					if token[0] == "" && socket == "control.sock" {
						continue // that is the owner
					}
					header := s.header
					if token[0] != "" {
						header = append(slices.Clip(header), token[0], token[1])
					}
					sent++
					if status := statusOn(t, filepath.Join(w.dir, socket), s, header); status < 400 {
						t.Errorf("%s on %s, %s: %d", name, socket, who, status)
					}
				}
			}
		}
	}
	if after := state(); after != before {
		t.Errorf("something has changed:\n%s\n%s", before, after)
	}
	if sent < 400 {
		t.Errorf("only %d requests", sent)
	}
	// What was refused above is no more than that: with the right token it is taken.
	of := samples(t, w.run)
	for _, name := range []string{
		"POST /v1/runs/{id}/heartbeat", "POST /v1/runs/{id}/log", "GET /v1/runs/{id}", "GET /v1/runs/{id}/log",
		"GET /v1/runs/{id}/history", "GET /v1/runs/{id}/resume/request", "POST /v1/runs/{id}/tools",
	} {
		s := of[name]
		if status := statusOn(t, w.socket(), s, append(s.header, control.HeaderWriter, w.current)); status >= 300 {
			t.Errorf("%s with the run's token: %d", name, status)
		}
	}
	for _, c := range []struct{ name, body string }{
		{"GET /v1/runs/{id}/resume/request", ""},
		{"POST /v1/runs/{id}/resume/activate", `{"binding":{"provider":"p","model":"m","scope":"","local":false}}`}, // uses it up
	} {
		s := samples(t, w.waiting)[c.name]
		s.body = c.body
		if status := statusOn(t, w.socket(), s, []string{"Content-Type", typeJSON, control.HeaderResume, w.unused}); status != 200 {
			t.Errorf("%s with its resume token: %d", c.name, status)
		}
	}
}

// statusOn is the status of an answer, which may go on without end.
func statusOn(t *testing.T, socket string, s sample, header []string) int {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	tr := transportTo(socket)
	method, _, _ := strings.Cut(s.name, " ")
	req, err := http.NewRequestWithContext(ctx, method, "http://d"+s.path, strings.NewReader(s.body))
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i < len(header); i += 2 {
		req.Header.Add(header[i], header[i+1])
	}
	resp, err := tr.RoundTrip(req)
	if err != nil {
		t.Errorf("%s: %v", s.name, err)
		return 0
	}
	resp.Body.Close()
	return resp.StatusCode
}
