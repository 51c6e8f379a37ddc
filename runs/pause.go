package runs

import (
	"context"

	"durafs/wal"
)

// PauseReason is why an agent cannot go on by itself.
type PauseReason string

// The reasons.
const (
	// ForPermission: the scope that the run is bound to is not granted.
	ForPermission PauseReason = "permission"
	// ForProviderChange: the provider on offer is not the run's.
	ForProviderChange PauseReason = "provider-change"
)

// PauseDetailBytesMax bounds the detail of a pause.
const PauseDetailBytesMax = 512

// PauseRequest asks that the run waits.
type PauseRequest struct {
	Reason PauseReason
	// Binding is the agent's; for a permission its scope must be the one that
	// the run is bound to.
	Binding *Binding
	Detail  string
}

// Pause lets a run wait for a grant, or for an owner who accepts another
// provider. The run leaves its agent's hands: its epoch ends, and the token
// with it. Refused while a call is open that must not run twice. Needs the
// writer token.
func (s *Store) Pause(ctx context.Context, c Caller, id string, r PauseRequest) (*Record, string, error) {
	to := map[PauseReason]Phase{ForPermission: PausedPermission, ForProviderChange: PausedProviderChange}[r.Reason]
	if to == PhaseNone {
		return nil, "", fieldRefusal(BadReason, "reason", "the reason is %s", quote(string(r.Reason)))
	}
	if len(r.Detail) > PauseDetailBytesMax {
		return nil, "", tooLarge("detail", int64(len(r.Detail)), PauseDetailBytesMax)
	}
	if err := checkBinding(r.Binding); err != nil {
		return nil, "", err
	}
	num, epoch, err := s.gate(ctx, c, id, evPause)
	if err != nil {
		return nil, "", s.keepLate(ctx, num, epoch, err, lateWrite{What: "pause", Name: string(r.Reason)})
	}
	err = retry(ctx, func() (done bool, err error) {
		return s.submitPause(ctx, c, num, epoch, &r, to)
	})
	if err != nil {
		return nil, "", err
	}
	s.offer(num) // its scope may be granted by now
	return s.recordFor(Caller{UID: c.UID, Owner: c.Owner}, num)
}

func (s *Store) submitPause(ctx context.Context, c Caller, num uint32, epoch uint64, r *PauseRequest, to Phase) (done bool, err error) {
	was, err := s.current(num)
	if err != nil {
		return false, err
	}
	rec := was.next()
	rec.phase = to
	rec.epoch++
	rec.Pause = &PauseInfo{Reason: string(r.Reason), Detail: validText(r.Detail)}
	b := newBatch(num, append([]entry{rec.entry(num)}, pausedRows(num, rec)...)...)
	done = true
	err = s.do(ctx, wal.Reserved, func(lsn uint64) wal.Decision {
		l := s.view(num)
		if r := s.fence(l, c, epoch, evPause); r != nil {
			return l.answer(r)
		}
		if l.revision != was.revision {
			done = false
			return wal.Decision{}
		}
		if r := mayPause(was, r); r != nil {
			return l.answer(r)
		}
		return s.accept(l, lsn, b)
	})
	return done, err
}

func mayPause(rec *record, r *PauseRequest) *Refusal {
	if r.Reason == ForPermission && (rec.Binding == nil || r.Binding == nil || r.Binding.Scope != rec.Binding.Scope) {
		return fieldRefusal(ScopeMismatch, "binding.scope", "the scope is not the one that the run is bound to")
	}
	for i := range rec.OpenCalls {
		if o := &rec.OpenCalls[i]; !o.Safety.Replayable() {
			r := refuse(CallOpen, "the call %d is open and %s", o.Call, o.Safety)
			r.Call, r.State = o.Call, "open"
			return r
		}
	}
	return nil
}
