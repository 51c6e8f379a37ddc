package server

import (
	"net/http"

	"durafs/runs"
)

// pin is POST /v1/runs/{id}/pin. Without a body the run is pinned.
func (r *request) pin() error {
	body := struct {
		Pinned bool `json:"pinned"`
	}{true}
	if r.ContentLength != 0 {
		if err := r.envelope(&body); err != nil {
			return err
		}
	}
	ifMatch, err := r.ifMatch()
	if err != nil {
		return err
	}
	a, err := r.s.runs.Pin(r.Context(), r.caller, r.PathValue("id"), runs.PinRequest{Pinned: body.Pinned, IfMatch: ifMatch})
	if err != nil {
		return err
	}
	r.etag(a.ETag)
	return r.answer(http.StatusOK, struct {
		Record   *runs.Record `json:"record"`
		Replayed bool         `json:"replayed,omitempty"`
	}{a.Record, a.Replayed})
}
