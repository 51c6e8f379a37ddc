package server

import (
	"context"
	"errors"
	"net/http"

	"durafs/cas"
	"durafs/control"
	"durafs/runs"
	"durafs/wal"
)

// mapping is a row of the one table from errors to problems.
type mapping struct {
	// name is the error's, as its package writes it.
	name string
	// problem makes the problem if err is (or wraps) this row's error.
	problem func(err error) *control.Problem
}

// mappings is the table; where an error is several of these, the first row
// counts. Refusals of the domain have their own, by code.
var mappings = []mapping{
	{"runs.Refusal", as(refusalProblem)},

	{"wal.ErrReadOnly", readOnly},
	{"wal.ErrBusy", is(wal.ErrBusy, 503, control.CodeBusy, true, "more is waiting for the disk than the daemon holds; nothing was changed")},
	{"wal.ErrUnknown", is(wal.ErrUnknown, 500, control.CodeOutcomeUnknown, false, "a write or sync of the log failed: whether this was recorded shows when the daemon has been restarted")},
	{"wal.ErrPoisoned", is(wal.ErrPoisoned, 503, control.CodePoisoned, false, "an earlier sync of the log failed, and the daemon takes no more writes until it is restarted; nothing was changed")},
	{"wal.ErrClosed", is(wal.ErrClosed, 503, control.CodeShuttingDown, true, "the daemon is going down; nothing was changed")},
	{"wal.NoSpaceError", as(func(e *wal.NoSpaceError) *control.Problem { return noSpace(e.Mount, e.FreeBytes, e.FreeInodes) })},
	{"wal.ErrRefused", is(wal.ErrRefused, 503, control.CodeWriteFailed, true, "a write of the log failed before it could count; nothing was changed")},
	{"wal.ErrTooLarge", is(wal.ErrTooLarge, 500, control.CodeInternal, false, "the change does not fit into one batch of the log; nothing was changed")},
	{"wal.ErrEnd", is(wal.ErrEnd, 500, control.CodeDamaged, false, "the index names a place in the log where nothing is")},
	{"wal.ErrUnknownFlag", is(wal.ErrUnknownFlag, 500, control.CodeDamaged, false, "a file of the store was written by a later durafs")},
	{"wal.FutureVersionError", as(func(*wal.FutureVersionError) *control.Problem {
		return problem(500, control.CodeDamaged, "a file of the store was written by a later durafs")
	})},
	{"wal.DamageError", as(func(e *wal.DamageError) *control.Problem { return damaged(e.File, e.Offset) })},

	{"runs.PayloadError", as(payloadDamaged)},
	{"cas.ErrPoisoned", is(cas.ErrPoisoned, 503, control.CodePoisoned, false, "an earlier sync of the payloads failed, and the daemon takes no more of them until it is restarted; nothing was changed")},
	{"cas.ErrNotFound", is(cas.ErrNotFound, 500, control.CodeDamaged, false, "the record names this payload, but no pack holds its bytes")},
	{"cas.MissingError", as(func(*cas.MissingError) *control.Problem {
		return problem(500, control.CodeDamaged, "the store refers to bytes that no pack holds; durafs verify says of whose")
	})},
	{"cas.ErrClosed", is(cas.ErrClosed, 503, control.CodeShuttingDown, true, "the daemon is going down; nothing was changed")},
	{"cas.ErrSweeping", is(cas.ErrSweeping, 503, control.CodeBusy, true, "the packs are being compacted already; nothing was changed")},
	{"cas.ErrHeld", is(cas.ErrHeld, 503, control.CodeBusy, true, "payloads have been coming in all the time that a compaction waits for them; nothing was changed")},
	{"cas.ErrUnsure", is(cas.ErrUnsure, 500, control.CodeDamaged, false, "some of what refers to payloads cannot be read, so nothing was removed; durafs verify says what is harmed")},
	{"cas.ErrFormat", is(cas.ErrFormat, 500, control.CodeDamaged, false, "a file of the store was written by a later durafs")},
	{"cas.NoSpaceError", as(func(e *cas.NoSpaceError) *control.Problem { return noSpace(e.Mount, e.FreeBytes, e.FreeInodes) })},
	{"cas.DamageError", as(func(e *cas.DamageError) *control.Problem { return damaged(e.File, e.Offset) })},

	{"senderError", as((*senderError).problem)},
	{"context.Canceled", is(context.Canceled, 500, control.CodeOutcomeUnknown, false, "the request was given up before its answer")},
	{"context.DeadlineExceeded", is(context.DeadlineExceeded, 500, control.CodeOutcomeUnknown, false, "the request was given up before its answer")},
}

// problemOf makes the problem of any error. What is in no table is the
// daemon's own fault.
func problemOf(err error) *control.Problem {
	if p, ok := errors.AsType[*control.Problem](err); ok {
		return p
	}
	for _, m := range mappings {
		if p := m.problem(err); p != nil {
			return p
		}
	}
	return problem(http.StatusInternalServerError, control.CodeInternal, "the daemon failed at this request; its log has the reason")
}

// is matches a sentinel.
func is(target error, status int, code string, retryable bool, detail string) func(error) *control.Problem {
	return func(err error) *control.Problem {
		if !errors.Is(err, target) {
			return nil
		}
		p := problem(status, code, detail)
		p.Retryable = retryable
		return p
	}
}

// as matches a type.
func as[E error](make func(E) *control.Problem) func(error) *control.Problem {
	return func(err error) *control.Problem {
		if e, ok := errors.AsType[E](err); ok {
			return make(e)
		}
		return nil
	}
}

func noSpace(mount string, freeBytes, freeInodes int64) *control.Problem {
	p := problem(http.StatusInsufficientStorage, control.CodeNoSpace, "there is no room on the file system of "+mount+"; nothing was changed, and it works again once there is")
	p.Mount, p.FreeBytes, p.Retryable = mount, &freeBytes, true
	if freeInodes >= 0 {
		p.FreeInodes = &freeInodes
	}
	return p
}

// readOnly is a store that was opened to be read only; what it wraps is why.
func readOnly(err error) *control.Problem {
	if !errors.Is(err, wal.ErrReadOnly) {
		return nil
	}
	p := problem(http.StatusServiceUnavailable, control.CodeReadOnly, "the store can only be read, and nothing was changed: "+err.Error())
	if d, ok := errors.AsType[*wal.DamageError](err); ok {
		p.File, p.Offset = d.File, d.Offset
	}
	return p
}

func damaged(file string, offset int64) *control.Problem {
	p := problem(http.StatusInternalServerError, control.CodeDamaged, "what the disk holds is not what was stored there; durafs verify says what is harmed")
	p.File, p.Offset = file, offset
	return p
}

// payloadDamaged says whose payload it is, beside where the damage is.
func payloadDamaged(e *runs.PayloadError) *control.Problem {
	p := problem(http.StatusInternalServerError, control.CodeDamaged, "bytes of the payload "+e.Name+" of run "+e.Run+" are not what was stored; to put the same bytes again, under any name, heals it")
	p.Holder, p.Field = e.Run, e.Name
	if d, ok := errors.AsType[*cas.DamageError](e.Err); ok {
		p.File, p.Offset = d.File, d.Offset
	}
	return p
}

// refusalStatus has every code of the domain.
var refusalStatus = map[runs.Code]int{
	runs.BadID:               http.StatusBadRequest,
	runs.BadName:             http.StatusBadRequest,
	runs.BadLabel:            http.StatusBadRequest,
	runs.BadBinding:          http.StatusBadRequest,
	runs.BadStatus:           http.StatusBadRequest,
	runs.BadPhase:            http.StatusBadRequest,
	runs.BadLease:            http.StatusBadRequest,
	runs.BadCursor:           http.StatusBadRequest,
	runs.TooLarge:            http.StatusRequestEntityTooLarge,
	runs.TargetNotEnrolled:   http.StatusConflict,
	runs.UnknownRun:          http.StatusNotFound,
	runs.RunExists:           http.StatusConflict,
	runs.IdempotencyMismatch: http.StatusUnprocessableEntity,
	runs.IdempotencyInFlight: http.StatusConflict,
	runs.NotOwner:            http.StatusForbidden,
	runs.WriterRequired:      http.StatusUnauthorized,
	runs.ResumeRequired:      http.StatusUnauthorized,
	runs.WrongToken:          http.StatusForbidden,
	runs.StaleWriter:         http.StatusConflict,
	runs.Finished:            http.StatusConflict,
	runs.AttachRequired:      http.StatusConflict,
	runs.WrongPhase:          http.StatusConflict,
	runs.CancelRequestedCode: http.StatusConflict,
	runs.RevisionMismatch:    http.StatusPreconditionFailed,
	runs.RowNotObject:        http.StatusUnprocessableEntity,
	runs.RowInvalid:          http.StatusUnprocessableEntity,
	runs.RowTooLarge:         http.StatusRequestEntityTooLarge,
	runs.ReservedName:        http.StatusUnprocessableEntity,
	runs.KeyMissing:          http.StatusUnprocessableEntity,
	runs.KeyConflict:         http.StatusConflict,
	runs.RunFull:             http.StatusInsufficientStorage,
	runs.RunBytes:            http.StatusInsufficientStorage,
	runs.StoreBytes:          http.StatusInsufficientStorage,
	runs.PayloadConflict:     http.StatusConflict,
	runs.UnknownPayload:      http.StatusNotFound,
	runs.PayloadDeleted:      http.StatusGone,
	runs.ProtectedSource:     http.StatusForbidden,
	runs.SettleConflict:      http.StatusConflict,
	runs.UnaccountedCalls:    http.StatusConflict,
	runs.RunDamaged:          http.StatusConflict,
	runs.BadCopy:             http.StatusBadRequest,
	runs.LogCompacted:        http.StatusConflict,
	runs.CopyRefused:         http.StatusConflict,
	runs.CallExists:          http.StatusConflict,
	runs.UnknownCall:         http.StatusNotFound,
	runs.OutcomeConflict:     http.StatusConflict,
	runs.AgainRefused:        http.StatusConflict,
	runs.TooManyCalls:        http.StatusConflict,
	runs.CallOpen:            http.StatusConflict,
	runs.BadReason:           http.StatusBadRequest,
	runs.ScopeMismatch:       http.StatusConflict,
	runs.BindingMismatch:     http.StatusConflict,
	runs.PermissionMissing:   http.StatusConflict,
	runs.AttachWindow:        http.StatusConflict,
	runs.RollbackRefused:     http.StatusConflict,
	runs.LockHeld:            http.StatusConflict,
	runs.UnknownThread:       http.StatusNotFound,
	runs.BadPolicy:           http.StatusBadRequest,
	runs.RunsActive:          http.StatusConflict,
	runs.UnknownDelivery:     http.StatusNotFound,
	runs.UnknownSink:         http.StatusConflict,
	runs.DeliveryOpen:        http.StatusConflict,
}

func refusalProblem(r *runs.Refusal) *control.Problem {
	status, known := refusalStatus[r.Code]
	if !known {
		status = http.StatusInternalServerError
	}
	text := *r
	text.Row = 0 // it is a field, and in a stream another number
	p := problem(status, string(r.Code), text.Error())
	p.Field, p.Limit, p.Size, p.Row = r.Field, r.Limit, r.Size, uint64(r.Row)
	p.Revision, p.ETag, p.Phase, p.Holder, p.Seq = r.Revision, r.ETag, r.Phase, r.Holder, r.Seq
	p.Call, p.State, p.RetryAfterMS = r.Call, r.State, r.RetryAfter.Milliseconds()
	if !r.At.IsZero() {
		p.At = &r.At
	}
	if c := r.Committed; c != nil {
		p.Committed = &control.Committed{
			Call: c.Call, Outcome: c.Outcome, Projection: c.Projection, ByStore: c.ByStore, Replayed: c.Replayed, Refused: c.Refused,
		}
	}
	switch r.Code {
	case runs.IdempotencyInFlight, runs.AttachWindow, runs.LockHeld, runs.DeliveryOpen:
		p.Retryable = true
	case runs.RunFull, runs.RunBytes:
		p.Scope = "run"
	case runs.StoreBytes:
		p.Scope, p.Retryable = "store", true
	}
	return p
}
