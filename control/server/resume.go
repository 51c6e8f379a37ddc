package server

import (
	"net/http"

	"durafs/control"
	"durafs/runs"
)

// pauseBody is control.PauseRequest as it is received.
type pauseBody struct {
	Reason  string        `json:"reason"`
	Binding *runs.Binding `json:"binding"`
	Detail  string        `json:"detail"`
}

// pause is POST /v1/runs/{id}/pause.
func (r *request) pause() error {
	var body pauseBody
	if err := r.envelope(&body); err != nil {
		return err
	}
	rec, tag, err := r.s.runs.Pause(r.Context(), r.caller, r.PathValue("id"),
		runs.PauseRequest{Reason: runs.PauseReason(body.Reason), Binding: body.Binding, Detail: body.Detail})
	return r.record(rec, tag, err)
}

// prepareBody is control.PrepareRequest as it is received.
type prepareBody struct {
	Binding      *runs.Binding `json:"binding"`
	AllowBinding *runs.Binding `json:"allow_binding"`
	Retry        []uint64      `json:"retry"`
	Close        []uint64      `json:"close"`
	Dead         bool          `json:"dead"`
	Force        bool          `json:"force"`
}

// prepare is POST /v1/runs/{id}/resume/prepare.
func (r *request) prepare() error {
	var body prepareBody
	if err := r.envelope(&body); err != nil {
		return err
	}
	ifMatch, err := r.header1("If-Match") // "*" is no decision
	if err != nil {
		return err
	}
	p, err := r.s.runs.Prepare(r.Context(), r.caller, r.PathValue("id"), runs.PrepareRequest{
		IfMatch: ifMatch, Binding: body.Binding, AllowBinding: body.AllowBinding,
		Retry: body.Retry, Close: body.Close, Dead: body.Dead, Force: body.Force,
	})
	if err != nil {
		return err
	}
	r.etag(p.ETag)
	return r.answer(http.StatusOK, struct {
		Record   *runs.Record `json:"record"`
		Epoch    uint64       `json:"epoch"`
		Resume   string       `json:"resume"`
		WithinMS int64        `json:"within_ms"`
	}{p.Record, p.Epoch, p.Token, p.Within.Milliseconds()})
}

// activate is POST /v1/runs/{id}/resume/activate.
func (r *request) activate() error {
	var body struct {
		Binding *runs.Binding `json:"binding"`
	}
	if err := r.envelope(&body); err != nil {
		return err
	}
	a, err := r.s.runs.Activate(r.Context(), r.caller, r.PathValue("id"), runs.ActivateRequest{Binding: body.Binding})
	if err != nil {
		return err
	}
	r.etag(a.ETag)
	return r.answer(http.StatusOK, struct {
		Record       *runs.Record    `json:"record"`
		Epoch        uint64          `json:"epoch"`
		Writer       string          `json:"writer"`
		ExecutionKey string          `json:"execution_key"`
		OpenCalls    []runs.OpenCall `json:"open_calls"`
		HistorySeq   uint64          `json:"history_seq"`
	}{a.Record, a.Epoch, a.Writer, a.ExecutionKey, a.OpenCalls, a.HistorySeq})
}

// failDispatch is POST /v1/runs/{id}/resume/fail.
func (r *request) failDispatch() error {
	var body struct {
		Detail string `json:"detail"`
	}
	if err := r.envelope(&body); err != nil {
		return err
	}
	rec, tag, err := r.s.runs.FailDispatch(r.Context(), r.caller, r.PathValue("id"), runs.FailRequest{Detail: body.Detail})
	return r.record(rec, tag, err)
}

// resumeRequest is GET /v1/runs/{id}/resume/request: bytes of any size.
func (r *request) resumeRequest() error {
	rd, err := r.s.runs.OpenResumeRequest(r.caller, r.PathValue("id"))
	if err != nil {
		return err
	}
	h := r.w.Header()
	h.Set("Content-Type", "application/octet-stream")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Cache-Control", "no-store") // it is private
	return r.serveContent(rd)
}

// resumable is GET /v1/resumable?after=.
func (r *request) resumable() error {
	q := r.query([]string{"after"})
	if q.err != nil {
		return q.err
	}
	page, err := r.s.runs.Resumable(r.caller, q.str("after"))
	if err != nil {
		return err
	}
	return r.answer(http.StatusOK, page)
}

// needsResume is the problem of a request without a resume token.
func needsResume() error {
	return problem(http.StatusUnauthorized, control.CodeResumeNeeded, "send the resume token, which the run's prepare answered, in the header "+control.HeaderResume)
}
