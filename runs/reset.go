package runs

import (
	"context"
	"maps"
	"slices"

	"durafs/wal"
)

// EndForReset ends this store's taking of changes, so that it can be emptied:
// from when it returns nil, everything that would change it is answered with
// wal.ErrClosed, and what was accepted before is durable. It is refused while a
// run is active, unless force: that no run is, and that none begins any more, is
// one decision. active is how many were.
//
// From then on there is no way back; see store.Reset for what follows. When it
// fails, also since something accepted before found no room, changes are taken
// as ever. Needs an owner.
func (s *Store) EndForReset(ctx context.Context, c Caller, force bool) (active int, err error) {
	if !c.owns() {
		return 0, refuse(NotOwner, "only an owner empties the store")
	}
	ended := false
	err = s.do(ctx, wal.Reserved, func(lsn uint64) wal.Decision {
		nums := s.activeRuns()
		if active = len(nums); active > 0 && !force {
			r := refuse(RunsActive, "%d runs are active, such as %s", active, s.nameOf(nums[0]))
			r.Holder, r.Size = s.nameOf(nums[0]), int64(active)
			return wal.Decision{After: lsn - 1, Err: r}
		}
		s.over, ended = true, true
		return wal.Decision{After: lsn - 1}
	})
	if err != nil && ended {
		s.mu.Lock()
		s.over = false
		s.mu.Unlock()
	}
	return active, err
}

// activeRuns lists the runs that somebody works on, as accepted; mu is held.
func (s *Store) activeRuns() []uint32 {
	busy := func(p Phase) bool { return p.active() || p == ResumeDispatching }
	active := map[uint32]bool{}
	for p := Running; int(p) < phaseCount; p++ {
		if busy(p) {
			for num := range s.index.live[p] {
				active[num] = true
			}
		}
	}
	for num, l := range s.acc.runs { // what is accepted and not published counts
		if active[num] = busy(l.phase); !active[num] {
			delete(active, num)
		}
	}
	return slices.Sorted(maps.Keys(active))
}

// nameOf is the id of a run that is accepted; mu is held.
func (s *Store) nameOf(num uint32) string {
	if l := s.acc.runs[num]; l != nil && l.rec != nil {
		return l.rec.ID
	}
	return s.index.id(num)
}
