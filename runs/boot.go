package runs

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"durafs/cas"
	"durafs/wal"
)

// bootWindow is how many runs are settled or interrupted at a time.
const bootWindow = 256

// Boot begins a new life of the store after replay: a new boot id; then, in
// this order and before anything else is taken, runs that were cancelled and
// not ended are ended, settlements that a crash cut short are done to their
// ends, runs of former boots are interrupted, and what was handed to a
// dispatcher is taken back.
//
// It is idempotent: whatever a crash leaves of it, the next Boot does the
// rest, and a Boot after a completed one changes nothing. What is to be told to
// sinks is not its business: NextDelivery gives that once the store is served.
func (s *Store) Boot(ctx context.Context, log *wal.Log, chunks *cas.Store) error {
	s.log, s.cas, s.bootID, s.packs = log, chunks, newBootID(), nil
	s.replaying = batch{}
	s.footers = log
	s.endRestore()
	s.published = max(s.published, log.Durable())
	s.numbers.Store(max(s.index.newest, log.HighWater().Run))
	s.index.dropAllStaged()
	s.acc.settings, s.acc.bytes = s.index.settings, s.index.bytes
	s.initDuty()
	s.outbox.begin(&s.index.deliveries)
	s.index.catchUp()
	if _, last := s.feed.end(); last < s.published {
		s.feed.begin(s.published)
	}
	log.Start(s)
	if log.ReadOnly() != nil {
		return nil // what a former boot left stays as it is
	}
	for _, step := range []struct {
		what string
		left func() []uint32
		do   func(num uint32) (wal.Ticket, error)
	}{
		{"end cancelled runs", s.leftCancelled, s.bootCancelled},
		{"finish settlements", s.leftSettling, s.finishOutbox},
		{"interrupt runs of a former boot", s.leftIn(Running), s.interrupt},
		{"take back dispatches of a former boot", s.leftIn(ResumeDispatching), s.bootUndispatch},
	} {
		if err := s.eachOf(ctx, step.left(), step.do); err != nil {
			return fmt.Errorf("runs: %s: %w", step.what, err)
		}
	}
	s.bootWindows()
	return nil
}

// bootWindows begins, for every run that an agent may still hold, the time in
// which only that agent takes it.
func (s *Store) bootWindows() {
	s.mu.RLock()
	nums := append(s.index.inPhase(PausedInterruption), s.index.inPhase(PausedSideEffectUncertain)...)
	s.mu.RUnlock()
	for _, num := range nums {
		rec, err := s.current(num)
		if err != nil {
			continue // it shows when it is read
		}
		s.mu.Lock()
		s.openWindow(num, rec)
		s.mu.Unlock()
	}
}

// eachOf submits fn's decision for each run, a window of them at a time.
func (s *Store) eachOf(ctx context.Context, nums []uint32, fn func(num uint32) (wal.Ticket, error)) error {
	for window := range slices.Chunk(nums, bootWindow) {
		tickets := make([]wal.Ticket, 0, len(window))
		for _, num := range window {
			if s.isDamaged(num) {
				continue
			}
			t, err := fn(num)
			if isDamage(err) {
				s.foundDamage(num, err)
				continue // it waits for its repair, and nobody else for it
			}
			if err != nil {
				return fmt.Errorf("run number %d: %w", num, err)
			}
			tickets = append(tickets, t)
		}
		for _, t := range tickets {
			if err := t.Wait(ctx); err != nil && !isDamage(err) {
				return err
			}
		}
	}
	return nil
}

// leftSettling lists the runs whose outbox is still there.
func (s *Store) leftSettling() []uint32 {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return slices.Sorted(maps.Keys(s.index.outboxes))
}

// leftIn lists the runs that a former boot left in a phase that belongs to an
// agent or dispatcher. All that are in it are: this boot has given none yet.
func (s *Store) leftIn(p Phase) func() []uint32 {
	return func() []uint32 {
		s.mu.RLock()
		defer s.mu.RUnlock()
		return s.index.inPhase(p)
	}
}

// leftCancelled lists the runs that have a tombstone and no outbox yet.
func (s *Store) leftCancelled() []uint32 {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return slices.DeleteFunc(s.index.inPhase(CancelRequested), func(num uint32) bool {
		_, boxed := s.index.outboxes[num]
		return boxed
	})
}

// bootCancelled ends a cancelled run: no agent of this boot can listen.
func (s *Store) bootCancelled(num uint32) (wal.Ticket, error) {
	t, _, err := s.submitCancelled(num, AbortNoListener)
	return t, err
}

// bootUndispatch takes back a dispatch whose token died with its boot.
func (s *Store) bootUndispatch(num uint32) (wal.Ticket, error) {
	was, err := s.current(num)
	if err != nil {
		return wal.Ticket{}, err
	}
	batches := s.undispatched(num, was, "the daemon was restarted before the resume token was used")
	return s.decide(wal.Reserved, func(lsn uint64) wal.Decision {
		return s.accept(s.view(num), lsn, batches...)
	}), nil
}

// interrupt pauses a run whose agent may be lost. If it has claimed no call
// that could have had an effect, or only such as may run twice, it may resume
// by itself.
func (s *Store) interrupt(num uint32) (wal.Ticket, error) {
	was, err := s.current(num)
	if err != nil {
		return wal.Ticket{}, err
	}
	batches := s.lost(num, was, "restart", "the daemon was restarted while the run was running")
	return s.decide(wal.Reserved, func(lsn uint64) wal.Decision {
		return s.accept(s.view(num), lsn, batches...)
	}), nil
}

// finishOutbox does what is left of a settlement, from its outbox.
func (s *Store) finishOutbox(num uint32) (wal.Ticket, error) {
	s.mu.RLock()
	c, i := s.index.at(num)
	flags, at := c.flags[i], s.index.outboxes[num]
	s.mu.RUnlock()
	pk, err := s.readOutbox(at)
	if err != nil {
		return wal.Ticket{}, err
	}
	rec, err := s.current(num)
	if err != nil {
		return wal.Ticket{}, err
	}
	st := &settling{
		num: num, rec: rec, named: true, boxed: true,
		journaled: flags&flagJournaled != 0, threaded: flags&flagThreaded != 0,
	}
	if pk.Payload != nil {
		f, err := s.findPayload(num, TerminalName)
		if err != nil {
			return wal.Ticket{}, err
		}
		if f == nil || f.ref.ID != pk.Payload.B3 {
			return wal.Ticket{}, badBatch("the outbox names a payload that is not there")
		}
		st.payload = &f.payload
	}
	batches := s.settlement(st, pk)
	return s.decide(wal.Reserved, func(lsn uint64) wal.Decision {
		return s.accept(s.view(num), lsn, batches...)
	}), nil
}

func (s *Store) readOutbox(at place) (*packet, error) {
	b, err := s.readBatch(at.pos())
	if err != nil {
		return nil, err
	}
	if int(at.entry) >= len(b.entries) || b.entries[at.entry].kind != kindOutbox {
		return nil, badBatch("it has no outbox where the index says")
	}
	pk := new(packet)
	if err := json.Unmarshal(b.entries[at.entry].body, pk); err != nil {
		return nil, badBatch("an outbox: %v", err)
	}
	return pk, nil
}
