package server

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"

	"durafs/control"
	"durafs/runs"
)

// claimBody is control.ClaimRequest as it is received. Whatever the safety is,
// the domain makes something of it.
type claimBody struct {
	CallID      string          `json:"call_id"`
	Name        string          `json:"name"`
	Safety      json.RawMessage `json:"safety"`
	Args        json.RawMessage `json:"args"`
	ArgsPayload string          `json:"args_payload"`
}

// claim is POST /v1/runs/{id}/tools.
func (r *request) claim() error {
	b, err := r.envelopeBytes()
	if err != nil {
		return err
	}
	var body claimBody
	if p := decode(b, &body); p != nil {
		return p
	}
	q := runs.ClaimRequest{
		CallID: body.CallID, Name: body.Name, Safety: body.Safety, Args: body.Args, ArgsPayload: body.ArgsPayload,
		BodyHash: sha256.Sum256(b),
	}
	if q.IdempotencyKey, err = r.header1(control.HeaderIdempotencyKey); err != nil {
		return err
	}
	c, err := r.s.runs.Claim(r.Context(), r.caller, r.PathValue("id"), q)
	if err != nil {
		return err
	}
	return r.claimed(c)
}

func (r *request) claimed(c runs.Claimed) error {
	if c.Replayed {
		return r.answer(http.StatusOK, c)
	}
	return r.answer(http.StatusCreated, c)
}

// again is POST /v1/runs/{id}/tools/{call}/again.
func (r *request) again() error {
	call, err := r.callNumber()
	if err != nil {
		return err
	}
	b, err := r.envelopeBytes()
	if err != nil {
		return err
	}
	if p := decode(b, &struct{}{}); p != nil {
		return p
	}
	q := runs.AgainRequest{Call: call, BodyHash: sha256.Sum256(b)}
	if q.IdempotencyKey, err = r.header1(control.HeaderIdempotencyKey); err != nil {
		return err
	}
	c, err := r.s.runs.Again(r.Context(), r.caller, r.PathValue("id"), q)
	if err != nil {
		return err
	}
	return r.claimed(c)
}

// callNumber is the call that the path names.
func (r *request) callNumber() (uint64, error) {
	s := r.PathValue("call")
	n, err := strconv.ParseUint(s, 10, 64)
	if err != nil || n == 0 || strconv.FormatUint(n, 10) != s {
		p := problem(http.StatusBadRequest, control.CodeBadPath, fmt.Sprintf("%q is no number of a call", bounded(s, 100)))
		p.Field = "call"
		return 0, p
	}
	return n, nil
}
