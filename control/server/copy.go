package server

import (
	"crypto/sha256"

	"durafs/control"
	"durafs/projection"
	"durafs/runs"
)

// copyRun is POST /v1/runs/{id}/copy.
func (r *request) copyRun() error {
	b, err := r.envelopeBytes()
	if err != nil {
		return err
	}
	var body struct {
		startBody
		Kind string `json:"kind"`
		Call uint64 `json:"call"`
	}
	if p := decode(b, &body); p != nil {
		return p
	}
	q, err := body.request()
	if err != nil {
		return err
	}
	if q.IdempotencyKey, err = r.header1(control.HeaderIdempotencyKey); err != nil {
		return err
	}
	q.BodyHash = sha256.Sum256(b)
	s, err := r.s.runs.Copy(r.Context(), r.caller, r.PathValue("id"), runs.CopyRequest{
		StartRequest: q, Kind: projection.CopyKind(body.Kind), Call: body.Call,
	})
	if err != nil {
		return err
	}
	return r.answerStarted(s)
}
