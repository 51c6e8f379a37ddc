package cas

import (
	"context"
	"sync"
)

// holds counts those who are about to refer to something: from before a put may
// find a chunk that is there already, until the log has the reference or never
// will. A sweep waits for those who began before it had frozen its victims: they
// may have found something there. Those who began later have not, and nobody
// waits for them.
type holds struct {
	mu    sync.Mutex
	epoch int    // which of the two counts who begins now is in
	count [2]int // those who have begun and not ended
	empty chan struct{}
}

// Hold keeps what a put finds from being swept until release is called, once.
// Whoever writes a reference into the log holds from before its Put until the log
// has accepted the batch, or refused it.
func (s *Store) Hold() (release func()) {
	h := &s.holds
	h.mu.Lock()
	defer h.mu.Unlock()
	epoch := h.epoch
	h.count[epoch]++
	return func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		if h.count[epoch]--; h.count[epoch] == 0 && h.empty != nil {
			close(h.empty)
			h.empty = nil
		}
	}
}

// drain returns when all have ended who had begun when it was called. One at a
// time may drain.
func (h *holds) drain(ctx context.Context) error {
	h.mu.Lock()
	former := 1 - h.epoch // not empty if a drain before was given up
	h.mu.Unlock()
	if err := h.wait(ctx, former); err != nil {
		return err
	}
	h.mu.Lock()
	h.epoch = former
	h.mu.Unlock()
	return h.wait(ctx, 1-former)
}

// wait waits until nobody is left in an epoch in which nobody begins any more.
func (h *holds) wait(ctx context.Context, epoch int) error {
	for {
		h.mu.Lock()
		if h.count[epoch] == 0 {
			h.mu.Unlock()
			return nil
		}
		if h.empty == nil {
			h.empty = make(chan struct{})
		}
		empty := h.empty
		h.mu.Unlock()
		select {
		case <-empty:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}
