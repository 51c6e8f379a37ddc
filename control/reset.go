package control

import (
	"context"
	"net/http"
)

// ResetRequest asks to empty a store. Store is its uuid, as the status tells it:
// a request that is meant for a former store does not empty its successor. Force
// does so while runs are active.
type ResetRequest struct {
	Store string `json:"store"`
	Force bool   `json:"force,omitempty"`
}

// ResetDone tells of a reset: which store there is now, how many runs the former
// one had, how many of them were active, and the LSN that the log goes on
// behind.
type ResetDone struct {
	Store  string `json:"store_id"`
	Former string `json:"former"`
	BootID string `json:"boot_id"`
	Runs   int    `json:"runs"`
	Active int    `json:"active"`
	LSN    uint64 `json:"lsn"`
}

// Reset empties the store, and returns when the next one is served. It needs an
// owner.
func (c *Client) Reset(ctx context.Context, r ResetRequest) (ResetDone, error) {
	var done ResetDone
	k, err := jsonCall(http.MethodPost, "/v1/reset", r)
	if err == nil {
		_, err = c.answer(ctx, k, &done)
	}
	return done, err
}
