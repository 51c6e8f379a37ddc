package server

import (
	"net/http"

	"durafs/control"
	"durafs/runs"
)

// cancel is POST /v1/runs/{id}/cancel. A body may be left out.
func (r *request) cancel() error {
	var body struct {
		Children bool `json:"children"`
	}
	if r.ContentLength != 0 {
		if err := r.envelope(&body); err != nil {
			return err
		}
	}
	ifMatch, err := r.ifMatch()
	if err != nil {
		return err
	}
	a, err := r.s.runs.Cancel(r.Context(), r.caller, r.PathValue("id"), runs.CancelRequest{IfMatch: ifMatch, Children: body.Children})
	if err != nil {
		return err
	}
	r.etag(a.ETag)
	return r.answer(http.StatusOK, struct {
		Record       *runs.Record        `json:"record"`
		Children     []string            `json:"children,omitempty"`
		NotCancelled []runs.NotCancelled `json:"not_cancelled,omitempty"`
	}{a.Record, a.Children, a.NotCancelled})
}

// ifMatch is the condition of a request, "" for none.
func (r *request) ifMatch() (string, error) {
	tag, err := r.header1("If-Match")
	if tag == "*" { // any that exists
		tag = ""
	}
	return tag, err
}

// abort is POST /v1/runs/{id}/abort: the agent's answer to a cancel.
func (r *request) abort() error {
	var body control.Abort
	if err := r.envelope(&body); err != nil {
		return err
	}
	rec, tag, err := r.s.runs.AckAbort(r.Context(), r.caller, r.PathValue("id"), body.How)
	return r.record(rec, tag, err)
}

// record answers with a record alone.
func (r *request) record(rec *runs.Record, tag string, err error) error {
	if err != nil {
		return err
	}
	r.etag(tag)
	return r.answer(http.StatusOK, struct {
		Record *runs.Record `json:"record"`
	}{rec})
}

// rollback is POST /v1/runs/{id}/rollback. There is nothing left to answer with.
func (r *request) rollback() error {
	if r.ContentLength != 0 {
		if err := r.envelope(&struct{}{}); err != nil {
			return err
		}
	}
	if err := r.s.runs.Rollback(r.Context(), r.caller, r.PathValue("id")); err != nil {
		return err
	}
	return r.answer(http.StatusOK, control.RolledBack{Removed: r.PathValue("id")})
}
