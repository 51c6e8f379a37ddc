package control

import (
	"context"
	"errors"
	"time"
)

// beatInterval is how often to beat for a lease: several times within it, so
// that one lost beat does no harm. A run without a lease needs none.
func beatInterval(leaseMS int64) time.Duration {
	if leaseMS <= 0 {
		return 0
	}
	third := time.Duration(leaseMS) * time.Millisecond / 3
	return max(min(beatEvery, third), 10*time.Millisecond)
}

// beats is the handle's one goroutine. It ends with ctx, or when there is
// nothing left to beat for.
func (r *Run) beats(ctx context.Context, every time.Duration) {
	defer close(r.done)
	if every == 0 {
		return
	}
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		if r.beatOnce(ctx) != nil {
			return
		}
	}
}

// beatOnce beats, and attaches if that is what the daemon wants. It fails only
// when no later beat can succeed.
func (r *Run) beatOnce(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, beatTimeout)
	defer cancel()
	b, err := r.c.Beat(ctx, r.id, "")
	if Code(err) == CodeAttachRequired {
		err = r.attach(ctx, r.Attached())
	}
	if err == nil {
		r.beaten(b)
		return nil
	}
	r.heard(ctx, err)
	return r.lose(err)
}

func (r *Run) beaten(b Beaten) {
	r.note(b.Record)
	if b.Abort {
		r.abort()
	}
}

// heard finds out whether err comes of the owner's cancelling the run.
func (r *Run) heard(ctx context.Context, err error) {
	switch Code(err) {
	case CodeCancelled:
		r.abort()
	case CodeFinished:
		rec, _, err := r.c.Get(ctx, r.id)
		if err != nil {
			return
		}
		r.note(rec)
		if rec.Phase == PhaseCancelled {
			r.abort()
		}
	}
}

// lose remembers err where it means that this handle has no run any more.
func (r *Run) lose(err error) error {
	var p *Problem
	if !errors.As(err, &p) || p.Retryable || p.Status >= 500 || p.Code == CodeAttachRequired {
		return nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.mu.lost == nil {
		r.mu.lost = err
	}
	return err
}

// steady carries op out across restarts of the daemon: it attaches where that
// is asked for, and waits for a daemon that is away. What has an unknown
// outcome is not repeated here.
func (r *Run) steady(ctx context.Context, op func(context.Context) error) error {
	var wait backoff
	var away context.Context // how long it may stay away, from when it was seen to be
	for {
		seen := r.Attached()
		err := op(ctx)
		if Code(err) == CodeAttachRequired {
			if err = r.attach(ctx, seen); err == nil {
				continue
			}
		}
		if err == nil || ctx.Err() != nil || !isAway(err) {
			return err
		}
		if away == nil {
			var cancel context.CancelFunc
			away, cancel = context.WithTimeout(ctx, r.c.patience())
			defer cancel()
		}
		if wait.sleep(away, err) != nil {
			return err
		}
	}
}
