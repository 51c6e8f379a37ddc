package runs

import (
	"cmp"
	"context"

	"durafs/wal"
)

// newBatch encodes entries of one run, outside of the accept step.
func newBatch(run uint32, entries ...entry) *wal.Batch {
	body := appendEntries(make([]byte, 0, entriesBytes(entries)), entries)
	return &wal.Batch{
		Run: uint64(run), Count: uint32(len(entries)), Body: body, BodyCRC: wal.Checksum(body),
		Value: &batch{entries: entries},
	}
}

// accept stamps batches of the run l, the first of which gets lsn, and brings
// the accepted state to what it will be when they are published; mu is held,
// and all checks were made.
func (s *Store) accept(l *live, lsn uint64, batches ...*wal.Batch) wal.Decision {
	if s.index.isDamaged(l.num) {
		return l.answer(s.refuseDamaged(l.num)) // whoever has not asked before
	}
	for _, b := range batches { // what the log would refuse must not count as accepted
		if size := len(b.Body) + stampRunBytes + stampTailBytes; size > wal.BatchBytesMax {
			return l.answer(tooLarge("request", int64(size), wal.BatchBytesMax))
		}
	}
	at := s.clock.Now().UnixNano()
	for n, b := range batches {
		v := b.Value.(*batch)
		v.stamp = stamp{at: cmp.Or(v.copiedAt, at), journal: s.journalBefore(v), runs: []stampRun{{run: l.num, ordinal: l.ordinals, seq: l.seq + 1}}}
		for k := range v.entries {
			s.acceptEntry(l, &v.entries[k], lsn+uint64(n), v.stamp.at)
		}
		b.Stamp = appendStamp(make([]byte, 0, stampRunBytes+stampTailBytes), v.stamp)
	}
	l.lastLSN = lsn + uint64(len(batches)) - 1
	s.acc.runs[l.num] = l
	return wal.Decision{Batches: batches}
}

func (s *Store) acceptEntry(l *live, e *entry, lsn uint64, at int64) {
	switch e.kind {
	case kindAdmission:
		if l.admission = lsn; l.seq == 0 { // else it is a copy, whose calls are in its log
			l.tools = newTools()
		}
	case kindRecord:
		e.rec.setTimes(unixTime(at))
		if l.epoch != e.rec.epoch {
			l.token = ""
		}
		if !l.phase.active() && e.rec.phase.active() {
			s.heard(l)
		}
		l.rec, l.phase, l.revision, l.epoch, l.uid = e.rec, e.rec.phase, e.rec.revision, e.rec.epoch, e.rec.uid
		l.lease, l.lock = e.rec.lease(), e.rec.Lock
		s.locks.took(l.lock, l.num, l.phase.active())
	case kindRow:
		l.seq++
		s.grow(l, e.counts(l.seq))
		if e.flags&rowByStore == 0 {
			l.written(lsn)
		}
		if e.flags&rowKeyed != 0 {
			s.acc.keys.add(hash16(e.body[:16]), keyedRow{body: hash16(e.body[16:32]), seq: uint32(l.seq)}, lsn)
		}
	case kindPayload:
		l.ordinals++
		if p, err := parsePayload(*e); err == nil {
			if sources[p.source].put {
				l.written(lsn)
			}
			s.acc.names.add(nameHash(l.num, p.name), acceptedName{id: p.ref.ID}, lsn)
			s.grow(l, p.ref.Bytes)
		}
	case kindDeleted:
		if d, err := parseDeletion(*e); err == nil {
			s.acc.names.add(nameHash(l.num, d.Name), acceptedName{id: d.B3, deleted: true}, lsn)
			s.grow(l, -d.Bytes)
		}
	case kindLate:
		l.lateRows++
	case kindRemoved:
		l.phase = PhaseNone
		s.grow(l, -l.bytes)
		s.locks.took(l.lock, l.num, false)
		if gone, err := parseRemoval(*e); err == nil {
			s.acc.journals[gone.Journal] = lsn // it loses a row
		}
	case kindClaim:
		s.grow(l, e.counts(0))
		if l.tools != nil {
			l.tools.claimed(l.num, e.claim)
		}
	case kindOutcome:
		s.grow(l, e.counts(0))
		if l.tools != nil {
			l.tools.settled(l.num, e.outcome)
		}
	case kindJournal:
		if j, err := parseJournal(*e); err == nil {
			target, _ := s.acc.settings.goesTo(j)
			s.acc.journals[target] = lsn
		}
	}
}

// journalBefore is the version of the journal that the batch has a row for, 0
// if it has none; mu is held.
func (s *Store) journalBefore(v *batch) uint64 {
	for _, e := range v.entries {
		if e.kind != kindJournal {
			continue
		}
		if j, err := parseJournal(e); err == nil {
			target, _ := s.acc.settings.goesTo(j)
			return s.journalVersion(target)
		}
	}
	return 0
}

// written notes that the agent has written something.
func (l *live) written(lsn uint64) {
	if l.wrote == 0 {
		l.wrote = lsn
	}
}

// acceptStore is accept for a batch that is of the whole store.
func (s *Store) acceptStore(lsn uint64, b *wal.Batch) wal.Decision {
	v := b.Value.(*batch)
	v.stamp = stamp{at: s.clock.Now().UnixNano(), runs: []stampRun{{}}}
	for _, e := range v.entries {
		if e.kind == kindSetting {
			next, err := s.acc.settings.with(e.setting)
			if err != nil {
				panic("runs: a setting that cannot be made: " + err.Error())
			}
			s.acc.settings, s.acc.settingsLSN = next, lsn
		}
	}
	b.Stamp = appendStamp(make([]byte, 0, stampRunBytes+stampTailBytes), v.stamp)
	return wal.Decision{Batches: []*wal.Batch{b}}
}

// decide submits an accept step that runs with mu held.
func (s *Store) decide(class wal.Class, step func(lsn uint64) wal.Decision) wal.Ticket {
	return s.log.Submit(class, s.locked(step))
}

// locked is step with mu held.
func (s *Store) locked(step func(lsn uint64) wal.Decision) func(lsn uint64) wal.Decision {
	return func(lsn uint64) wal.Decision {
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.over {
			return wal.Decision{Err: wal.ErrClosed}
		}
		return step(lsn)
	}
}

// do is decide by a caller that has nothing to do but to wait.
func (s *Store) do(ctx context.Context, class wal.Class, step func(lsn uint64) wal.Decision) error {
	_, err := s.log.Do(ctx, class, s.locked(step))
	return s.noticed(err)
}

// answer is a decision that writes nothing: err, or success, once what the
// run's state was decided on is durable. l is nil for a run that is gone.
func (l *live) answer(err error) wal.Decision {
	if l == nil {
		return wal.Decision{Err: err}
	}
	return wal.Decision{After: l.lastLSN, Err: err}
}
