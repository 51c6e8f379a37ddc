package server

import "net/http"

// deletePayload is DELETE /v1/runs/{id}/payloads/{name}.
func (r *request) deletePayload() error {
	d, err := r.s.runs.DeletePayload(r.Context(), r.caller, r.PathValue("id"), r.PathValue("name"))
	if err != nil {
		return err
	}
	return r.answer(http.StatusOK, d)
}
