package control

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
)

// Status reads the daemon's own account of itself, as it is.
func (c *Client) Status(ctx context.Context) (json.RawMessage, error) {
	var raw json.RawMessage
	_, err := c.answer(ctx, &call{method: http.MethodGet, path: "/v1/status", repeatable: true}, &raw)
	return raw, err
}

// Health asks whether the daemon is well. A daemon that answers but is
// degraded is no error: Health says so and why.
func (c *Client) Health(ctx context.Context) (Health, error) {
	var h Health
	_, err := c.answer(ctx, &call{method: http.MethodGet, path: "/healthz"}, &h)
	var p *Problem
	if errors.As(err, &p) && p.Code == CodeDegraded {
		return Health{Reason: p.Detail}, nil
	}
	return h, err
}

// OpenAPI reads the API's description.
func (c *Client) OpenAPI(ctx context.Context) ([]byte, error) {
	resp, err := c.do(ctx, &call{method: http.MethodGet, path: "/v1/openapi.json", repeatable: true})
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	return io.ReadAll(io.LimitReader(resp.Body, answerBytesMax))
}
