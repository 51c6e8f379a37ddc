package runs

import (
	"cmp"
	"slices"

	"durafs/wal"
)

// Store keeps run tables and parts in the footers of the log's segments: see
// derive.go for what they are, table.go and parts.go for how they are written.
var _ wal.Derived = (*Store)(nil)

// sealingSliceRuns is how many runs are moved at a time from memory to a
// footer, under one lock.
const sealingSliceRuns = 128

// Derive implements wal.Derived.
func (s *Store) Derive(seg uint32, batches wal.Batches, w *wal.FooterWriter) error {
	d, err := s.derive(seg, &s.sealedWhole, batches)
	if err != nil {
		return err
	}
	s.sealing = d
	merged := s.tables[len(s.tables)-toMerge(s.tables, uint32(len(d.runs))):]
	before, err := s.openOlder(merged)
	if err == nil {
		err = d.write(w, before)
	}
	if err == nil || len(merged) == 0 || !w.Restart() {
		return err
	}
	// What cannot be read is left where it is, and not tried again: it must not
	// keep segments from being sealed.
	s.logger.Warn("run tables could not be merged", "segment", seg, "error", err)
	for i := range merged {
		merged[i].rows = noTable
	}
	return d.write(w, older{})
}

func (s *Store) tailOf(run uint32) uint32 {
	s.mu.RLock()
	defer s.mu.RUnlock()
	c, i := s.index.at(run)
	return c.tail[i]
}

// Sealed implements wal.Derived: what the footer tells now, memory may forget.
// It lets others in between, and each run goes over in one step.
func (s *Store) Sealed(seg uint32) {
	d := s.sealing
	if d == nil || d.seg != seg {
		return
	}
	s.sealing, s.sealedWhole = nil, d.whole
	n := len(s.tables) - d.merged
	s.tables = append(s.tables[:n:n], d.ref)
	for nums := range slices.Chunk(d.sorted(), sealingSliceRuns) {
		s.mu.Lock()
		for _, num := range nums {
			if d.runs[num].hasParts() {
				c, i := s.index.grow(num)
				c.tail[i] = seg // also of one that will not come: the next footer says so
				s.index.forget(num, seg)
			}
		}
		s.mu.Unlock()
	}
	// Only now that every tail has moved: who misses them looks there.
	for names := range slices.Chunk(d.names, sealingSliceRuns) {
		s.mu.Lock()
		for _, name := range names {
			if s.index.names[name].segment == seg {
				delete(s.index.names, name)
			}
		}
		s.mu.Unlock()
	}
	for keys := range slices.Chunk(d.keys, sealingSliceRuns) {
		s.mu.Lock()
		for i := range keys {
			delete(s.index.keys, keys[i].key)
		}
		s.mu.Unlock()
	}
}

// Covers implements wal.Derived.
func (s *Store) Covers(_ uint32, sections wal.Sections) (from uint32) {
	r, ok := sections.Section(sectionTable)
	if !ok {
		return 0
	}
	head, err := readTableHead(r, r.Size())
	if err != nil {
		return 0
	}
	return head.from
}

// Load implements wal.Derived.
func (s *Store) Load(seg uint32, sections wal.Sections) error {
	t, err := tableOf(sections, true)
	if err != nil {
		return err
	}
	if t.to != seg {
		return badTable("it is that of segment %d", t.to)
	}
	all, err := readWhole(sections, seg)
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.index.whole = all
	if err := s.index.loadThreads(sections); err != nil {
		return err
	}
	if err := s.loadApart(sections, seg); err != nil {
		return err
	}
	if err := s.loadTable(t); err != nil {
		return err
	}
	ref := tableRef{t.from, t.to, t.rows}
	if apart := len(s.left); apart > 0 && s.left[apart-1].seg == seg {
		ref.rows = noTable
	}
	s.tables = append(s.tables, ref)
	return nil
}

// Walk implements wal.Derived: what a footer should have told is made again,
// and kept in memory.
func (s *Store) Walk(seg uint32, batches wal.Batches) error {
	d, err := s.derive(seg, &s.index.whole, batches)
	if err != nil {
		return err
	}
	m := new(memSections)
	if err := d.write(m, older{}); err != nil {
		return err
	}
	t, err := tableOf(m, true)
	if err != nil {
		return err
	}
	s.sealedRuns.keepMade(seg, m)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.index.whole = d.whole
	s.tables = append(s.tables, tableRef{seg, seg, noTable})
	if err := s.loadApart(m, seg); err != nil {
		return err
	}
	if err := s.index.loadThreads(m); err != nil {
		return err
	}
	return s.loadTable(t)
}

// Forget implements wal.Derived.
func (s *Store) Forget() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.index, s.packs, s.tables = newIndex(), map[uint32]uint32{}, nil
	s.restored, s.losses, s.left = false, 0, nil
	s.sealedRuns = sealedCache{}
}

// endRestore comes between what was loaded from footers and what is replayed
// behind it; mu is held, or nobody else is there yet.
func (s *Store) endRestore() {
	if s.restored {
		return
	}
	s.restored, s.sealedWhole = true, s.index.whole.clone()
	if x := &s.index; x.removed {
		x.byAdmit = slices.DeleteFunc(x.byAdmit, func(num uint32) bool { return x.phase(num) == PhaseNone })
		x.removed = false
	}
	s.index.sortAdmissions()
	// Neither looks at what the other makes, and both wait for memory.
	atOnce(
		func() { s.index.ids.addAll(s.index.byAdmit, s.index.idBytes) },
		s.index.catchUp,
	)
}

// Numbers implements wal.Derived.
func (s *Store) Numbers() wal.Numbers { return wal.Numbers{Run: s.numbers.Load()} }

// loadTable adds a table to the index; mu is held.
func (s *Store) loadTable(t *tableReader) error {
	x := &s.index
	x.byAdmit = slices.Grow(x.byAdmit, int(t.rows))
	defer t.ahead()()
	var r tableRow
	for {
		more, err := t.next(&r)
		if err != nil {
			return err
		}
		if !more {
			break
		}
		if err := x.load(&r); err != nil {
			return err
		}
	}
	for _, e := range t.extraList {
		if x.phase(e.run) == PhaseNone {
			continue // the run was removed since
		}
		switch e.kind {
		case extraOutbox:
			x.outboxes[e.run] = e.at
		case extraOutboxDone:
			delete(x.outboxes, e.run)
		case extraDelivery:
			x.deliveries.set(deliveryKey{e.run, e.sink}, deliveryAt{e.at, e.flags&extraParked != 0})
		case extraDelivered:
			x.deliveries.remove(deliveryKey{e.run, e.sink})
		case extraLate:
			l := x.late[e.run]
			x.late[e.run] = lateCount{l.rows + e.rows, l.bytes + int64(e.bytes)}
		case extraDeleted:
			x.deleted[e.run] += e.rows
		}
	}
	for _, p := range t.packList {
		s.packs[p.pack] = max(s.packs[p.pack], p.end)
	}
	return nil
}

// load adds a row to the index, but for its id: see endRestore.
func (x *index) load(r *tableRow) error {
	c, i := x.grow(r.run)
	if r.flags&flagRemoved != 0 {
		x.loadRemoved(r)
		return nil
	}
	switch staged := r.flags&flagStaged != 0; {
	case c.phase[i] != PhaseNone && (r.admission != 0 || staged), c.phase[i] == PhaseNone && r.admission == 0 && !staged:
		return badTable("run %d is admitted twice, or never", r.run)
	case staged && r.admission == 0:
		x.staged[r.run] = struct{}{}
		x.newest = max(x.newest, r.run)
	}
	phase := PhaseNone // once, since a run that is finished need not go among those that are not
	if r.admission != 0 {
		delete(x.staged, r.run)
		key, text := r.split()
		c.text[i], c.thread[i] = x.text.add(text), x.threadOf(text)
		c.admission[i], c.started[i] = r.admission, r.started
		x.byAdmit = append(x.byAdmit, r.run)
		x.newest = max(x.newest, r.run)
		phase = Running
		if key != nil {
			x.starts.add(hash16(key), r.run)
		}
	}
	if r.revision != 0 {
		c.flags[i] &^= recordFlags // the newest record says them
	}
	c.flags[i] |= r.flags &^ (flagKeyed | flagStaged)
	x.setLogBytes(c, i, c.logBytes[i]+int64(r.bytes))
	x.addOther(c, i, r.otherBytes)
	c.lastSeq[i], c.payloads[i] = max(c.lastSeq[i], r.lastSeq), max(c.payloads[i], r.payloads)
	if r.revision != 0 {
		c.revision[i], c.epoch[i], c.uid[i], c.record[i] = r.revision, r.epoch, r.uid, r.record
		phase = r.phase
	}
	if phase != PhaseNone {
		x.setPhase(r.run, phase)
	}
	c.changed[i] = max(c.changed[i], r.changed)
	x.phased = max(x.phased, r.changed)
	if r.heartbeat != 0 {
		c.heartbeat[i] = r.heartbeat
	}
	if r.tail != 0 {
		c.tail[i] = r.tail
	}
	return nil
}

// loadRemoved forgets a run that a table before has told of. Its messages, and
// its row of the journal, are told of elsewhere.
func (x *index) loadRemoved(r *tableRow) {
	if x.phase(r.run) == PhaseNone {
		return
	}
	if key, _ := r.split(); key != nil {
		x.starts.remove(hash16(key), r.run)
	}
	delete(x.late, r.run)
	delete(x.outboxes, r.run)
	delete(x.deleted, r.run)
	x.setPhase(r.run, PhaseNone)
	c, i := x.at(r.run)
	x.bytes -= c.bytes(i)
	c.clear(i)
	x.removed = true // from byAdmit, later
}

// threadOf is the hash of the thread that a text of the arena names.
func (x *index) threadOf(text []byte) (hash uint32) {
	_, rest := cutTextID(text)
	_, rest = cutTextID(rest)
	if rest[0] == 0 {
		return 0
	}
	eachLabel(rest, func(name, value []byte) bool {
		if string(name) == "thread" && len(value) > 0 {
			hash = x.threadHash(string(value))
		}
		return hash == 0 && string(name) <= "thread"
	})
	return hash
}

// sortAdmissions puts the runs in the order of their admissions. Tables have
// them by number, which is nearly the same: starts at the same time may change
// places. So each is moved to its place from the end, as long as that is near.
func (x *index) sortAdmissions() {
	const movesMax = 16 // for each run, on average
	moves := movesMax * len(x.byAdmit)
	var highest uint64
	for i, num := range x.byAdmit {
		at := x.admission(num)
		if at >= highest {
			highest = at
			continue
		}
		j := i
		for ; j > 0 && x.admission(x.byAdmit[j-1]) > at; j-- {
			x.byAdmit[j] = x.byAdmit[j-1]
			moves--
		}
		x.byAdmit[j] = num
		if moves < 0 {
			slices.SortFunc(x.byAdmit, func(a, b uint32) int { return cmp.Compare(x.admission(a), x.admission(b)) })
			return
		}
	}
}
