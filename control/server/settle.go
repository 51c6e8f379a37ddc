package server

import (
	"bytes"
	"io"
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
		if err := r.terminal(body.Payload, &q); err != nil {
			return err
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

// terminal opens the final answer for reading.
func (r *request) terminal(t *terminalBody, q *runs.SettleRequest) error {
	q.ContentType = t.ContentType
	switch {
	case t.Bytes != nil && t.Text == nil && t.Name == nil:
		q.Payload = bytes.NewReader(*t.Bytes)
	case t.Text != nil && t.Bytes == nil && t.Name == nil:
		q.Payload = strings.NewReader(*t.Text)
	case t.Name != nil && t.Bytes == nil && t.Text == nil:
		return r.named(*t.Name, q)
	default:
		p := problem(http.StatusBadRequest, control.CodeBadField, "a payload has exactly one of b64, text and name")
		p.Field = "payload"
		return p
	}
	return nil
}

// named takes a payload that was put before as the final answer.
func (r *request) named(name string, q *runs.SettleRequest) error {
	ref, err := r.s.runs.Look(r.caller, r.PathValue("id"))
	if err != nil {
		return err
	}
	info, err := r.s.runs.PayloadInfo(ref, name)
	if err != nil {
		return err
	}
	rd, err := r.s.runs.OpenPayload(ref, name)
	if err != nil {
		return err
	}
	if q.ContentType == "" {
		q.ContentType = info.ContentType
	}
	q.Payload = io.NewSectionReader(rd, 0, rd.Size())
	return nil
}
