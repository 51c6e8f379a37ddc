package runs

import (
	"context"
	"errors"
	"time"

	"durafs/wal"
)

// A lease is how long a run may be silent. What is measured is boot time,
// between arrivals of requests with the run's token, whatever they were
// answered. A run that was silent for longer is treated like one of a former
// boot: its agent may be lost.
//
// The daemon must not take its own silence for the agent's. So no lease ends
// for a run that has something on its way to the disk, none within a lease
// after the disk was slow, full or refused writes, and when the daemon finds
// that it was itself stopped, each run has a whole lease from then on.

// heard notes that the run's agent has made a request. l is active.
func (s *Store) heard(l *live) { l.heard.Store(int64(s.clock.Boot())) }

// strained notes that the store kept agents waiting, or turned them away.
func (s *Store) strain() { s.duty.strained.Store(int64(s.clock.Boot())) }

// noticed returns err, and remembers that an agent was turned away for a reason
// that lies with the store or its disk.
func (s *Store) noticed(err error) error {
	if err == nil {
		return nil
	}
	_, full := errors.AsType[*wal.NoSpaceError](err)
	if full || errors.Is(err, wal.ErrBusy) || errors.Is(err, wal.ErrRefused) || errors.Is(err, wal.ErrUnknown) || errors.Is(err, wal.ErrPoisoned) {
		s.strain()
	}
	return err
}

// slowBarrier is how long a barrier may take before its agents' silence is the
// store's own.
const slowBarrier = time.Second

// NoteBarrier tells how long a barrier of the log took. It may be called by
// the committer; it does not block.
func (s *Store) NoteBarrier(took time.Duration) {
	if took > slowBarrier {
		s.strain()
	}
}

// lease is a run's lease, 0 for none.
func (rec *record) lease() time.Duration { return time.Duration(rec.LeaseMS) * time.Millisecond }

// window is how long only an attach may take a run that was lost.
func (rec *record) window() time.Duration {
	if rec.LeaseMS == 0 {
		return LeaseDefault
	}
	return rec.lease()
}

// silent reports whether a run's lease has ended at now; mu is held.
func (s *Store) silent(l *live, now time.Duration) bool {
	return l.phase == Running && l.lease > 0 && l.lastLSN <= s.published &&
		now-time.Duration(l.heard.Load()) > l.lease &&
		now-time.Duration(s.duty.strained.Load()) > l.lease
}

// expireLeases pauses, or ends, the runs whose leases have ended.
func (s *Store) expireLeases(ctx context.Context, now time.Duration) {
	if s.log.Healthy() != nil {
		s.strain()
		return
	}
	s.mu.RLock()
	var due []uint32
	for num, l := range s.acc.runs {
		if s.silent(l, now) && !s.index.isDamaged(num) {
			due = append(due, num)
		}
	}
	s.mu.RUnlock()
	for _, num := range due {
		err := s.expire(ctx, num, now)
		if isDamage(err) {
			s.foundDamage(num, err)
			continue
		}
		if err != nil {
			s.logger.Warn("a run whose lease has ended was not paused", "run", num, "error", err)
			if s.hopeless(ctx) {
				return
			}
		}
	}
}

func (s *Store) expire(ctx context.Context, num uint32, now time.Duration) error {
	was, err := s.current(num)
	if CodeOf(err) == UnknownRun {
		return nil
	}
	if err != nil || was.phase != Running {
		return err
	}
	batches := s.lost(num, was, "lease", "nothing was heard of its agent for "+was.lease().String())
	return s.do(ctx, wal.Reserved, func(lsn uint64) wal.Decision {
		l := s.view(num)
		if l.gone() || l.revision != was.revision || !s.silent(l, now) {
			return wal.Decision{} // it was heard of
		}
		d := s.accept(l, lsn, batches...)
		s.openWindow(num, was)
		return d
	})
}

// lost are the batches that take a running run out of its agent's hands: a
// pause, by what it has claimed, or the end of one that was resumed too often
// without getting further.
func (s *Store) lost(num uint32, was *record, reason, detail string) []*wal.Batch {
	if was.Resume.Attempt >= DispatchesMax {
		return s.exhaust(num, was)
	}
	rec := was.next()
	rec.phase = was.lostTo()
	rec.Pause = &PauseInfo{Reason: reason, Detail: detail}
	return []*wal.Batch{newBatch(num, append([]entry{rec.entry(num)}, pausedRows(num, rec)...)...)}
}

// pausedRows are the rows of log and journal that tell of a pause.
func pausedRows(num uint32, rec *record) []entry {
	return []entry{
		ownRow(num, "type", "paused", "reason", rec.Pause.Reason, "phase", rec.phase.String(), "detail", rec.Pause.Detail),
		journalRow(num, rec, 0, "type", "paused", "run", rec.ID, "reason", rec.Pause.Reason),
	}
}
