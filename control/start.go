package control

import (
	"context"
	"crypto/rand"
	"net/http"
)

// Start admits a run. When it returns, the run is durable and its agent may
// begin. Where r has no idempotency key, Start makes one up, so that a broken
// connection does not leave two runs behind.
func (c *Client) Start(ctx context.Context, r StartRequest) (Started, error) {
	return c.begin(ctx, "/v1/runs", r, r.IdempotencyKey)
}

// begin asks for a new run; key may be "".
func (c *Client) begin(ctx context.Context, path string, r any, key string) (Started, error) {
	k, err := jsonCall(http.MethodPost, path, r)
	if err != nil {
		return Started{}, err
	}
	if key == "" {
		key = rand.Text()
	}
	k.header.Set(HeaderIdempotencyKey, key)
	k.repeatable = true
	var s Started
	h, err := c.answer(ctx, k, &s)
	if err != nil {
		return Started{}, err
	}
	s.ETag = h.Get("ETag")
	return s, nil
}

// Attach takes a run back after the daemon was restarted, or after the run was
// silent for longer than its lease: its agent, this caller, was not lost. It
// needs the current writer token.
func (c *Client) Attach(ctx context.Context, id string, r AttachRequest) (Started, error) {
	k, err := jsonCall(http.MethodPost, runPath(id, "attach"), r)
	if err != nil {
		return Started{}, err
	}
	k.repeatable = true // a second attach says that there is nothing to attach
	var s Started
	h, err := c.answer(ctx, k, &s)
	if err != nil {
		return Started{}, err
	}
	s.ETag = h.Get("ETag")
	return s, nil
}
