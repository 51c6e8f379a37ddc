package control

import (
	"context"
	"net/http"
)

// Settle ends a run and returns when its outcome is durable. The same outcome
// again answers Replayed, so the request is repeated when the connection
// breaks; another outcome is a problem. It needs a writer token.
func (c *Client) Settle(ctx context.Context, id string, r SettleRequest) (Settled, error) {
	k, err := jsonCall(http.MethodPost, runPath(id, "settle"), r)
	if err != nil {
		return Settled{}, err
	}
	// With a revision, the second request would find the first one's.
	k.repeatable = r.IfMatch == ""
	if r.IfMatch != "" {
		k.header.Set("If-Match", r.IfMatch)
	}
	var s Settled
	h, err := c.answer(ctx, k, &s)
	if err != nil {
		return Settled{}, err
	}
	s.ETag = h.Get("ETag")
	return s, nil
}

// Beat tells that the run's agent is alive. It needs a writer token.
func (c *Client) Beat(ctx context.Context, id, note string) (Beaten, error) {
	k, err := jsonCall(http.MethodPost, runPath(id, "heartbeat"), Beat{Note: note})
	if err != nil {
		return Beaten{}, err
	}
	k.repeatable = true
	var b Beaten
	_, err = c.answer(ctx, k, &b)
	return b, err
}
