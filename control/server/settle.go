package server

import (
	"bytes"
	"net/http"
	"strings"

	"durafs/control"
	"durafs/runs"
)

// settleBody is control.SettleRequest as it is received.
type settleBody struct {
	Status  string        `json:"status"`
	Summary string        `json:"summary"`
	Result  string        `json:"result"`
	Payload *terminalBody `json:"payload"`
}

// terminalBody is a final answer in one of three forms.
type terminalBody struct {
	Bytes       *[]byte `json:"b64"`
	Text        *string `json:"text"`
	Name        *string `json:"name"`
	ContentType string  `json:"content_type"`
}

// settle is POST /v1/runs/{id}/settle.
func (r *request) settle() error {
	var body settleBody
	if err := r.envelope(&body); err != nil {
		return err
	}
	ifMatch, err := r.header1("If-Match")
	if err != nil {
		return err
	}
	q := runs.SettleRequest{Status: runs.Status(body.Status), Summary: body.Summary, Result: body.Result, IfMatch: ifMatch}
	if ifMatch == "*" {
		q.IfMatch = "" // any that exists
	}
	if body.Payload != nil {
		if p := body.Payload.into(&q); p != nil {
			return p
		}
	}
	s, err := r.s.runs.Settle(r.Context(), r.caller, r.PathValue("id"), q)
	if err != nil {
		return err
	}
	r.etag(s.ETag)
	return r.answer(http.StatusOK, struct {
		Record   *runs.Record `json:"record"`
		Replayed bool         `json:"replayed,omitempty"`
	}{s.Record, s.Replayed})
}

// into puts the final answer into q.
func (t *terminalBody) into(q *runs.SettleRequest) *control.Problem {
	q.ContentType = t.ContentType
	switch {
	case t.Bytes != nil && t.Text == nil && t.Name == nil:
		q.Payload = bytes.NewReader(*t.Bytes)
	case t.Text != nil && t.Bytes == nil && t.Name == nil:
		q.Payload = strings.NewReader(*t.Text)
	case t.Name != nil && *t.Name != "" && t.Bytes == nil && t.Text == nil:
		q.PayloadName = *t.Name
	default:
		p := problem(http.StatusBadRequest, control.CodeBadField, "a payload has exactly one of b64, text and name")
		p.Field = "payload"
		return p
	}
	return nil
}
