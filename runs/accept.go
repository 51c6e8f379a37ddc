package runs

import (
	"context"

	"durafs/cas"
	"durafs/wal"
)

// accepted is what accept steps know beyond the index: changes that were given
// to the log and are not yet behind their barrier. It is dropped when the log
// refuses them. Store.mu guards it.
type accepted struct {
	// runs holds the runs of this boot's active set, always, and any other run
	// as long as a change of it is under way.
	runs    map[uint32]*live
	ids     overlay[string, uint32]
	starts  overlay[hash16, startKey]
	keys    overlay[hash16, keyedRow]
	names   overlay[hash16, cas.ID] // payloads, by run and name
	journal uint64                  // LSN of the journal's newest row
}

// live is the accepted state of one run.
type live struct {
	num       uint32
	phase     Phase
	revision  uint64
	epoch     uint64
	admission uint64
	uid       uint32
	seq       uint64 // of the last row
	ordinals  uint32 // how many were given
	lateRows  int

	rec *record // the newest accepted, nil where it was not read
	pub *record // the newest published, nil where it was not read

	lastLSN uint64 // of its newest accepted batch; 0: all of it is published
}

func newAccepted() accepted {
	return accepted{
		runs: map[uint32]*live{}, ids: newOverlay[string, uint32](), starts: newOverlay[hash16, startKey](),
		keys: newOverlay[hash16, keyedRow](), names: newOverlay[hash16, cas.ID](),
	}
}

// overlay holds entries of an index until their batches are published.
type overlay[K comparable, V any] struct {
	entries map[K]V
	order   []pending[K]
}

type pending[K comparable] struct {
	key K
	lsn uint64
}

func newOverlay[K comparable, V any]() overlay[K, V] { return overlay[K, V]{entries: map[K]V{}} }

func (o *overlay[K, V]) add(k K, v V, lsn uint64) {
	o.entries[k] = v
	o.order = append(o.order, pending[K]{k, lsn})
}

// published forgets what came with batches up to lsn.
func (o *overlay[K, V]) published(lsn uint64) {
	n := 0
	for n < len(o.order) && o.order[n].lsn <= lsn {
		delete(o.entries, o.order[n].key)
		n++
	}
	if n > 0 {
		o.order = append(o.order[:0], o.order[n:]...)
	}
}

func (o *overlay[K, V]) reset() {
	clear(o.entries)
	o.order = o.order[:0]
}

// view is the accepted state of a run, nil if there is none. What it returns
// is the accept step's own until it says commit; mu is held.
func (s *Store) view(num uint32) *live {
	if l := s.acc.runs[num]; l != nil {
		return l
	}
	return s.indexed(num)
}

// indexed is a run's state as the index has it.
func (s *Store) indexed(num uint32) *live {
	c, i := s.index.at(num)
	if c.phase[i] == PhaseNone {
		return nil
	}
	l := &live{
		num: num, phase: c.phase[i], revision: uint64(c.revision[i]), epoch: uint64(c.epoch[i]),
		admission: c.admission[i], uid: c.uid[i], seq: uint64(c.lastSeq[i]), ordinals: c.payloads[i],
	}
	if f := s.index.late[num]; f != nil {
		l.lateRows = len(f.rows)
	}
	return l
}

// find resolves an id among accepted and published runs; mu is held.
func (s *Store) find(id string) uint32 {
	if num, ok := s.acc.ids.entries[id]; ok {
		return num
	}
	return s.index.find(id)
}

func (s *Store) keyedRow(k hash16) (keyedRow, bool) {
	if row, ok := s.acc.keys.entries[k]; ok {
		return row, true
	}
	row, ok := s.index.keys[k]
	return row, ok
}

func (s *Store) startKey(k hash16) (startKey, bool) {
	if sk, ok := s.acc.starts.entries[k]; ok {
		return sk, true
	}
	sk, ok := s.index.starts[k]
	return sk, ok
}

// hasName reports whether the run has a payload of that name, accepted or
// published.
func (s *Store) hasName(k hash16) bool {
	_, ok := s.acc.names.entries[k]
	return ok || s.index.payloads.names[k] != 0
}

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
	at := s.clock.Now().UnixNano()
	for n, b := range batches {
		v := b.Value.(*batch)
		v.stamp = stamp{at: at, journal: s.acc.journal, runs: []stampRun{{run: l.num, ordinal: l.ordinals, seq: l.seq + 1}}}
		for k := range v.entries {
			s.acceptEntry(l, &v.entries[k], lsn+uint64(n), at)
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
		l.admission = lsn
	case kindRecord:
		e.rec.setTimes(unixTime(at))
		l.rec, l.phase, l.revision, l.epoch, l.uid = e.rec, e.rec.phase, e.rec.revision, e.rec.epoch, e.rec.uid
	case kindRow:
		l.seq++
		if e.flags&rowKeyed != 0 {
			s.acc.keys.add(hash16(e.body[:16]), keyedRow{body: hash16(e.body[16:32]), seq: uint32(l.seq)}, lsn)
		}
	case kindPayload:
		l.ordinals++
		if p, err := parsePayload(*e); err == nil {
			s.acc.names.add(nameHash(l.num, p.name), p.ref.ID, lsn)
		}
	case kindLate:
		l.lateRows++
	case kindJournal:
		s.acc.journal = lsn
	}
}

// Publish implements wal.State: from here on everyone sees what the batches
// made.
func (s *Store) Publish(batches []*wal.Batch) {
	changes := make([]Change, 0, len(batches))
	s.mu.Lock()
	for _, b := range batches {
		v := b.Value.(*batch)
		kinds, err := s.index.apply(v, b.LSN, b.Pos)
		if err != nil {
			panic("runs: an accepted batch does not apply: " + err.Error())
		}
		s.published = b.LSN
		for _, r := range v.stamp.runs {
			s.settleLive(r.run, v, b.LSN)
			changes = addChange(changes, Change{Ref: Ref(r.run), Kinds: kinds})
		}
		if v.hasJournal() {
			s.journal = b.LSN
		}
	}
	s.acc.ids.published(s.published)
	s.acc.starts.published(s.published)
	s.acc.keys.published(s.published)
	s.acc.names.published(s.published)
	s.mu.Unlock()
	s.tell(changes)
}

func (b *batch) hasJournal() bool {
	for _, e := range b.entries {
		if e.kind == kindJournal {
			return true
		}
	}
	return false
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
	s.acc.journal = s.journal
	for num, l := range s.acc.runs {
		if l.lastLSN <= s.published {
			continue
		}
		back := s.indexed(num)
		if back == nil || !back.phase.active() {
			delete(s.acc.runs, num)
			continue
		}
		back.rec, back.pub = l.pub, l.pub
		s.acc.runs[num] = back
	}
}

// decide submits an accept step that runs with mu held.
func (s *Store) decide(class wal.Class, step func(lsn uint64) wal.Decision) wal.Ticket {
	return s.log.Submit(class, func(lsn uint64) wal.Decision {
		s.mu.Lock()
		defer s.mu.Unlock()
		return step(lsn)
	})
}

// answer is a decision that writes nothing: err, or success, once what the
// run's state was decided on is durable.
func (l *live) answer(err error) wal.Decision { return wal.Decision{After: l.lastLSN, Err: err} }

// gate lets a request pass that names a run: it resolves the id, finds the
// epoch of the token, and asks the transition table, all on the accepted
// state. What it refuses is decided again inside an accept step, so that the
// refusal waits for what it rests on.
func (s *Store) gate(ctx context.Context, c Caller, id string, ev event) (num uint32, epoch uint64, err error) {
	if _, err := ParseID(id); err != nil {
		return 0, 0, err
	}
	s.mu.RLock()
	num = s.find(id)
	var newest uint64
	if num != 0 {
		newest = s.view(num).epoch
	}
	s.mu.RUnlock()
	if num == 0 {
		return 0, 0, unknownRun(id)
	}
	epoch = s.epochOf(num, c.Writer, newest)
	s.mu.RLock()
	l := s.view(num)
	pass := l != nil && s.fence(l, c, epoch, ev) == nil
	s.mu.RUnlock()
	if pass {
		return num, epoch, nil
	}
	t := s.decide(wal.Reserved, func(uint64) wal.Decision {
		l := s.view(num)
		if l == nil {
			return wal.Decision{Err: unknownRun(id)}
		}
		if r := s.fence(l, c, epoch, ev); r != nil {
			return l.answer(r)
		}
		return l.answer(nil)
	})
	return num, epoch, t.Wait(ctx)
}

// fence checks a writer's request against the run's accepted state: whose
// token it is, and what the phase takes. A run of a former boot is never in a
// phase that takes writes, since Boot has interrupted it.
func (s *Store) fence(l *live, c Caller, epoch uint64, ev event) *Refusal {
	switch {
	case c.Writer == "":
		return refuse(WriterRequired, "the request has no writer token")
	case epoch == 0:
		return refuse(WrongToken, "the writer token is not one of this run")
	case epoch < l.epoch:
		return refuse(StaleWriter, "the writer token is of epoch %d, and the run is in epoch %d", epoch, l.epoch)
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
	r.Phase, r.Revision, r.ETag = l.phase.String(), l.revision, etag(l.admission, l.revision)
	return r
}

func unknownRun(id string) *Refusal {
	r := refuse(UnknownRun, "there is no run %s", quote(id))
	r.Field = "id"
	return r
}

func unknownRef(ref Ref) *Refusal { return refuse(UnknownRun, "there is no run number %d", ref) }
