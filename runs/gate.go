package runs

import (
	"context"

	"durafs/wal"
)

// gate lets a request pass that names a run: it resolves the id, finds the
// epoch of the token, and asks the transition table, all on the accepted
// state. What it refuses is decided again inside an accept step, so that the
// refusal waits for what it rests on.
func (s *Store) gate(ctx context.Context, c Caller, id string, ev event) (num uint32, epoch uint64, err error) {
	if _, err := ParseID(id); err != nil {
		return 0, 0, err
	}
	if err := s.log.ReadOnly(); err != nil {
		return 0, 0, err
	}
	s.mu.RLock()
	num = s.find(id)
	l := s.view(num)
	pass, newest := false, uint64(0)
	if l != nil { // of one that is being undone, the answer waits for that
		newest = s.index.epochMax(num, l.epoch)
		if l.holds(c.Writer) {
			s.heard(l)
			epoch = l.epoch
			pass = s.fence(l, c, epoch, ev) == nil
		}
	}
	s.mu.RUnlock()
	switch {
	case newest == 0:
		// After a failed barrier it may exist all the same: that shows when
		// the store is opened again, and nobody is told otherwise before.
		if err := s.log.Healthy(); err != nil {
			return 0, 0, err
		}
		return 0, 0, unknownRun(id)
	case pass:
		return num, epoch, nil
	case epoch == 0:
		epoch = s.epochOf(num, c.Writer, newest)
	}
	err = s.do(ctx, wal.Reserved, func(uint64) wal.Decision {
		l := s.view(num)
		if l.gone() {
			return l.answer(unknownRun(id))
		}
		if epoch == l.epoch && s.acc.runs[num] == l {
			l.token = c.Writer // known from here on
			s.heard(l)
		}
		if r := s.fence(l, c, epoch, ev); r != nil {
			return l.answer(r)
		}
		return l.answer(nil)
	})
	return num, epoch, err
}

// fence checks a writer's request against the run's accepted state: whose
// token it is, and what the phase takes. A run of a former boot is never in a
// phase that takes writes, since Boot has interrupted it.
func (s *Store) fence(l *live, c Caller, epoch uint64, ev event) *Refusal {
	switch {
	case l.gone():
		return goneRun()
	case c.Writer == "":
		return refuse(WriterRequired, "the request has no writer token")
	case epoch == 0:
		return refuse(WrongToken, "the writer token is not one of this run")
	case epoch < l.epoch:
		r := refuse(StaleWriter, "the writer token is of epoch %d, and the run is in epoch %d", epoch, l.epoch)
		r.late = true
		return r
	case s.index.isDamaged(l.num):
		return s.refuseDamaged(l.num)
	}
	return l.takes(ev)
}

// takes asks the transition table.
func (l *live) takes(ev event) *Refusal {
	if l.gone() {
		return goneRun()
	}
	rule := transitions[l.phase][ev]
	if rule.verdict == taken || rule.verdict == adopted {
		return nil
	}
	code := rule.code
	if code == "" {
		code = WrongPhase
	}
	r := refuse(code, "the run is %s", l.phase)
	r.late = rule.verdict == late
	r.Phase, r.Revision, r.ETag = l.phase.String(), l.revision, etag(l.admission, l.revision)
	return r
}

func unknownRun(id string) *Refusal {
	r := refuse(UnknownRun, "there is no run %s", quote(id))
	r.Field = "id"
	return r
}

// goneRun is the refusal of a request that found its run, and then it was not
// there any more.
func goneRun() *Refusal {
	return refuse(UnknownRun, "the run is not there any more, since its admission was undone")
}

func unknownRef(ref Ref) *Refusal { return refuse(UnknownRun, "there is no run number %d", ref) }
