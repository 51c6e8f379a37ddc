package runs

import (
	"context"
	"fmt"

	"durafs/wal"
)

// tools is what is known of a run's tool calls: it is kept for active runs, is
// accepted state (Store.mu guards it), and is read from the run's log when it
// is not there.
type tools struct {
	ids      map[hash16]uint64 // call numbers by the agent's label
	outcomes map[uint64]hash16 // of settled calls, to tell a repetition
	counts   map[string]uint64 // calls of each tool
	last     uint64            // number of the newest call
}

func newTools() *tools {
	return &tools{ids: map[hash16]uint64{}, outcomes: map[uint64]hash16{}, counts: map[string]uint64{}}
}

func (t *tools) claimed(run uint32, cl *claim) {
	if cl.Attempt > 1 {
		return
	}
	t.ids[callHash(run, cl.CallID)] = cl.Call
	t.counts[cl.Name] = cl.Index + 1
	t.last = cl.Call
}

func (t *tools) settled(run uint32, o *outcome) { t.outcomes[o.Call] = hashOf(run, []byte(o.Same)) }

func callHash(run uint32, callID string) hash16 {
	return hashOf(run, []byte("call"), []byte(callID))
}

// needTools makes sure that the tools of an active run are known. Of another
// run it does nothing: its phase takes no claim.
func (s *Store) needTools(ctx context.Context, num uint32) error {
	return retry(ctx, func() (done bool, err error) {
		s.mu.RLock()
		l := s.acc.runs[num]
		known := l == nil || l.tools != nil
		revision := s.index.revision(num)
		pending := l != nil && l.revision != revision
		s.mu.RUnlock()
		switch {
		case known:
			return true, nil
		case pending: // wait until what is accepted is in the log
			return false, s.do(ctx, wal.Reserved, func(uint64) wal.Decision { return l.answer(nil) })
		}
		t, err := s.readTools(num)
		if err != nil {
			return false, err
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		if l := s.acc.runs[num]; l != nil && l.tools == nil && l.revision == revision && s.index.revision(num) == revision {
			l.tools = t
		}
		return false, nil
	})
}

// readTools reads a run's tool calls from its log. Each claim and outcome
// stands in the batch of a row, so that the rows' places lead to them.
func (s *Store) readTools(num uint32) (*tools, error) {
	t := newTools()
	err := s.walkEntries(num, func(_ *batch, e entry) error {
		switch e.kind {
		case kindClaim:
			cl, err := parseClaim(e)
			if err != nil {
				return err
			}
			t.claimed(num, cl)
		case kindOutcome:
			o, err := parseOutcome(e)
			if err != nil {
				return err
			}
			t.settled(num, o)
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("read the tool calls of run number %d: %w", num, err)
	}
	return t, nil
}
