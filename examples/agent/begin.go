package main

import (
	"context"
	"fmt"
	"time"

	"durafs/control"
)

// pollEvery is how often a run is looked at whose agent is dead and whose lease
// has not ended.
const pollEvery = 50 * time.Millisecond

// begin starts the run, or takes it up where an earlier agent left it. The
// handle is nil where the run has ended.
func begin(ctx context.Context, c *control.Client, id string, lease time.Duration) (*control.Run, error) {
	for {
		rec, etag, err := c.Get(ctx, id)
		step()
		if control.Code(err) == "unknown-run" {
			ms := lease.Milliseconds()
			return c.Run(ctx, control.StartRequest{
				ID: id, Task: "report on the files of a directory", LeaseMS: &ms,
				ResumeRequest:  []byte(`{"program":"agent"}`),
				IdempotencyKey: "agent-" + id, // the same again is the same run
			})
		}
		if err != nil {
			return nil, err
		}
		switch rec.Phase {
		case control.PhaseTerminal, control.PhaseCancelled:
			return nil, nil
		case control.PhasePausedInterruption:
			return resume(ctx, c, id, etag)
		case control.PhaseResumeDispatching: // an agent died on its way to it
			_, err = c.FailDispatch(ctx, id, "", "the agent died")
		case control.PhaseRunning, control.PhaseSettling: // until it counts as lost
			err = pause(ctx, pollEvery)
		default:
			err = fmt.Errorf("the run is %s: its owner decides (durafs show %s)", rec.Phase, id)
		}
		if err != nil {
			return nil, err
		}
	}
}

// resume takes up a run whose agent was lost: as its owner it prepares the run,
// which fences the lost agent out, and as its new agent it activates it.
func resume(ctx context.Context, c *control.Client, id, etag string) (*control.Run, error) {
	p, err := c.Prepare(ctx, id, control.PrepareRequest{IfMatch: etag, Dead: true})
	step()
	if err != nil {
		return nil, err
	}
	r, _, err := c.Resumed(ctx, id, p.Resume, nil)
	step()
	return r, err
}

func pause(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
