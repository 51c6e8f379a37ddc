package control

import "context"

// attach takes the run back, unless another goroutine has done so since the
// handle had been attached seen times.
func (r *Run) attach(ctx context.Context, seen uint64) error {
	r.attaching.Lock()
	defer r.attaching.Unlock()
	if r.Attached() > seen {
		return nil
	}
	rec, _, err := r.c.Get(ctx, r.id)
	if err != nil {
		return err
	}
	s, err := r.c.Attach(ctx, r.id, AttachRequest{Calls: r.account(rec.OpenCalls)})
	if Code(err) == CodeWrongPhase {
		// An attach whose answer was lost has taken the run back already.
		var b Beaten
		b, err = r.c.Beat(ctx, r.id, "")
		s.Record = b.Record
	}
	if err != nil {
		return err
	}
	r.note(s.Record)
	r.mu.Lock()
	r.mu.attached++
	r.mu.Unlock()
	return nil
}

// account says of each open call what this handle knows: whether its tool runs.
// Of a call that it does not know it says nothing, and the daemon refuses the
// attach: somebody else with the same token claimed it.
func (r *Run) account(open []OpenCall) map[uint64]string {
	r.mu.Lock()
	defer r.mu.Unlock()
	calls := map[uint64]string{}
	for _, o := range open {
		k := r.mu.calls[o.CallID]
		switch {
		case k != nil && k.state.runs():
			calls[o.Call] = "running"
		case k != nil || r.mu.inherited[o.Call]:
			calls[o.Call] = "ended"
		}
	}
	return calls
}
