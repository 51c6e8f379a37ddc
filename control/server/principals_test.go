package server

import (
	"context"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"

	"durafs/control"
)

// agentsRoutes is the short list of what others than owners may ask for at all;
// each of them looks at the run that is meant. A route that is not here is the
// owner's.
var agentsRoutes = map[string]bool{
	"POST /v1/runs": true, "GET /v1/runs": true, "GET /v1/runs/{id}": true,
	"POST /v1/runs/{id}/heartbeat": true, "POST /v1/runs/{id}/log": true, "GET /v1/runs/{id}/log": true,
	"PUT /v1/runs/{id}/payloads/{name}": true, "GET /v1/runs/{id}/payloads/{name}": true,
	"POST /v1/runs/{id}/tools": true, "POST /v1/runs/{id}/tools/{call}/outcome": true, "POST /v1/runs/{id}/tools/{call}/again": true,
	"GET /v1/runs/{id}/history": true, "POST /v1/runs/{id}/settle": true, "POST /v1/runs/{id}/attach": true,
	"POST /v1/runs/{id}/copy":  true,
	"POST /v1/runs/{id}/abort": true, "POST /v1/runs/{id}/pause": true, "POST /v1/runs/{id}/rollback": true,
	"POST /v1/runs/{id}/resume/activate": true, "POST /v1/runs/{id}/resume/fail": true, "GET /v1/runs/{id}/resume/request": true,
	"GET /v1/events": true, "GET /v1/openapi.json": true, "GET /healthz": true,
}

// TestEveryRouteForEveryPrincipal: an owner's route answers nobody else, however
// they come and whatever token they bring; and what a route of agents tells of a
// run, or does to it, is for that run's own agent.
func TestEveryRouteForEveryPrincipal(t *testing.T) {
	const friend, stranger = 7001, 7002
	d := serveStore(t)
	d.s.owners[friend] = true
	id, token := d.run()
	_, others := d.run()
	own := uint32(os.Getuid())
	handlers := map[Socket]http.Handler{Control: d.s.handler(Control), Agent: d.s.handler(Agent)}
	for _, rt := range routes {
		name := rt.method + " " + rt.pattern
		path := strings.NewReplacer("{id}", id, "{name}", "p", "{call}", "1", "{scope}", "s", "{thread}", "t", "{target}", "master").Replace(rt.pattern)
		for _, p := range []struct {
			who    string
			uid    uint32
			socket Socket
			header string
			token  string
			owner  bool
		}{
			{"the daemon's uid", own, Control, "", "", true},
			{"root", 0, Control, "", "", true},
			{"a further owner", friend, Control, "", "", true},
			{"another uid", stranger, Control, "", "", false},
			{"an owner's uid on agent.sock", own, Agent, "", "", false},
			{"another uid on agent.sock", stranger, Agent, "", "", false},
			{"another run's agent", own, Control, control.HeaderWriter, others, false},
			{"another uid with another run's token", stranger, Agent, control.HeaderWriter, others, false},
			{"a made-up resume token", stranger, Control, control.HeaderResume, others, false},
			{"the run's agent", stranger, Agent, control.HeaderWriter, token, false},
		} {
			ctx, cancel := context.WithCancel(context.WithValue(t.Context(), peerKey{}, &peer{uid: p.uid, known: true}))
			cancel() // what has no end ends at once
			r := httptest.NewRequest(rt.method, path, nil).WithContext(ctx)
			if p.header != "" {
				r.Header.Set(p.header, p.token)
			}
			if p.owner || p.token == token || !agentsRoutes[name] && rt.need != needOwner {
				if err := (&request{Request: r, s: d.s}).admit(p.socket, rt, 1); p.owner && rt.need == needOwner && err != nil {
					t.Errorf("%s: %s is refused: %v", name, p.who, err)
				}
				if !agentsRoutes[name] && rt.need != needOwner {
					t.Errorf("%s is open to agents, and is not on their list", name)
				}
				if p.owner || agentsRoutes[name] {
					continue
				}
			}
			w := httptest.NewRecorder()
			handlers[p.socket].ServeHTTP(w, r)
			ofARun := strings.Contains(rt.pattern, "{id}")
			if (!agentsRoutes[name] || ofARun) && w.Code != 401 && w.Code != 403 && w.Code != 404 && w.Code != 415 && w.Code != 400 {
				t.Errorf("%s: %s gets %d %s", name, p.who, w.Code, w.Body)
			}
			if !agentsRoutes[name] && w.Code != 401 && w.Code != 403 {
				t.Errorf("%s: %s gets %d %s", name, p.who, w.Code, w.Body)
			}
		}
	}
	if a := d.do("GET", "/v1/runs/"+id, ""); !strings.Contains(a.body, `"phase":"running"`) || !strings.Contains(a.body, `"revision":1`) {
		t.Errorf("the run was touched: %s", a.body)
	}
}
