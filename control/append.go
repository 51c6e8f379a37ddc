package control

import (
	"context"
	"net/http"
	"net/url"
)

// Append appends one row, a JSON object in the agent's own bytes, and returns
// when it is durable. key names the row's field that holds its idempotency
// key, "" for none; with a key the request is repeated when the connection
// breaks, without one that is ErrOutcomeUnknown. It needs a writer token.
func (c *Client) Append(ctx context.Context, id string, row []byte, key string) (Appended, error) {
	k := bytesCall(http.MethodPost, runPath(id, "log"), TypeJSON, row)
	k.query = keyQuery(key)
	k.repeatable = key != ""
	var a Appended
	_, err := c.answer(ctx, k, &a)
	return a, err
}

func keyQuery(key string) url.Values {
	if key == "" {
		return nil
	}
	return url.Values{"key": {key}}
}
