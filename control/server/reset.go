package server

import (
	"context"
	"net/http"
	"time"
)

// ResetRequest asks to empty the store. Store is its uuid, so that a request
// that is meant for a former store does not empty its successor. Force does so
// while runs are active.
type ResetRequest struct {
	Store string
	Force bool
}

// ResetDone tells of a reset: the uuid and boot of the store that is there now,
// how many runs the former one had, how many of them were active, and the LSN
// that the log goes on behind.
type ResetDone struct {
	Store  string `json:"store_id"`
	Former string `json:"former"`
	BootID string `json:"boot_id"`
	Runs   int    `json:"runs"`
	Active int    `json:"active"`
	LSN    uint64 `json:"lsn"`
}

// reset is POST /v1/reset.
func (r *request) reset() error {
	if r.s.opt.Reset == nil {
		return noRoute(r)
	}
	var body struct {
		Store string `json:"store"`
		Force bool   `json:"force"`
	}
	if err := r.envelope(&body); err != nil {
		return err
	}
	done, err := r.s.opt.Reset(r.Context(), r.caller, ResetRequest(body))
	if err != nil {
		return err
	}
	r.w.Header().Set("Connection", "close")
	return r.answer(http.StatusOK, done)
}

// AwaitOpen waits until at most n requests are open, or ctx ends.
func (s *Server) AwaitOpen(ctx context.Context, n int64) {
	look := time.NewTicker(5 * time.Millisecond)
	defer look.Stop()
	for s.stats.open.Load() > n {
		select {
		case <-look.C:
		case <-ctx.Done():
			return
		}
	}
}
