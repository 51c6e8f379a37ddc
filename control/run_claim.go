package control

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net/http"
)

// How well a tool stands being run twice. Whatever else is declared counts as
// Unknown.
const (
	ReadOnly   = "read-only"
	Idempotent = "idempotent" // with the idempotency key that a claim answers
	Mutating   = "mutating"
	Unknown    = "unknown"
)

// ErrOwnerDecides is matched by the error of a call that was open when its
// agent was lost, and whose tool must not run twice: whether its effect has
// happened nobody here knows. The owner decides, when the run is prepared for a
// resume: it may run again, or is closed as unknown.
var ErrOwnerDecides = errors.New("the owner decides whether the tool runs again")

// ErrUnsettled is matched by the error of a claim on a run that has a call
// whose tool ran and whose outcome could not be recorded. Nothing more is
// claimed until it is, or the run is over.
var ErrUnsettled = errors.New("the outcome of an earlier call is not recorded")

// ToolCall says which tool is to run, and with what.
type ToolCall struct {
	// ID is the agent's own label of the call, unique in the run for ever: the
	// same call has the same label when the agent was resumed.
	ID   string
	Name string // 1 to 128 of A-Z a-z 0-9 _ . -
	// Args are the arguments: a value that marshals to JSON, or a
	// json.RawMessage; nil for none. ArgsPayload names the payload of the run
	// that holds them where they are larger than 256 KiB.
	Args        any
	ArgsPayload string
}

// Call is a call that this handle has claimed: its tool may run, once, and then
// Settle says what became of it. Claimed.Key is the idempotency key to give to
// whatever has the effect: the same whenever this call runs, also when the
// agent was lost and resumed in between.
type Call struct {
	Claimed
	ID   string
	Name string

	r   *Run
	key string // of the request that claims, so that it can be repeated

	// r.mu guards what follows.
	state   callState
	outcome *callOutcome // once there is one
}

// callState is how far a call has come in this process.
type callState uint8

const (
	callClaiming callState = iota // a request is under way
	// callAbandoned: nobody knows whether it was claimed; the tool never ran.
	callAbandoned
	callRunning
	callEnded   // its outcome is on its way
	callStopped // its outcome could not be recorded
)

// runs reports whether the tool runs, or is about to.
func (s callState) runs() bool { return s == callClaiming || s == callRunning }

// Claim records a call before its effect. Unless it succeeds the tool must not
// run. A call that was open when an earlier agent was lost is run again if its
// class allows that, or the owner; else the error matches ErrOwnerDecides. A
// call that has ended is a *Problem with what is committed.
func (r *Run) Claim(ctx context.Context, call ToolCall, safety string) (*Call, error) {
	if err := r.bringOutcomes(ctx); err != nil {
		return nil, err
	}
	q := ClaimRequest{CallID: call.ID, Name: call.Name, Safety: safety, ArgsPayload: call.ArgsPayload}
	if call.Args != nil {
		args, err := plainJSON(call.Args)
		if err != nil {
			return nil, err
		}
		q.Args = args
	}
	k, err := r.claiming(call)
	if err != nil {
		return nil, err
	}
	q.IdempotencyKey = k.key
	got, err := r.claim(ctx, q)
	r.mu.Lock()
	defer r.mu.Unlock()
	if err == nil {
		k.Claimed, k.state = got, callRunning
		return k, nil
	}
	k.state = callAbandoned
	var p *Problem
	if errors.As(err, &p) && (p.Code == CodeCallExists || p.Code == CodeAgainRefused || p.Status != http.StatusConflict && p.Status < 500) {
		delete(r.mu.calls, k.ID) // it is not this handle's, or no call at all
	}
	return nil, err
}

// claiming enters a call among those of the handle.
func (r *Run) claiming(call ToolCall) (*Call, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	k := r.mu.calls[call.ID]
	switch {
	case k == nil:
		k = &Call{ID: call.ID, Name: call.Name, r: r, key: rand.Text()}
		r.mu.calls[call.ID] = k
	case k.state != callAbandoned:
		return nil, fmt.Errorf("control: the call %q is under way in this process", call.ID)
	}
	k.state = callClaiming
	return k, nil
}

// claim claims, across restarts of the daemon, and runs an open call of an
// earlier epoch again.
func (r *Run) claim(ctx context.Context, q ClaimRequest) (got Claimed, err error) {
	err = r.steady(ctx, func(ctx context.Context) (err error) {
		got, err = r.c.Claim(ctx, r.id, q)
		return err
	})
	var p *Problem
	if !errors.As(err, &p) || p.Code != CodeCallExists || p.State != CallOpen {
		return got, err
	}
	call := p.Call
	err = r.steady(ctx, func(ctx context.Context) (err error) {
		got, err = r.c.Again(ctx, r.id, call, q.IdempotencyKey)
		return err
	})
	if errors.As(err, &p) && p.Code == CodeAgainRefused && p.State == CallOpen {
		err = fmt.Errorf("%w: %w", ErrOwnerDecides, err)
	}
	return got, err
}
