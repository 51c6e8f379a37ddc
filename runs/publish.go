package runs

import "durafs/wal"

// Publish implements wal.State: from here on everyone sees what the batches
// made.
func (s *Store) Publish(batches []*wal.Batch) {
	changes := make([]Change, 0, len(batches))
	var events []feedEvent
	s.mu.Lock()
	for _, b := range batches {
		v := b.Value.(*batch)
		kinds, err := s.index.apply(v, b.LSN, b.Pos)
		if err != nil {
			panic("runs: an accepted batch does not apply: " + err.Error())
		}
		s.published = b.LSN
		events = append(events, feedOf(v, b.LSN, func(n int) place { return makePlace(b.Pos, n) })...)
		for _, r := range v.stamp.runs {
			s.settleLive(r.run, v, b.LSN)
			if r.run != 0 && s.index.phase(r.run) != PhaseNone || kinds&ChangedRemoved != 0 {
				changes = addChange(changes, Change{Ref: Ref(r.run), Kinds: kinds, Deleted: deletedIn(v, r.run, kinds)})
			}
		}
	}
	s.index.catchUp()
	s.outbox.schedule(&s.index.deliveries)
	s.acc.ids.published(s.published)
	s.acc.starts.published(s.published)
	s.acc.keys.published(s.published)
	s.acc.names.published(s.published)
	s.acc.posts.published(s.published)
	s.mu.Unlock()
	s.feed.add(batches[len(batches)-1].LSN, events...)
	s.tell(changes)
}

// settleLive takes over a published batch into the run's accepted state, and
// forgets that when nothing of it is under way and the run is not active.
func (s *Store) settleLive(num uint32, b *batch, lsn uint64) {
	l := s.acc.runs[num]
	if l == nil {
		return
	}
	for _, e := range b.entries {
		if e.rec != nil && e.run == num {
			l.pub = e.rec
		}
	}
	if l.lastLSN <= lsn && !l.phase.active() {
		delete(s.acc.runs, num)
	}
}

func addChange(changes []Change, c Change) []Change {
	for i := len(changes) - 1; i >= 0 && i >= len(changes)-8; i-- {
		if changes[i].Ref == c.Ref {
			changes[i].Kinds |= c.Kinds
			changes[i].Deleted = append(changes[i].Deleted, c.Deleted...)
			return changes
		}
	}
	return append(changes, c)
}

// Reset implements wal.State: accepted changes that were refused are
// forgotten, and what is published is all there is.
func (s *Store) Reset() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.acc.ids.reset()
	s.acc.starts.reset()
	s.acc.keys.reset()
	s.acc.names.reset()
	s.acc.posts.reset()
	clear(s.acc.journals)
	s.acc.settings, s.acc.settingsLSN = s.index.settings, 0
	s.acc.bytes = s.index.bytes
	s.cutChains()
	for num, l := range s.acc.runs {
		if l.lastLSN <= s.published {
			continue
		}
		back := s.indexed(num)
		if l.window > 0 && back != nil && !back.phase.active() {
			s.duty.windows[num] = l.window
		}
		s.locks.took(l.lock, num, back != nil && back.phase.active())
		if back == nil || !back.phase.active() {
			delete(s.acc.runs, num)
			continue
		}
		if l.pub != nil && l.pub.revision == back.revision {
			back.rec, back.pub = l.pub, l.pub
		}
		if back.epoch == l.epoch {
			back.token = l.token
		}
		if back.denied = l.denied; l.wrote <= s.published {
			back.wrote = l.wrote
		}
		back.lease, back.lock = l.lease, l.lock
		back.heard.Store(l.heard.Load())
		s.acc.runs[num] = back
	}
}
