package runs

import (
	"context"
	"crypto/subtle"
	"errors"
	"time"

	"durafs/wal"
)

// ActivateRequest takes a prepared run into an agent's hands.
type ActivateRequest struct {
	// Binding is the provider on offer; nil for a run that is not bound.
	Binding *Binding
}

// Activated answers an activation. The run's id is the key of its execution:
// it stays the same however often it is resumed.
type Activated struct {
	Record       *Record
	ETag         string
	Epoch        uint64
	Writer       string
	ExecutionKey string
	OpenCalls    []OpenCall
	HistorySeq   uint64 // of the last row of its log
}

// Activate uses a resume token, once: the run is running again, in this boot,
// under its old id. Where the provider on offer is not the run's, or the scope
// that the run is bound to is not granted, the run is paused for that instead,
// durably, and the refusal says so. Needs the resume token.
func (s *Store) Activate(ctx context.Context, c Caller, id string, r ActivateRequest) (Activated, error) {
	if err := checkBinding(r.Binding); err != nil {
		return Activated{}, err
	}
	num, epoch, err := s.resumeGate(ctx, c, id, evActivate)
	if err != nil {
		return Activated{}, err
	}
	err = retry(ctx, func() (done bool, err error) {
		return s.submitActivate(ctx, c, num, epoch, &r)
	})
	if err != nil {
		return Activated{}, err
	}
	st, err := s.started(num, epoch, c)
	if err != nil {
		return Activated{}, err
	}
	return Activated{
		Record: st.Record, ETag: st.ETag, Epoch: st.Epoch, Writer: st.Writer,
		ExecutionKey: id, OpenCalls: st.Record.OpenCalls, HistorySeq: st.Record.Log.LastSeq,
	}, nil
}

// resumeGate is gate for the holder of a resume token.
func (s *Store) resumeGate(ctx context.Context, c Caller, id string, ev event) (num uint32, epoch uint64, err error) {
	num, err = s.ownersRun(ctx, id)
	if err != nil {
		return 0, 0, err
	}
	s.mu.RLock()
	newest := s.view(num).epochOrNone()
	s.mu.RUnlock()
	epoch = s.epochFor(num, c.Resume, newest, purposeResume)
	err = s.do(ctx, wal.Reserved, func(uint64) wal.Decision {
		l := s.view(num)
		return l.answer(s.resumeFence(l, c, epoch, ev))
	})
	return num, epoch, err
}

func (l *live) epochOrNone() uint64 {
	if l == nil {
		return 0
	}
	return l.epoch
}

// resumeFence checks the resume token and the phase. It is an error so that a
// nil *Refusal does not pass for one.
func (s *Store) resumeFence(l *live, c Caller, epoch uint64, ev event) error {
	switch {
	case l.gone():
		return goneRun()
	case c.Resume == "":
		return refuse(ResumeRequired, "the request has no resume token")
	case epoch == 0:
		return refuse(WrongToken, "the resume token is not one of this run")
	case epoch < l.epoch:
		return refuse(StaleWriter, "the resume token is of epoch %d, and the run is in epoch %d", epoch, l.epoch)
	}
	if r := l.takes(ev); r != nil {
		return r
	}
	return nil
}

func (s *Store) submitActivate(ctx context.Context, c Caller, num uint32, epoch uint64, r *ActivateRequest) (done bool, err error) {
	was, err := s.current(num)
	if err != nil {
		return false, err
	}
	s.mu.RLock()
	granted := s.acc.settings.granted(r.Binding)
	s.mu.RUnlock()
	rec, refusal := s.activated(was, r, granted)
	if rec == nil {
		return false, refusal
	}
	entries := []entry{rec.entry(num)}
	if refusal == nil {
		entries = append(entries,
			ownRow(num, "type", "resumed", "epoch", rec.epoch, "attempt", rec.Resume.Attempt, "boot_id", s.bootID),
			journalRow(num, rec, 0, "type", "resumed", "run", rec.ID, "attempt", rec.Resume.Attempt))
	} else {
		entries = append(entries, pausedRows(num, rec)...)
	}
	b := newBatch(num, entries...)
	done = true
	err = s.do(ctx, wal.Reserved, func(lsn uint64) wal.Decision {
		l := s.view(num)
		if err := s.resumeFence(l, c, epoch, evActivate); err != nil {
			return l.answer(err)
		}
		if l.revision != was.revision || s.acc.settings.granted(r.Binding) != granted {
			done = false
			return wal.Decision{}
		}
		if holder, ok := s.enters(was.Lock, was.LockParent, nil); refusal == nil && !ok {
			return l.answer(s.lockHeld(was.Lock, holder))
		}
		d := s.accept(l, lsn, b)
		delete(s.duty.dispatches, num)
		if refusal != nil {
			d.Err = refusal
		}
		return d
	})
	return done, err
}

// activated is the record after an activation: running, or paused for the
// reason that the refusal tells; nil where nothing is to change.
func (s *Store) activated(was *record, r *ActivateRequest, granted bool) (*record, error) {
	if was.Binding != nil && r.Binding == nil {
		return nil, fieldRefusal(BadBinding, "binding", "the run is bound to a provider, and the request does not say which is offered")
	}
	rec := was.next()
	rec.Allow, rec.Resume.FromPhase = nil, ""
	paused := func(reason PauseReason, detail string) {
		rec.Pause = &PauseInfo{Reason: string(reason), Detail: detail}
		rec.Resume.Attempt-- // nothing was tried, and an owner decides what comes next
	}
	switch {
	case r.Binding != nil && !sameBinding(r.Binding, was.Binding) && !sameBinding(r.Binding, was.Allow):
		rec.phase = PausedProviderChange
		paused(ForProviderChange, "another provider was offered at activation")
		return rec, fieldRefusal(BindingMismatch, "binding", "the run is bound to another provider, and is paused for that now")
	case !granted:
		rec.phase = PausedPermission
		paused(ForPermission, "its scope is not granted")
		r := scopeMissing(r.Binding)
		r.Detail += ", and the run is paused for that now"
		return rec, r
	}
	rec.phase, rec.BootID, rec.Pause = Running, s.bootID, nil
	if r.Binding != nil {
		b := *r.Binding
		rec.Binding = &b
	}
	return rec, nil
}

// FailRequest gives a dispatch up.
type FailRequest struct{ Detail string }

// FailDispatch says that the dispatch came to nothing: the run goes back to the
// pause that it came from, or is over after too many. Needs the resume token,
// or an owner.
func (s *Store) FailDispatch(ctx context.Context, c Caller, id string, r FailRequest) (*Record, string, error) {
	if len(r.Detail) > PauseDetailBytesMax {
		return nil, "", tooLarge("detail", int64(len(r.Detail)), PauseDetailBytesMax)
	}
	num, err := s.ownersRun(ctx, id)
	fence := func(l *live) error { return nil }
	if err == nil && (!c.owns() || c.Resume != "") {
		var epoch uint64
		num, epoch, err = s.resumeGate(ctx, c, id, evFail)
		fence = func(l *live) error { return s.resumeFence(l, c, epoch, evFail) }
	}
	if err != nil {
		return nil, "", err
	}
	detail := "the dispatch failed"
	if r.Detail != "" {
		detail += ": " + validText(r.Detail)
	}
	if err := s.failDispatch(ctx, num, detail, fence); err != nil {
		return nil, "", err
	}
	s.offer(num)
	return s.recordFor(c, num)
}

// failDispatch takes back a dispatch. fence says, in the accept step, whether it
// still is the one that is meant.
func (s *Store) failDispatch(ctx context.Context, num uint32, detail string, fence func(l *live) error) error {
	return retry(ctx, func() (done bool, err error) {
		was, err := s.current(num)
		if err != nil {
			return false, err
		}
		var batches []*wal.Batch
		if was.phase == ResumeDispatching {
			batches = s.undispatched(num, was, detail)
		}
		done = true
		err = s.do(ctx, wal.Reserved, func(lsn uint64) wal.Decision {
			l := s.view(num)
			if err := fence(l); err != nil {
				return l.answer(err)
			}
			if r := l.takes(evFail); r != nil {
				return l.answer(r)
			}
			if l.revision != was.revision {
				done = false
				return wal.Decision{}
			}
			d := s.accept(l, lsn, batches...)
			delete(s.duty.dispatches, num)
			return d
		})
		return done, err
	})
}

// undispatched are the batches after a dispatch that came to nothing.
func (s *Store) undispatched(num uint32, was *record, detail string) []*wal.Batch {
	if was.Resume.Attempt >= DispatchesMax {
		return s.exhaust(num, was)
	}
	rec := was.next()
	rec.phase, _ = ParsePhase(was.Resume.FromPhase)
	rec.Resume.FromPhase, rec.Allow = "", nil
	rec.Pause = &PauseInfo{Reason: was.Pause.Reason, At: was.Pause.At, Detail: detail}
	return []*wal.Batch{newBatch(num, append([]entry{rec.entry(num)}, pausedRows(num, rec)...)...)}
}

// exhaust are the batches that end a run which does not get further.
func (s *Store) exhaust(num uint32, was *record) []*wal.Batch {
	r := &SettleRequest{Status: ResumeExhausted, Summary: "it was resumed three times and did not get further"}
	return s.settlement(&settling{num: num, rec: was}, newPacket(r, was, nil))
}

// endDispatches takes back the dispatches whose time is over.
func (s *Store) endDispatches(ctx context.Context, now time.Duration) {
	s.mu.RLock()
	due := map[uint32]time.Duration{}
	for num, since := range s.duty.dispatches {
		if now-since > DispatchTimeout {
			due[num] = since
		}
	}
	s.mu.RUnlock()
	for num, since := range due {
		err := s.failDispatch(ctx, num, "the resume token was not used in time", func(*live) error {
			if have, ok := s.duty.dispatches[num]; !ok || have != since {
				return errDispatchOver
			}
			return nil
		})
		s.foundDamage(num, err)
		if err != nil && err != errDispatchOver && CodeOf(err) == "" && !isDamage(err) {
			s.logger.Warn("a dispatch that is over was not taken back", "run", num, "error", err)
			if s.hopeless(ctx) {
				return
			}
			continue // it is tried again at the next tick
		}
		s.mu.Lock()
		if s.duty.dispatches[num] == since {
			delete(s.duty.dispatches, num)
		}
		s.mu.Unlock()
	}
}

// errDispatchOver: the dispatch was used, or given up, before its time was over.
var errDispatchOver = errors.New("runs: the dispatch is over already")

// OpenResumeRequest opens what the agent needs to continue the run. Needs an
// owner, the run's writer token, or an unused resume token.
func (s *Store) OpenResumeRequest(c Caller, id string) (PayloadReader, error) {
	num, err := s.lookup(id)
	if err != nil {
		return nil, err
	}
	if c.Resume == "" {
		err = s.mayRead(c, num)
	} else {
		s.mu.RLock()
		cols, i := s.index.at(num)
		phase, epoch := cols.phase[i], uint64(cols.epoch[i])
		s.mu.RUnlock()
		want := s.token(num, epoch, purposeResume)
		if phase != ResumeDispatching || subtle.ConstantTimeCompare([]byte(c.Resume), []byte(want)) != 1 {
			err = refuse(WrongToken, "the resume token is not one that can be used now")
		}
	}
	if err != nil {
		return nil, err
	}
	f, err := s.findPayload(num, resumeRequestName)
	if err != nil {
		return nil, err
	}
	if f == nil {
		r := refuse(UnknownPayload, "the run was started without a resume request")
		return nil, r
	}
	return s.openRef(f.ref)
}
