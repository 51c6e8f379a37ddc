package server

import (
	"crypto/sha256"
	"encoding/json"
	"math"
	"net/http"

	"durafs/control"
	"durafs/runs"
)

// threads is GET /v1/threads?after=&limit=: by name, with a cursor.
func (r *request) threads() error {
	q := r.query([]string{"after", "limit"})
	after, limit := q.str("after"), int(q.num("limit", runs.ThreadsPageMax))
	if q.err != nil {
		return q.err
	}
	list, more, err := r.s.runs.Threads(r.caller, after, limit)
	if err != nil {
		return err
	}
	next := ""
	if more && len(list) > 0 {
		next = list[len(list)-1].Thread
	}
	return r.answer(http.StatusOK, struct {
		Threads []runs.ThreadInfo `json:"threads"`
		Next    string            `json:"next,omitempty"`
	}{list, next})
}

// thread is GET /v1/threads/{thread}?before=&limit=: its newest messages, or
// those before an LSN.
func (r *request) thread() error {
	q := r.query([]string{"before", "limit"})
	before, limit := q.num("before", math.MaxUint64), int(q.num("limit", runs.ThreadPageMax))
	if q.err != nil {
		return q.err
	}
	page, err := r.s.runs.Thread(r.caller, r.PathValue("thread"), before, limit)
	if err != nil {
		return err
	}
	return r.answer(http.StatusOK, page)
}

// post is POST /v1/threads/{thread}/messages: a user's turn. Answers come from
// runs alone.
func (r *request) post() error {
	b, err := r.envelopeBytes()
	if err != nil {
		return err
	}
	var body struct {
		Message json.RawMessage `json:"message"`
	}
	if p := decode(b, &body); p != nil {
		return p
	}
	q := runs.PostRequest{Message: body.Message, BodyHash: sha256.Sum256(b)}
	if q.IdempotencyKey, err = r.header1(control.HeaderIdempotencyKey); err != nil {
		return err
	}
	posted, err := r.s.runs.Post(r.Context(), r.caller, r.PathValue("thread"), q)
	if err != nil {
		return err
	}
	if posted.Replayed {
		return r.answer(http.StatusOK, posted)
	}
	return r.answer(http.StatusCreated, posted)
}
