package runs

import (
	"container/list"
	"errors"
	"slices"
	"sync"

	"durafs/segment"
	"durafs/wal"
)

// sealedRun is where the parts of a run lie in sealed segments, up to the
// segment tail. It is immutable: what is sealed does not change, and a run
// whose tail has moved on gets a new one.
type sealedRun struct {
	num, tail uint32
	extents   []extent
	payloads  []namedPlace
	late      []lateRow
	deleted   []namedPlace
	admission place
	keyed     []uint32 // the segments with rows that were given with a key
	bytes     int64    // of the rows, rendered
	lateBytes int64
}

// payload is where the newest payload with this name is, or where it was
// deleted, the zero place if there is none.
func (r *sealedRun) payload(name hash16) place {
	for _, p := range r.deleted {
		if p.name == name {
			return p.at
		}
	}
	for _, p := range slices.Backward(r.payloads) {
		if p.name == name {
			return p.at
		}
	}
	return place{}
}

// weight is what a sealedRun costs, in entries of its lists.
func (r *sealedRun) weight() int {
	const fixed = 16
	return fixed + len(r.extents) + 2*len(r.payloads) + 2*len(r.deleted) + len(r.late) + len(r.keyed)
}

// sealedWeightMax bounds the cache of sealedRuns, in entries of some 20 bytes.
const sealedWeightMax = 1 << 20

// sealedCache keeps what was read of runs, those used last.
type sealedCache struct {
	mu     sync.Mutex
	runs   map[uint32]*list.Element
	order  list.List // of *sealedRun, the newest first
	weight int

	// made are sections that were worked out of a segment's batches since its
	// footer cannot be used. Each stands for one damaged footer.
	made map[uint32]*memSections
}

func (c *sealedCache) get(num uint32) *sealedRun {
	c.mu.Lock()
	defer c.mu.Unlock()
	e := c.runs[num]
	if e == nil {
		return nil
	}
	c.order.MoveToFront(e)
	return e.Value.(*sealedRun)
}

func (c *sealedCache) put(r *sealedRun) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.runs == nil {
		c.runs = map[uint32]*list.Element{}
	}
	if e := c.runs[r.num]; e != nil {
		c.drop(e)
	}
	c.runs[r.num] = c.order.PushFront(r)
	c.weight += r.weight()
	for c.weight > sealedWeightMax && c.order.Len() > 1 {
		c.drop(c.order.Back())
	}
}

func (c *sealedCache) drop(e *list.Element) {
	r := c.order.Remove(e).(*sealedRun)
	delete(c.runs, r.num)
	c.weight -= r.weight()
}

func (c *sealedCache) madeOf(seg uint32) *memSections {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.made[seg]
}

func (c *sealedCache) keepMade(seg uint32, m *memSections) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.made == nil {
		c.made = map[uint32]*memSections{}
	}
	c.made[seg] = m
}

// sealed is where the run's parts lie in the segments up to tail, which is the
// index's tail of the run at the moment that the caller asks about. It reads
// footers where that is not known yet.
func (s *Store) sealed(num, tail uint32) (*sealedRun, error) {
	have := s.sealedRuns.get(num)
	if have != nil && have.tail == tail {
		return have, nil
	}
	if tail == 0 {
		return &sealedRun{num: num}, nil
	}
	chain, joins, err := s.chain(num, tail, have)
	if err != nil {
		return &sealedRun{num: num}, err
	}
	r := &sealedRun{num: num, tail: tail}
	if joins {
		*r = *have
		r.tail = tail
		r.extents, r.payloads = slices.Clip(r.extents), slices.Clip(r.payloads)
		r.late, r.keyed, r.deleted = slices.Clip(r.late), slices.Clip(r.keyed), slices.Clip(r.deleted)
	}
	for i := len(chain) - 1; i >= 0; i-- {
		r.join(&chain[i])
	}
	s.sealedRuns.put(r)
	return r, nil
}

// link is a part of a run's chain.
type link struct {
	seg     uint32
	part    part
	extents []extent
	marks   []mark
}

// chain reads the parts of a run from the segment tail backwards, to the first
// or to those that have tells of already: then joins is true.
func (s *Store) chain(num, tail uint32, have *sealedRun) (links []link, joins bool, err error) {
	for seg := tail; seg != 0; {
		if have != nil && have.tail == seg {
			return links, true, nil
		}
		l, err := s.linkOf(num, seg)
		if err != nil {
			return nil, false, err
		}
		links = append(links, l)
		seg = l.part.prev
	}
	return links, false, nil
}

// linkOf reads a part of a run. Where the footer turns out to be damaged, what
// it said is made again of the segment's batches.
func (s *Store) linkOf(num, seg uint32) (link, error) {
	l, err := s.readLink(num, seg)
	if err == nil || errors.Is(err, wal.ErrClosed) || s.sealedRuns.madeOf(seg) != nil {
		return l, err
	}
	if again := s.remake(seg, err); again != nil {
		return l, again
	}
	return s.readLink(num, seg)
}

func (s *Store) readLink(num, seg uint32) (link, error) {
	r, err := s.partsOf(seg)
	if err != nil {
		return link{}, err
	}
	l := link{seg: seg}
	var ok bool
	if l.part, ok, err = r.find(num); err != nil {
		return l, err
	}
	if !ok {
		return l, badParts("segment %d has none of run %d", seg, num)
	}
	if l.extents, err = r.extentsOf(&l.part); err != nil {
		return l, err
	}
	if l.marks, err = r.marksOf(&l.part); err != nil {
		return l, err
	}
	if m := s.sealedRuns.madeOf(seg); m != nil && m.unchained {
		l.part.prev, err = s.prevOf(&l, num)
	}
	return l, err
}

// remake makes the sections of a segment again, whose footer cannot be read
// for cause.
func (s *Store) remake(seg uint32, cause error) error {
	s.logger.Warn("a footer is made again in memory", "segment", seg, "cause", cause)
	d := newDerived(seg, newWhole()) // of which only parts and keys are used
	pos := wal.Position{Segment: seg, Offset: segment.HeaderBytes}
	for {
		f, next, err := s.log.ReadBatch(pos, nil)
		var damage *wal.DamageError
		switch {
		case errors.Is(err, wal.ErrEnd) || err == nil && f.Pos.Segment != seg || next.Segment != seg:
			d.end(func(uint32) uint32 { return 0 })
			m := &memSections{unchained: true}
			if err := d.write(m, older{}); err != nil {
				return err
			}
			s.sealedRuns.keepMade(seg, m)
			return nil
		case errors.As(err, &damage) && next != pos:
			pos = next // whoever reads that batch is told
			continue
		case err != nil:
			return err
		}
		if err := d.add(f); err != nil {
			return err
		}
		pos = next
	}
}

// prevOf looks for the segment with parts of the run before those of l.
func (s *Store) prevOf(l *link, num uint32) (uint32, error) {
	for _, m := range l.marks {
		if m.kind == kindAdmission && l.part.firstSeq <= 1 { // of a copy, rows stand before it
			return 0, nil
		}
	}
	if l.part.firstSeq == 1 {
		return 0, nil
	}
	for seg := l.seg - 1; seg > 0; seg-- {
		if _, ok := s.sectionsOf(seg); !ok {
			continue // dropped, or never a segment
		}
		r, err := s.partsOf(seg)
		if err == nil {
			var ok bool
			if _, ok, err = r.find(num); err == nil && ok {
				return seg, nil
			}
		}
		if err != nil {
			if err := s.remake(seg, err); err != nil {
				return 0, err
			}
			seg++ // and look again
		}
	}
	return 0, badParts("the first of run %d are not there", num)
}

// join adds the parts in one more segment.
func (r *sealedRun) join(l *link) {
	p := &l.part
	for _, e := range l.extents {
		r.extents = append(r.extents, makeExtent(e.pos(), e.seq, r.bytes+e.off()))
	}
	for _, m := range l.marks {
		at := place{l.seg, m.offset, m.entry}
		switch m.kind {
		case kindPayload:
			r.payloads = append(r.payloads, namedPlace{m.name, at})
		case kindDeleted:
			r.deleted = append(r.deleted, namedPlace{m.name, at})
		case kindLate:
			r.late = append(r.late, lateRow{at, r.lateBytes + int64(m.off)})
		case kindAdmission:
			r.admission = at
		}
	}
	if p.keyed {
		r.keyed = append(r.keyed, l.seg)
	}
	r.bytes += int64(p.bytes)
	r.lateBytes += int64(p.lateBytes)
}

// sectionsOf are the sections of a sealed segment.
func (s *Store) sectionsOf(seg uint32) (wal.Sections, bool) {
	if m := s.sealedRuns.madeOf(seg); m != nil {
		return m, true
	}
	if s.footers == nil {
		return nil, false // closed before it was booted
	}
	return s.footers.Sections(seg)
}

func (s *Store) partsOf(seg uint32) (*partsReader, error) {
	sections, ok := s.sectionsOf(seg)
	if !ok {
		return nil, badParts("segment %d has no footer", seg)
	}
	r, ok := sections.Section(sectionParts)
	if !ok {
		return nil, badParts("the footer of segment %d has none", seg)
	}
	return openParts(r, seg)
}

// lookup is what was found in sealed segments for a group of rows, outside of
// the accept step. It holds as long as the run's tail is the same.
type lookup struct {
	tail  uint32
	keys  map[hash16]keyedRow
	names map[hash16]bool
}

// lookUp looks for the keys and payload names of a group's rows in sealed
// segments.
func (s *Store) lookUp(g *group) (*lookup, error) {
	s.mu.RLock()
	c, i := s.index.at(g.num)
	found := &lookup{tail: c.tail[i]}
	s.mu.RUnlock()
	if g.plain || found.tail == 0 {
		return found, nil
	}
	sealed, err := s.sealed(g.num, found.tail)
	if err != nil {
		return nil, err
	}
	found.keys, found.names = map[hash16]keyedRow{}, map[hash16]bool{}
	for i := range g.rows {
		if w := &g.rows[i]; w.extra != nil && sealed.payload(w.name) != (place{}) {
			found.names[w.name] = true
		}
	}
	for _, seg := range sealed.keyed {
		if err := s.lookUpKeys(g, seg, found); err != nil {
			return nil, err
		}
	}
	return found, nil
}

func (s *Store) lookUpKeys(g *group, seg uint32, found *lookup) error {
	err := s.readKeys(g, seg, found)
	if err == nil || errors.Is(err, wal.ErrClosed) || s.sealedRuns.madeOf(seg) != nil {
		return err
	}
	if err := s.remake(seg, err); err != nil {
		return err
	}
	return s.readKeys(g, seg, found)
}

func (s *Store) readKeys(g *group, seg uint32, found *lookup) error {
	sections, ok := s.sectionsOf(seg)
	if !ok {
		return badKeys("there is no footer")
	}
	r, err := openKeys(sections, seg)
	if err != nil {
		return err
	}
	for i := range g.rows {
		w := &g.rows[i]
		if !w.keyed {
			continue
		}
		row, ok, err := r.find(w.key)
		if err != nil {
			return err
		}
		if ok {
			found.keys[w.key] = row
		}
	}
	return nil
}

// keyedRow finds a row by its key, among accepted and published rows and what
// was looked up; mu is held.
func (s *Store) keyedRow(k hash16, sealed *lookup) (keyedRow, bool) {
	if row, ok := s.acc.keys.entries[k]; ok {
		return row, true
	}
	if row, ok := s.index.keys[k]; ok {
		return row, true
	}
	row, ok := sealed.keys[k]
	return row, ok
}

// hasName reports whether the run has a payload of that name, accepted or
// published or found before; mu is held.
func (s *Store) hasName(k hash16, sealed *lookup) bool {
	if _, ok := s.acc.names.entries[k]; ok {
		return true
	}
	_, ok := s.index.names[k]
	return ok || sealed.names[k]
}
