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
// this order and before anything else is taken, settlements that a crash cut
// short are done to their ends, and runs of former boots are interrupted.
//
// It is idempotent: whatever a crash leaves of it, the next Boot does the
// rest, and a Boot after a completed one changes nothing.
func (s *Store) Boot(ctx context.Context, log *wal.Log, chunks *cas.Store) error {
	s.log, s.cas, s.bootID, s.packs = log, chunks, newBootID(), nil
	s.replaying = batch{}
	s.numbers.Store(s.index.newest)
	s.acc.journal, s.acc.settings = s.journal, s.index.settings
	log.Start(s)
	if err := s.eachOf(ctx, s.leftSettling(), s.finishOutbox); err != nil {
		return fmt.Errorf("runs: finish settlements: %w", err)
	}
	if err := s.eachOf(ctx, s.leftRunning(), s.interrupt); err != nil {
		return fmt.Errorf("runs: interrupt runs of a former boot: %w", err)
	}
	return nil
}

// eachOf submits fn's decision for each run, a window of them at a time.
func (s *Store) eachOf(ctx context.Context, nums []uint32, fn func(num uint32) (wal.Ticket, error)) error {
	for window := range slices.Chunk(nums, bootWindow) {
		tickets := make([]wal.Ticket, 0, len(window))
		for _, num := range window {
			t, err := fn(num)
			if err != nil {
				return fmt.Errorf("run number %d: %w", num, err)
			}
			tickets = append(tickets, t)
		}
		for _, t := range tickets {
			if err := t.Wait(ctx); err != nil {
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

// leftRunning lists the runs that a former boot left running. All that are
// running are: this boot has admitted none yet.
func (s *Store) leftRunning() []uint32 {
	s.mu.RLock()
	defer s.mu.RUnlock()
	var nums []uint32
	for _, num := range s.index.byAdmit {
		if s.index.phase(num) == Running {
			nums = append(nums, num)
		}
	}
	return nums
}

// interrupt pauses a run whose agent may be lost. If it has claimed no call
// that could have had an effect, or only such as may run twice, it may resume
// by itself.
func (s *Store) interrupt(num uint32) (wal.Ticket, error) {
	was, err := s.current(num)
	if err != nil {
		return wal.Ticket{}, err
	}
	rec := was.next()
	rec.phase = rec.lostTo()
	rec.Pause = &PauseInfo{Reason: "restart", Detail: "the daemon was restarted while the run was running"}
	journal := object("type", "paused", "run", rec.ID, "reason", rec.Pause.Reason)
	b := newBatch(num, rec.entry(num),
		ownRow(num, "type", "paused", "reason", rec.Pause.Reason, "phase", rec.phase.String()),
		(&note{rec.Target, journal}).entry(kindJournal, 0, num))
	return s.decide(wal.Reserved, func(lsn uint64) wal.Decision {
		return s.accept(s.view(num), lsn, b)
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
