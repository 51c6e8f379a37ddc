package runs

import (
	"context"
	"slices"
	"time"

	"durafs/wal"
)

// Bounds of resuming.
const (
	// DispatchesMax is how many dispatches a run gets without getting further.
	DispatchesMax = 3
	// DispatchTimeout is how long a resume token waits to be used.
	DispatchTimeout = 60 * time.Second
)

// PrepareRequest hands a paused run to a dispatcher.
type PrepareRequest struct {
	// IfMatch is the ETag that the caller decided on; it must be given.
	IfMatch string
	// Binding is the provider that will be offered; nil for the run's own.
	Binding *Binding
	// AllowBinding consents to one other binding, for one activation.
	AllowBinding *Binding
	// Retry names open calls that may run again whatever their class, Close
	// open calls that are over, nobody knows how. A run whose agent was lost
	// after an effect needs one of them for every open call.
	Retry, Close []uint64
	// Dead says that the agent's process is known to be gone, Force that the
	// run is to be taken from an agent that may live: either ends the time in
	// which only an attach takes the run.
	Dead, Force bool
}

// Prepared answers a prepare. Token is good for one activation, until Until.
type Prepared struct {
	Record *Record
	ETag   string
	Epoch  uint64
	Token  string
	Within time.Duration // DispatchTimeout
}

// Prepare makes a paused run ready to be dispatched: the attempt is counted,
// durably, before the one-use token is handed out, and the epoch is raised, so
// that whoever had the run before cannot write to it any more. Needs an owner.
func (s *Store) Prepare(ctx context.Context, c Caller, id string, r PrepareRequest) (Prepared, error) {
	if !c.owns() {
		return Prepared{}, refuse(NotOwner, "only an owner resumes a run")
	}
	for _, b := range []*Binding{r.Binding, r.AllowBinding} {
		if err := checkBinding(b); err != nil {
			return Prepared{}, err
		}
	}
	if r.IfMatch == "" {
		return Prepared{}, fieldRefusal(RevisionMismatch, "If-Match", "a prepare names the revision that was decided on")
	}
	num, err := s.ownersRun(ctx, id)
	if err != nil {
		return Prepared{}, err
	}
	err = retry(ctx, func() (done bool, err error) {
		return s.submitPrepare(ctx, num, &r)
	})
	if err != nil {
		return Prepared{}, err
	}
	rec, tag, err := s.recordFor(c, num)
	if err != nil {
		return Prepared{}, err
	}
	return Prepared{Record: rec, ETag: tag, Epoch: rec.Epoch, Token: s.token(num, rec.Epoch, purposeResume), Within: DispatchTimeout}, nil
}

// ownersRun resolves an id among accepted runs, for an owner.
func (s *Store) ownersRun(ctx context.Context, id string) (uint32, error) {
	if _, err := ParseID(id); err != nil {
		return 0, err
	}
	s.mu.RLock()
	num := s.find(id)
	s.mu.RUnlock()
	if num != 0 {
		return num, nil
	}
	if err := s.log.Healthy(); err != nil {
		return 0, err
	}
	return 0, unknownRun(id)
}

func (s *Store) submitPrepare(ctx context.Context, num uint32, r *PrepareRequest) (done bool, err error) {
	was, err := s.current(num)
	if err != nil {
		return false, err
	}
	closed, undecided := was.decide(r)
	rec := was.next()
	rec.phase = ResumeDispatching
	rec.epoch++
	rec.Resume.Attempt++
	rec.Resume.FromPhase = was.phase.String()
	rec.Allow = r.AllowBinding
	rec.OpenCalls = was.decided(r)
	b := newBatch(num, append([]entry{rec.entry(num)}, closeCalls(num, closed, "an owner has closed it")...)...)
	done = true
	err = s.do(ctx, wal.Reserved, func(lsn uint64) wal.Decision {
		l := s.view(num)
		if r := l.takes(evPrepare); r != nil {
			return l.answer(r)
		}
		if tag := etag(l.admission, l.revision); r.IfMatch != tag {
			return l.answer(mismatch(l, r.IfMatch))
		}
		if l.revision != was.revision {
			done = false
			return wal.Decision{}
		}
		if undecided != nil {
			return l.answer(undecided)
		}
		if refusal := s.mayPrepare(num, was, r); refusal != nil {
			return wal.Decision{After: max(l.lastLSN, s.acc.settingsLSN), Err: refusal}
		}
		d := s.accept(l, lsn, b)
		s.duty.dispatches[num] = s.clock.Boot()
		s.closeWindow(l)
		return d
	})
	return done, err
}

// decide finds which calls the owner closes, and what it left open: a run after
// an effect waits for a word on each of its open calls.
func (rec *record) decide(r *PrepareRequest) (closed []openCall, undecided *Refusal) {
	for _, call := range slices.Concat(r.Retry, r.Close) {
		if rec.open(call) == nil {
			return nil, unknownCall(call)
		}
	}
	for _, o := range rec.OpenCalls {
		retry, over := slices.Contains(r.Retry, o.Call), slices.Contains(r.Close, o.Call)
		switch {
		case over:
			closed = append(closed, o)
			if retry {
				undecided = fieldRefusal(UnaccountedCalls, "close", "the call %d is both to run again and to be closed", o.Call)
			}
		case !retry && rec.phase == PausedSideEffectUncertain && undecided == nil:
			undecided = fieldRefusal(UnaccountedCalls, "retry", "the call %d is open, and the request does not say what becomes of it", o.Call)
			undecided.Call, undecided.State = o.Call, "open"
		}
	}
	return closed, undecided
}

// decided are the open calls after a prepare.
func (rec *record) decided(r *PrepareRequest) (open []openCall) {
	for _, o := range rec.OpenCalls {
		if slices.Contains(r.Close, o.Call) {
			continue
		}
		o.Retry = o.Retry || slices.Contains(r.Retry, o.Call)
		open = append(open, o)
	}
	return open
}

// mayPrepare checks what does not lie in the phase: time, target, provider,
// permission; mu is held.
func (s *Store) mayPrepare(num uint32, rec *record, r *PrepareRequest) *Refusal {
	if left := s.duty.windows[num] - s.clock.Boot(); left > 0 && !r.Dead && !r.Force {
		w := refuse(AttachWindow, "the run's agent may still be there, and only it may take the run for %s", left.Round(time.Millisecond))
		w.RetryAfter = left
		return w
	}
	if why := s.acc.settings.targetGone(rec); why != "" {
		return targetNotEnrolled(rec.Target)
	}
	offered := rec.Binding
	if r.Binding != nil {
		offered = r.Binding
	}
	if !sameBinding(offered, rec.Binding) && !sameBinding(offered, r.AllowBinding) {
		return fieldRefusal(BindingMismatch, "binding", "the run is bound to another provider")
	}
	if rec.phase == PausedProviderChange && r.AllowBinding == nil && r.Binding == nil {
		return fieldRefusal(BindingMismatch, "allow_binding", "the run waits for another provider to be accepted, or for its own to be offered")
	}
	if rec.phase == PausedPermission && !s.acc.settings.granted(offered) {
		return scopeMissing(offered)
	}
	return nil
}

func sameBinding(a, b *Binding) bool {
	if a == nil || b == nil {
		return a == b
	}
	return *a == *b
}

// granted reports whether the scope of a binding, if it names one, is granted.
func (x *settings) granted(b *Binding) bool {
	if b == nil || b.Scope == "" {
		return true
	}
	_, ok := x.scopes[b.Scope]
	return ok
}

func scopeMissing(b *Binding) *Refusal {
	return fieldRefusal(PermissionMissing, "scope", "the scope %s is not granted", quote(b.Scope))
}
