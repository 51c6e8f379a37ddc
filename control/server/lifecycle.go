package server

import (
	"context"

	"durafs/runs"
)

// lifecycle is what Domain has of the ways in which a run leaves an agent's
// hands and comes into others.
type lifecycle interface {
	Copy(ctx context.Context, c runs.Caller, id string, r runs.CopyRequest) (runs.Started, error)
	Cancel(ctx context.Context, c runs.Caller, id string, r runs.CancelRequest) (runs.CancelAnswer, error)
	AckAbort(ctx context.Context, c runs.Caller, id, how string) (*runs.Record, string, error)
	Pause(ctx context.Context, c runs.Caller, id string, r runs.PauseRequest) (*runs.Record, string, error)
	Prepare(ctx context.Context, c runs.Caller, id string, r runs.PrepareRequest) (runs.Prepared, error)
	Activate(ctx context.Context, c runs.Caller, id string, r runs.ActivateRequest) (runs.Activated, error)
	FailDispatch(ctx context.Context, c runs.Caller, id string, r runs.FailRequest) (*runs.Record, string, error)
	OpenResumeRequest(c runs.Caller, id string) (runs.PayloadReader, error)
	Resumable(c runs.Caller, after string) (runs.OfferPage, error)
	Scopes(c runs.Caller) ([]runs.Grant, error)
	GrantScope(ctx context.Context, c runs.Caller, scope string, grant bool) error
	Pin(ctx context.Context, c runs.Caller, id string, r runs.PinRequest) (runs.PinAnswer, error)
	Policy() runs.PolicyState
	SetPolicy(ctx context.Context, c runs.Caller, ch runs.PolicyChange) (now runs.PolicyState, replayed bool, err error)
	PolicyDue(c runs.Caller) (runs.Due, error)
	Rollback(ctx context.Context, c runs.Caller, id string) error
	DeletePayload(ctx context.Context, c runs.Caller, id, name string) (runs.DeletedPayload, error)
}
