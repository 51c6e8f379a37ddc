package server

import (
	"net/http"

	"durafs/control"
	"durafs/runs"
)

// need is who may take a route at all; the domain checks what of it a caller
// may touch.
type need uint8

const (
	// needOwner is the default: a route that says nothing is the owner's.
	needOwner need = iota
	// needWriter takes whoever sends a writer token.
	needWriter
	// needAny takes everyone; the domain decides by run.
	needAny
	// needResume takes whoever sends a resume token, needDispatcher an owner too.
	needResume
	needDispatcher
)

func (n need) String() string {
	return [...]string{"owner", "writer", "any", "resume", "dispatcher"}[n]
}

// request is one request behind the door.
type request struct {
	*http.Request
	s      *Server
	w      http.ResponseWriter
	ctl    *http.ResponseController
	caller runs.Caller
	began  bool // the answer's header is out
	over   bool // the body was read to its end
	failed bool // the answer is a problem
	held   int  // of Server.large, until the request ends
}

// route is one thing that the API does.
type route struct {
	method  string
	pattern string
	need    need
	// serve answers, or returns the error that is to be the answer. It must
	// not have begun to answer then.
	serve func(*request) error
	// exempt routes answer also when there are too many open requests.
	exempt bool
}

// routes is the one table: what is not in it does not exist.
var routes = []route{
	{"POST", "/v1/runs", needAny, (*request).start, false},
	{"GET", "/v1/runs", needAny, (*request).list, false},
	{"GET", "/v1/runs/{id}", needAny, (*request).get, false},
	{"POST", "/v1/runs/{id}/heartbeat", needWriter, (*request).beat, false},
	{"POST", "/v1/runs/{id}/log", needWriter, (*request).append, false},
	{"GET", "/v1/runs/{id}/log", needAny, (*request).readLog, false},
	{"PUT", "/v1/runs/{id}/payloads/{name}", needWriter, (*request).putPayload, false},
	{"GET", "/v1/runs/{id}/payloads/{name}", needAny, (*request).getPayload, false},
	{"DELETE", "/v1/runs/{id}/payloads/{name}", needOwner, (*request).deletePayload, false},
	{"POST", "/v1/runs/{id}/tools", needWriter, (*request).claim, false},
	{"POST", "/v1/runs/{id}/tools/{call}/outcome", needWriter, (*request).outcome, false},
	{"POST", "/v1/runs/{id}/tools/{call}/again", needWriter, (*request).again, false},
	{"GET", "/v1/runs/{id}/history", needAny, (*request).history, false},
	{"POST", "/v1/runs/{id}/settle", needWriter, (*request).settle, false},
	{"POST", "/v1/runs/{id}/copy", needAny, (*request).copyRun, false},
	{"POST", "/v1/runs/{id}/attach", needWriter, (*request).attach, false},
	{"POST", "/v1/runs/{id}/cancel", needOwner, (*request).cancel, false},
	{"POST", "/v1/runs/{id}/abort", needWriter, (*request).abort, false},
	{"POST", "/v1/runs/{id}/pause", needWriter, (*request).pause, false},
	{"POST", "/v1/runs/{id}/resume/prepare", needOwner, (*request).prepare, false},
	{"POST", "/v1/runs/{id}/resume/activate", needResume, (*request).activate, false},
	{"POST", "/v1/runs/{id}/resume/fail", needDispatcher, (*request).failDispatch, false},
	{"GET", "/v1/runs/{id}/resume/request", needAny, (*request).resumeRequest, false},
	{"GET", "/v1/resumable", needOwner, (*request).resumable, false},
	{"GET", "/v1/scopes", needOwner, (*request).listScopes, false},
	{"GET", "/v1/scopes/{scope}", needOwner, (*request).getScope, false},
	{"PUT", "/v1/scopes/{scope}", needOwner, (*request).grantScope, false},
	{"DELETE", "/v1/scopes/{scope}", needOwner, (*request).revokeScope, false},
	{"POST", "/v1/runs/{id}/rollback", needWriter, (*request).rollback, false},
	{"POST", "/v1/runs/{id}/pin", needOwner, (*request).pin, false},
	{"GET", "/v1/events", needAny, (*request).events, false},
	{"GET", "/v1/threads", needOwner, (*request).threads, false},
	{"GET", "/v1/threads/{thread}", needOwner, (*request).thread, false},
	{"POST", "/v1/threads/{thread}/messages", needOwner, (*request).post, false},
	{"GET", "/v1/journal/{target}", needOwner, (*request).journal, false},
	{"GET", "/v1/targets", needOwner, (*request).listTargets, false},
	{"GET", "/v1/targets/{target}", needOwner, (*request).getTarget, false},
	{"PUT", "/v1/targets/{target}", needOwner, (*request).enrol, false},
	{"DELETE", "/v1/targets/{target}", needOwner, (*request).disenrol, false},
	{"GET", "/v1/policy", needOwner, (*request).policy, false},
	{"PUT", "/v1/policy", needOwner, (*request).setPolicy, false},
	{"GET", "/v1/outbox", needOwner, (*request).outbox, false},
	{"POST", "/v1/outbox/{id}/retry", needOwner, (*request).retryDelivery, false},
	{"POST", "/v1/outbox/{id}/drop", needOwner, (*request).dropDelivery, false},
	{"POST", "/v1/compact", needOwner, (*request).compact, false},
	{"POST", "/v1/reset", needOwner, (*request).reset, false},
	{"GET", "/v1/status", needOwner, (*request).status, true},
	{"GET", "/v1/openapi.json", needAny, (*request).openapi, true},
	{"GET", "/healthz", needAny, (*request).healthz, true},
	{"GET", "/metrics", needOwner, (*request).metrics, true},
}

// handler is the table as net/http wants it, behind the door.
func (s *Server) handler(kind Socket) http.Handler {
	mux := http.NewServeMux()
	allowed := map[string][]string{}
	for _, rt := range routes {
		mux.Handle(rt.method+" "+rt.pattern, s.door(kind, rt))
		allowed[rt.pattern] = append(allowed[rt.pattern], rt.method)
		if rt.method == "GET" {
			allowed[rt.pattern] = append(allowed[rt.pattern], "HEAD")
		}
	}
	for pattern, methods := range allowed {
		mux.Handle(pattern, s.door(kind, route{need: needAny, serve: notAllowed(methods)}))
	}
	mux.Handle("/", s.door(kind, route{need: needAny, serve: noRoute}))
	return s.checkPath(kind, mux)
}

func noRoute(r *request) error {
	return problem(404, control.CodeNoRoute, "the API has no "+bounded(r.URL.Path, 200)+"; GET /v1/openapi.json lists what there is")
}
