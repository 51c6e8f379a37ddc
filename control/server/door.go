package server

import (
	"fmt"
	"io"
	"net/http"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"durafs/control"
)

// door is the middleware: it lets a request through to its route, or says why
// not.
func (s *Server) door(kind Socket, rt route) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header()[control.HeaderAPI] = apiHeader
		defer s.stats.open.Add(-1)
		open := s.stats.open.Add(1)
		req := &request{Request: r, s: s, w: w, ctl: http.NewResponseController(w)}
		defer func() { s.large.give(req.held) }()
		defer req.leave()
		defer req.recover()
		err := req.admit(kind, rt, open)
		if err == nil {
			err = rt.serve(req)
		}
		s.stats.requests.Add(1)
		if err != nil {
			req.fail(err)
		}
	})
}

// What of a body that was refused is read and dropped, at most.
const (
	lingerBytesMax = 64 << 20
	lingerTimeMax  = 5 * time.Second
	lingerTimeDown = time.Second // when the daemon goes down
)

// leave sees to a body that the handler did not read to its end. A client that
// sends first and reads then would find a broken connection in place of its
// answer, so the answer goes out and the rest is dropped, within bounds of
// size and time; then the connection is closed.
func (r *request) leave() {
	if r.ContentLength == 0 || r.over {
		return
	}
	r.senderMayTake(min(lingerTimeMax, r.s.limits.SendIdle))
	if r.failed && !r.s.isClosing() && r.ctl.Flush() == nil {
		io.Copy(io.Discard, io.LimitReader(r.Body, lingerBytesMax))
	}
}

var apiHeader = []string{control.APIVersion}

// admit decides whether a request may take a route.
func (r *request) admit(kind Socket, rt route, open int64) error {
	c, known := r.s.caller(r.Request, kind)
	r.caller = c
	switch {
	case r.overLimit():
		r.w.Header().Set("Connection", "close")
		p := problem(503, control.CodeTooManyRequests, "this socket has as many connections as it takes")
		p.Limit, p.Retryable = int64(r.s.limits.ConnectionsMax), true
		return p
	case open > int64(r.s.limits.RequestsMax) && !rt.exempt:
		p := problem(503, control.CodeTooManyRequests, "as many requests are open as the daemon takes")
		p.Limit, p.Retryable = int64(r.s.limits.RequestsMax), true
		return p
	case r.s.isClosing() && !rt.exempt:
		p := problem(503, control.CodeShuttingDown, "the daemon is going down; it may be back soon")
		p.Retryable = true
		return p
	case !known:
		return problem(403, control.CodeNotOwner, "the kernel does not tell who is at the other end of this connection")
	case r.badToken(control.HeaderWriter):
		return badToken(control.HeaderWriter)
	case r.badToken(control.HeaderResume):
		return badToken(control.HeaderResume)
	case rt.need == needOwner && !c.Owner:
		return problem(403, control.CodeNotOwner, "this is the owner's: the daemon's own user or root, on control.sock, without a token of a run")
	case rt.need == needResume && c.Resume == "", rt.need == needDispatcher && c.Resume == "" && !c.Owner:
		return needsResume()
	case rt.need == needWriter && c.Writer == "":
		return problem(401, control.CodeWriterNeeded, "send the run's writer token, which its start answered, in the header "+control.HeaderWriter)
	}
	return nil
}

// badToken finds an empty token, which is a variable that was not set rather
// than the wish to act as an owner, and several.
func (r *request) badToken(header string) bool {
	v := r.Header[header]
	return len(v) > 1 || len(v) == 1 && v[0] == ""
}

func badToken(header string) error {
	p := problem(400, control.CodeBadHeader, "the header "+header+" is there once, with a token in it, or not at all")
	p.Field = header
	return p
}

func (r *request) overLimit() bool {
	p, _ := r.Context().Value(peerKey{}).(*peer)
	return p != nil && p.over
}

// checkPath refuses what the mux would redirect to another path: a client
// that asks for the run ".." means no other run.
func (s *Server) checkPath(kind Socket, mux http.Handler) http.Handler {
	bad := s.door(kind, route{need: needAny, serve: func(r *request) error {
		return problem(400, control.CodeBadPath, fmt.Sprintf("a part of the path %q is empty, %q or %q", bounded(r.URL.Path, 200), ".", ".."))
	}})
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !cleanPath(r.URL.EscapedPath()) {
			bad.ServeHTTP(w, r)
			return
		}
		mux.ServeHTTP(w, r)
	})
}

// cleanPath looks at a path as it was sent: a slash that is written %2F belongs
// to a name, unless that would climb.
func cleanPath(p string) bool {
	if p == "" || p[0] != '/' {
		return p == "*" // OPTIONS *; the table has no such route
	}
	if p == "/" {
		return true
	}
	return !strings.Contains(p, "//") && !strings.HasSuffix(p, "/") &&
		!slices.ContainsFunc(strings.Split(spelled.Replace(p[1:]), "/"), func(s string) bool { return s == "." || s == ".." })
}

// spelled undoes the spellings of dots and slashes.
var spelled = strings.NewReplacer("%2e", ".", "%2E", ".", "%2f", "/", "%2F", "/")

// notAllowed answers methods that a path does not have.
func notAllowed(methods []string) func(*request) error {
	slices.Sort(methods)
	allow := strings.Join(methods, ", ")
	return func(r *request) error {
		r.w.Header().Set("Allow", allow)
		return problem(405, control.CodeMethod, fmt.Sprintf("%s takes %s", bounded(r.URL.Path, 200), allow))
	}
}

// recover turns a panic of a handler into an answer of 500: one bad request
// must not end the daemon that holds everybody's runs. http.ErrAbortHandler is
// how a handler cuts its connection on purpose.
func (r *request) recover() {
	v := recover()
	if v == nil {
		return
	}
	if v == http.ErrAbortHandler {
		panic(v)
	}
	r.panicked(v)
	if r.began {
		panic(http.ErrAbortHandler) // a connection that is cut says that the answer is not whole
	}
	code := control.CodeOutcomeUnknown
	if r.Method == http.MethodGet || r.Method == http.MethodHead {
		code = control.CodeInternal
	}
	r.w.Header().Set("Connection", "close")
	r.fail(problem(500, code, "the daemon failed at this request; its log has the reason"))
}

func (r *request) panicked(v any) {
	r.s.stats.panics.Add(1)
	r.s.log.Error("handler panicked", "method", r.Method, "path", r.URL.Path, "panic", fmt.Sprint(v), "stack", string(debug.Stack()))
}
