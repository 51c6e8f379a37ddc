package server

import (
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"durafs/control"
	"durafs/runs"
)

// TestCancel: the owner cancels a run and what descends from it, the live agent
// hears of it in the answer to its next beat, and its answer ends the run.
func TestCancel(t *testing.T) {
	d := serveStore(t)
	c := d.client()
	parent := d.example(control.StartRequest{})
	child := d.example(control.StartRequest{Parent: parent.id})
	grandchild := d.example(control.StartRequest{Parent: child.id})
	_, tag, err := c.Get(t.Context(), parent.id)
	must(t)(tag, err)

	_, err = c.Cancel(t.Context(), parent.id, control.CancelRequest{IfMatch: `"1-99"`})
	if p := isProblem(t, err, string(runs.RevisionMismatch)); p.ETag != tag {
		t.Errorf("the current ETag is %s, the problem says %s", tag, p.ETag)
	}
	_, err = c.WithWriter(parent.token).Cancel(t.Context(), parent.id, control.CancelRequest{})
	isProblem(t, err, control.CodeNotOwner)

	got, err := c.Cancel(t.Context(), parent.id, control.CancelRequest{Children: true, IfMatch: tag})
	if err != nil || got.Record.Phase != control.PhaseCancelRequested || strings.Join(got.Children, " ") != child.id+" "+grandchild.id {
		t.Fatalf("%+v, %v", got, err)
	}
	_, err = c.Cancel(t.Context(), parent.id, control.CancelRequest{})
	if p := isProblem(t, err, control.CodeCancelled); p.At == nil || !p.At.Equal(got.Record.Cancel.RequestedAt) {
		t.Errorf("cancelled at %v, the problem says %v", got.Record.Cancel.RequestedAt, p.At)
	}

	w := c.WithWriter(child.token)
	_, err = w.Append(t.Context(), child.id, []byte(`{}`), "")
	isProblem(t, err, control.CodeCancelled)
	if b, err := w.Beat(t.Context(), child.id, ""); err != nil || !b.Abort {
		t.Errorf("the beat answers %+v, %v", b, err)
	}
	rec, err := w.Abort(t.Context(), child.id, control.AbortAcknowledged)
	if err != nil || rec.Phase != control.PhaseCancelled || rec.Cancel.Abort != control.AbortAcknowledged {
		t.Errorf("%+v, %v", rec, err)
	}
	_, err = w.Abort(t.Context(), child.id, control.AbortAcknowledged)
	isProblem(t, err, control.CodeFinished)
	_, err = c.Cancel(t.Context(), child.id, control.CancelRequest{})
	isProblem(t, err, control.CodeFinished)

	_, err = c.WithWriter(d.example(control.StartRequest{}).token).Abort(t.Context(), grandchild.id, control.AbortKilled)
	isProblem(t, err, string(runs.WrongToken))
}

// TestAbortUnasked: an agent that nobody has asked cannot end its run so.
func TestAbortUnasked(t *testing.T) {
	d := serveStore(t)
	e := d.example(control.StartRequest{})
	_, err := d.client().WithWriter(e.token).Abort(t.Context(), e.id, control.AbortAcknowledged)
	isProblem(t, err, control.CodeWrongPhase)
}

// TestCancelPaused: nobody has a paused run, and it is over at once.
func TestCancelPaused(t *testing.T) {
	d := serveStore(t)
	e := d.example(control.StartRequest{})
	d.restart()
	got, err := d.client().Cancel(t.Context(), e.id, control.CancelRequest{})
	if err != nil || got.Record.Phase != control.PhaseCancelled || got.Record.Cancel.Abort != control.AbortNoListener {
		t.Errorf("%+v, %v", got, err)
	}
}

// TestResume: a run goes from one agent to another, and each that is not to
// have it is told what to do.
func TestResume(t *testing.T) {
	d := serveStore(t)
	e := d.example(control.StartRequest{ResumeRequest: []byte("go on with this")})
	_, err := d.client().WithWriter(e.token).Claim(t.Context(), e.id, control.ClaimRequest{CallID: "c", Name: "t"})
	must(t)(nil, err)
	d.restart()
	c := d.client()
	_, tag, err := c.Get(t.Context(), e.id)
	must(t)(tag, err)

	a := d.do("POST", "/v1/runs/"+e.id+"/resume/prepare", `{"retry":[1]}`, "Content-Type", typeJSON, "If-Match", tag)
	if a.status != 409 || a.code() != control.CodeAttachWindow || a.p.RetryAfterMS < 40_000 || a.header.Get("Retry-After") != "45" || !a.p.Retryable {
		t.Errorf("too early: %d %s, Retry-After %q", a.status, a.body, a.header.Get("Retry-After"))
	}
	_, err = c.Prepare(t.Context(), e.id, control.PrepareRequest{Force: true, Retry: []uint64{1}})
	isProblem(t, err, string(runs.RevisionMismatch))
	_, err = c.Prepare(t.Context(), e.id, control.PrepareRequest{Force: true, IfMatch: tag})
	if p := isProblem(t, err, control.CodeUnaccounted); p.Call != 1 || p.State != "open" {
		t.Errorf("%+v", p)
	}
	p := d.prepare(e.id, control.PrepareRequest{Force: true, Retry: []uint64{1}})
	_, err = c.Prepare(t.Context(), e.id, control.PrepareRequest{Force: true, IfMatch: tag})
	isProblem(t, err, control.CodeWrongPhase)
	if got := d.resumeRequest(e.id, p.Resume); got != "go on with this" {
		t.Errorf("the resume request is %q", got)
	}
	_, err = c.ResumeRequest(t.Context(), e.id, strings.Repeat("0", 64))
	isProblem(t, err, string(runs.WrongToken))

	r, act, err := c.Resumed(t.Context(), e.id, p.Resume, nil)
	if err != nil || act.ExecutionKey != e.id || len(act.OpenCalls) != 1 || act.Epoch != 2 {
		t.Fatalf("%+v, %v", act, err)
	}
	defer r.Close()
	_, err = c.Activate(t.Context(), e.id, p.Resume, nil)
	isProblem(t, err, control.CodeWrongPhase)
	_, err = c.WithWriter(e.token).Append(t.Context(), e.id, []byte(`{}`), "")
	isProblem(t, err, control.CodeStaleWriter)
	_, err = r.Settle(t.Context(), control.SettleRequest{Status: control.Success})
	must(t)(nil, err)
	if rec, _, _ := c.Get(t.Context(), e.id); rec.LateRows != 1 {
		t.Errorf("%d late rows", rec.LateRows)
	}
}

func (d *realDaemon) resumeRequest(id, token string) string {
	d.t.Helper()
	rd, err := d.client().ResumeRequest(d.t.Context(), id, token)
	if err != nil {
		d.t.Fatal(err)
	}
	defer rd.Close()
	b, err := io.ReadAll(rd)
	if err != nil {
		d.t.Fatal(err)
	}
	return string(b)
}

// TestPermission: a run that waits for a scope is offered when an owner has
// granted exactly that, and not before.
func TestPermission(t *testing.T) {
	d := serveStore(t)
	c := d.client()
	bound := &control.Binding{Provider: "p", Model: "m", Scope: "https://example.com/mail.read"}
	e := d.example(control.StartRequest{Binding: bound})
	w := c.WithWriter(e.token)
	other := *bound
	other.Scope = "mail"
	_, err := w.Pause(t.Context(), e.id, control.PauseRequest{Reason: control.PauseForPermission, Binding: &other})
	isProblem(t, err, string(runs.ScopeMismatch))
	rec, err := w.Pause(t.Context(), e.id, control.PauseRequest{Reason: control.PauseForPermission, Binding: bound, Detail: "may I?"})
	if err != nil || rec.Phase != control.PhasePausedPermission || rec.Pause.Detail != "may I?" {
		t.Fatalf("%+v, %v", rec, err)
	}
	offers := func(want int) {
		t.Helper()
		got, err := c.Resumable(t.Context())
		if err != nil || len(got) != want {
			t.Errorf("%d offers, want %d (%v)", len(got), want, err)
		}
	}
	offers(0)
	for _, s := range []struct {
		scope    string
		replayed bool
		offers   int
	}{{"https://example.com/mail", false, 0}, {bound.Scope, false, 1}, {bound.Scope, true, 1}} {
		if got, err := c.GrantScope(t.Context(), s.scope); err != nil || !got.Granted || got.Replayed != s.replayed {
			t.Errorf("grant %s: %+v, %v", s.scope, got, err)
		}
		offers(s.offers)
	}
	if got, err := c.Scopes(t.Context()); err != nil || len(got) != 2 || got[0].Scope != "https://example.com/mail" || !got[0].Granted {
		t.Errorf("%+v, %v", got, err)
	}
	p := d.prepare(e.id, control.PrepareRequest{})
	if got, err := c.RevokeScope(t.Context(), bound.Scope); err != nil || got.Granted || got.Replayed {
		t.Errorf("revoke: %+v, %v", got, err)
	}
	_, err = c.Activate(t.Context(), e.id, p.Resume, bound)
	isProblem(t, err, string(runs.PermissionMissing))
	must(t)(c.GrantScope(t.Context(), bound.Scope))
	r, _, err := c.Resumed(t.Context(), e.id, d.prepare(e.id, control.PrepareRequest{}).Resume, bound)
	must(t)(r, err)
	r.Close()
}

// TestFailedDispatches: the third dispatch that comes to nothing ends the run.
func TestFailedDispatches(t *testing.T) {
	d := serveStore(t)
	e := d.example(control.StartRequest{})
	d.restart()
	for n, want := range []string{control.PhasePausedInterruption, control.PhasePausedInterruption, control.PhaseTerminal} {
		token := d.prepare(e.id, control.PrepareRequest{Dead: true}).Resume
		if n == 0 {
			token = "" // an owner may too
		}
		rec, err := d.client().FailDispatch(t.Context(), e.id, token, "no such program")
		if err != nil || rec.Phase != want {
			t.Errorf("dispatch %d: %+v, %v", n, rec, err)
		}
	}
	rec, _, err := d.client().Get(t.Context(), e.id)
	if err != nil || rec.Terminal.Status != control.ResumeExhausted {
		t.Errorf("%+v, %v", rec, err)
	}
}

// TestRollbackRefused: what nobody turned away stays.
func TestRollbackRefused(t *testing.T) {
	d := serveStore(t)
	e := d.example(control.StartRequest{})
	err := d.client().WithWriter(e.token).Rollback(t.Context(), e.id)
	isProblem(t, err, string(runs.RollbackRefused))
}

// TestResumeTokenHeader: a resume token that was forgotten does not make an
// owner, and one that is there takes an owner's powers away.
func TestResumeTokenHeader(t *testing.T) {
	d := serveStore(t)
	e := d.example(control.StartRequest{})
	path := "/v1/runs/" + e.id
	if a := d.do("GET", path, "", control.HeaderResume, ""); a.status != http.StatusBadRequest {
		t.Errorf("an empty token: %d %s", a.status, a.body)
	}
	if a := d.do("GET", path, "", control.HeaderResume, "x"); a.status != http.StatusForbidden {
		t.Errorf("any token: %d %s", a.status, a.body)
	}
}

// TestAbortOfRun: the handle of a run that was cancelled says so.
func TestAbortOfRun(t *testing.T) {
	d := serveStore(t)
	lease := int64(100)
	r, err := d.client().Run(t.Context(), control.StartRequest{LeaseMS: &lease})
	must(t)(r, err)
	defer r.Close()
	must(t)(d.client().Cancel(t.Context(), r.ID(), control.CancelRequest{}))
	select {
	case <-r.Abort():
	case <-time.After(10 * time.Second):
		t.Fatal("the handle was not told")
	}
}
