package runs

import (
	"bytes"
	"encoding/hex"
	"io"
	"maps"
	"slices"

	"durafs/cas"
	"durafs/wal"
)

// derived is what the batches of one segment come to: its run table, and where
// in it each run's parts lie. It is made of the segment's batches alone, so
// that it is the same whenever it is made.
//
// What add does with an entry and what apply (apply.go) does have to agree: a
// test holds an index that was loaded from tables against one that was
// replayed.
type derived struct {
	seg     uint32
	newest  uint32 // run number
	packs   map[uint32]uint32
	whole   whole // as the segment leaves it
	runs    map[uint32]*derivedRun
	keys    []keyPart
	names   []hash16 // of payloads, also of those that were deleted
	threads []byte   // events of threads

	// apart are the runs that have lost something, and listed those of them that
	// the segment has something of: see apart.go.
	apart  map[uint32]bool
	listed map[uint32]bool

	// ref is the table that was written, and merged how many it took over.
	ref    tableRef
	merged int

	batch batch // the one that add is at
}

type derivedRun struct {
	row tableRow
	part
	extents []extent // offsets begin with 0 in each segment
	marks   []mark
	outbox  extraKind // 0 for none
	boxAt   place
	deleted uint32                // payloads
	sinks   map[sinkID]tableExtra // what became of deliveries; nil for none
}

// newDerived begins with a segment; before is what the segments before it leave,
// and becomes its own.
func newDerived(seg uint32, before whole) *derived {
	return &derived{seg: seg, whole: before, packs: map[uint32]uint32{}, runs: map[uint32]*derivedRun{}, listed: map[uint32]bool{}}
}

// add adds the segment's next batch.
func (d *derived) add(f wal.Frame) error {
	b := &d.batch
	if err := b.decode(f.Payload); err != nil {
		return err
	}
	var seqs, ordinals [4]uint64
	next, ordinal := seqs[:0], ordinals[:0]
	for _, r := range b.stamp.runs {
		next, ordinal = append(next, r.seq), append(ordinal, uint64(r.ordinal))
	}
	for n, e := range b.entries {
		if e.run == 0 {
			if err := d.addStore(e, f.LSN, makePlace(f.Pos, n)); err != nil {
				return err
			}
			continue
		}
		i := b.stamp.find(e.run)
		at := derivedAt{lsn: f.LSN, time: b.stamp.at, pos: f.Pos, place: makePlace(f.Pos, n), seq: next[i], ordinal: ordinal[i]}
		add := d.addEntry
		if _, apart := d.apart[e.run]; apart {
			add = d.addApart
		}
		if err := add(e, at); err != nil {
			return err
		}
		switch e.kind {
		case kindRow:
			next[i]++
		case kindPayload:
			ordinal[i]++
		}
	}
	return nil
}

// derivedAt is where and when an entry is.
type derivedAt struct {
	lsn          uint64
	time         int64
	pos          wal.Position
	place        place
	seq, ordinal uint64
}

func (d *derived) addEntry(e entry, at derivedAt) (err error) {
	if e.kind == kindRemoved {
		return d.addRemoval(e, at.lsn)
	}
	r := d.runs[e.run]
	if r == nil {
		r = &derivedRun{row: tableRow{run: e.run}}
		d.runs[e.run] = r
		d.newest = max(d.newest, e.run)
	}
	changes := true
	switch e.kind {
	case kindAdmission:
		err = d.addAdmission(r, e, at)
	case kindRecord:
		err = r.addRecord(e, at)
	case kindRow:
		err = d.addRow(r, e, at)
	case kindPayload:
		err = d.addPayload(r, e, at)
	case kindLate:
		r.marks = append(r.marks, mark{kind: kindLate, offset: at.pos.Offset, entry: at.place.entry, off: r.lateBytes})
		r.lateRows++
		r.lateBytes += uint64(lateLineBytes(e.body))
	case kindBeat:
		r.row.heartbeat, changes = at.time, false
	case kindJournal, kindThread:
		r.row.flags |= onceFlag(e)
		if changes = false; e.kind == kindJournal {
			err = d.whole.applyJournal(e, at.lsn, at.place)
		} else {
			err = d.addThread(e, at.lsn, at.place)
		}
	case kindOutbox:
		r.outbox, r.boxAt, changes = extraOutbox, at.place, false
	case kindOutboxDone:
		if r.outbox == extraOutbox {
			r.outbox = 0
		} else {
			r.outbox = extraOutboxDone
		}
		r.boxAt, changes = place{}, false
	case kindDeleted:
		err = d.addDeleted(r, e, at)
	case kindDelivery, kindDelivered:
		changes, err = false, r.addDelivery(e, at)
	case kindStaged:
		r.row.flags, changes = r.row.flags|flagStaged, false
	case kindClaim, kindOutcome: // see apply
		r.row.otherBytes += int64(len(e.body))
		changes = false
	}
	if changes {
		r.row.changed = max(r.row.changed, at.time)
	}
	return err
}

// addDelivery adds a delivery, or its end.
func (r *derivedRun) addDelivery(e entry, at derivedAt) error {
	next := tableExtra{run: e.run, kind: extraDelivered}
	if e.kind == kindDelivered {
		sink, err := parseDelivered(e)
		if err != nil {
			return err
		}
		next.sink = sink
	} else {
		d, err := parseDelivery(e)
		if err != nil {
			return err
		}
		next.kind, next.sink, next.at = extraDelivery, sinkIDOf(d.sink), at.place
		if d.parked {
			next.flags |= extraParked
		}
		if d.born {
			next.flags |= extraBorn
		}
	}
	if r.sinks == nil {
		r.sinks = map[sinkID]tableExtra{}
	}
	if next, sink := r.sinks[next.sink].and(next), next.sink; next.kind == 0 {
		delete(r.sinks, sink)
	} else {
		r.sinks[sink] = next
	}
	return nil
}

// addStore adds what is of the whole store.
func (d *derived) addStore(e entry, lsn uint64, at place) error {
	if e.kind == kindThread {
		return d.addThread(e, lsn, at)
	}
	return d.whole.applySetting(e)
}

func (d *derived) addThread(e entry, lsn uint64, at place) error {
	v, err := eventOf(e, lsn, at)
	if err == nil {
		d.threads = v.append(d.threads)
	}
	return err
}

// addRemoval: of the run nothing is left but that it is gone, and not even that
// if it was admitted here. See applyRemoval.
func (d *derived) addRemoval(e entry, lsn uint64) error {
	gone, err := parseRemoval(e)
	if err != nil {
		return err
	}
	d.removeFromStore(e.run, gone, lsn)
	r := d.runs[e.run]
	delete(d.runs, e.run)
	d.newest = max(d.newest, e.run)
	if r != nil && r.row.admission != 0 {
		return nil
	}
	row := tableRow{run: e.run, flags: flagRemoved}
	if key, err := hex.DecodeString(gone.Key); err == nil && len(key) == len(hash16{}) {
		row.flags, row.text = row.flags|flagKeyed, key
	}
	d.runs[e.run] = &derivedRun{row: row}
	return nil
}

// removeFromStore takes what an admission made out of what is of the whole store.
func (d *derived) removeFromStore(run uint32, gone *removal, lsn uint64) {
	if name := gone.Labels["thread"]; name != "" {
		v := threadEvent{message: message{lsn: lsn, run: run}, name: name, removed: true}
		d.threads = v.append(d.threads)
	}
	if j := d.whole.journals[gone.Journal]; j != nil {
		j.remove(gone.Admission, lsn)
	}
}

// onceFlag is the flag of what a run's end writes once, 0 for other entries.
func onceFlag(e entry) runFlags {
	switch {
	case e.flags&onceTerminal == 0:
		return 0
	case e.kind == kindJournal:
		return flagJournaled
	}
	return flagThreaded
}

func (d *derived) addAdmission(r *derivedRun, e entry, at derivedAt) error {
	a, err := parseAdmission(e)
	if err != nil {
		return err
	}
	r.row.admission, r.row.started, r.row.heartbeat = at.lsn, at.time, at.time
	r.row.text = nil
	if a.keyed {
		r.row.flags |= flagKeyed
		r.row.text = append(r.row.text, a.key[:]...)
	}
	r.row.text = append(r.row.text, encodeText(a.id, a.parent, a.labels)...)
	r.marks = append(r.marks, mark{kind: kindAdmission, offset: at.pos.Offset, entry: at.place.entry})
	return nil
}

func (r *derivedRun) addRecord(e entry, at derivedAt) error {
	h, _, err := parseRecordHead(e)
	if err != nil {
		return err
	}
	r.row.revision, r.row.epoch, r.row.uid = uint32(h.revision), uint32(h.epoch), h.uid
	r.row.phase, r.row.record = h.phase, at.place
	r.row.flags = r.row.flags&^recordFlags | h.flags
	return nil
}

func (d *derived) addRow(r *derivedRun, e entry, at derivedAt) error {
	w, err := parseRow(e)
	if err != nil {
		return err
	}
	if r.rows == 0 {
		r.firstSeq = uint32(at.seq)
	}
	end := int64(r.bytes) + int64(lineBytes(w.text, w.flags, at.seq))
	if !gathers(r.extents, at.pos, end) {
		r.extents = append(r.extents, makeExtent(at.pos, uint32(at.seq), int64(r.bytes)))
	}
	r.rows, r.bytes = r.rows+1, uint64(end)
	r.row.lastSeq, r.row.bytes = uint32(at.seq), r.bytes
	if w.flags&rowKeyed != 0 {
		r.keyed = true
		d.keys = append(d.keys, keyPart{w.key, w.body, uint32(at.seq)})
	}
	return nil
}

func (d *derived) addPayload(r *derivedRun, e entry, at derivedAt) error {
	p, err := parsePayload(e)
	if err != nil {
		return err
	}
	d.notePack(p.ref.Hint)
	name := nameHash(e.run, p.name)
	d.names = append(d.names, name)
	r.marks = append(r.marks, mark{kind: kindPayload, offset: at.pos.Offset, entry: at.place.entry, name: name})
	r.row.payloads = uint32(at.ordinal) + 1
	r.row.otherBytes += p.ref.Bytes
	return nil
}

// notePack notes up to where a pack is referred to.
func (d *derived) notePack(h cas.Hint) {
	if h != (cas.Hint{}) {
		d.packs[h.Pack] = max(d.packs[h.Pack], h.End)
	}
}

// end completes what was added: prev tells, of each run, the segment before in
// which it has parts, 0 for none.
func (d *derived) end(prev func(run uint32) uint32) {
	for run, r := range d.runs {
		if r.hasParts() {
			r.prev = prev(run)
			r.row.tail = d.seg
		}
	}
	slices.SortFunc(d.keys, func(a, b keyPart) int { return bytes.Compare(a.key[:], b.key[:]) })
}

// sorted are the run numbers in order.
func (d *derived) sorted() []uint32 { return slices.Sorted(maps.Keys(d.runs)) }

func (d *derived) packList() []tablePack { return sortedPacks(d.packs) }

func (d *derived) extraList() []tableExtra {
	extras := map[extraKey]tableExtra{}
	add := func(e tableExtra) { extras[e.key()] = e }
	for run, r := range d.runs {
		if r.outbox != 0 {
			add(tableExtra{run: run, kind: r.outbox, at: r.boxAt})
		}
		if r.lateRows > 0 {
			add(tableExtra{run: run, kind: extraLate, rows: r.lateRows, bytes: r.lateBytes})
		}
		for _, e := range r.sinks {
			add(e)
		}
		if r.deleted > 0 {
			add(tableExtra{run: run, kind: extraDeleted, rows: r.deleted})
		}
	}
	return sortedExtras(extras)
}

// derivedRows gives the rows of what was derived.
type derivedRows struct {
	d    *derived
	nums []uint32
	made bool
}

func (s *derivedRows) next(r *tableRow) (bool, error) {
	if !s.made {
		s.nums, s.made = s.d.sorted(), true
	}
	if len(s.nums) == 0 {
		return false, nil
	}
	*r = s.d.runs[s.nums[0]].row
	s.nums = s.nums[1:]
	return true, nil
}

// sectionWriter is a wal.FooterWriter, or one in memory.
type sectionWriter interface {
	Begin(kind uint32)
	io.Writer
}

// write writes the sections; before are the tables that its own takes over.
func (d *derived) write(w sectionWriter, before older) error {
	w.Begin(sectionTable)
	head, err := writeMerged(w, before.tables, d)
	if err != nil {
		return err
	}
	d.ref, d.merged = tableRef{head.from, head.to, head.rows}, len(before.tables)
	if err := d.writeApart(w); err != nil {
		return err
	}
	if err := d.writeThreads(w, before.threads); err != nil {
		return err
	}
	w.Begin(sectionWhole)
	if _, err := w.Write(d.whole.encode(d.seg)); err != nil {
		return err
	}
	w.Begin(sectionParts)
	if err := d.writeParts(w); err != nil {
		return err
	}
	return d.writeKeys(w)
}

// memSections are the sections of a footer that could not be used, made again
// and kept in memory.
type memSections struct {
	bytes map[uint32][]byte
	kind  uint32
	// unchained: the parts do not say which segment is before them; see prevOf.
	unchained bool
}

func (m *memSections) Begin(kind uint32) {
	if m.bytes == nil {
		m.bytes = map[uint32][]byte{}
	}
	m.kind = kind
	m.bytes[kind] = []byte{}
}

func (m *memSections) Write(p []byte) (int, error) {
	m.bytes[m.kind] = append(m.bytes[m.kind], p...)
	return len(p), nil
}

func (m *memSections) Section(kind uint32) (*io.SectionReader, bool) {
	b, ok := m.bytes[kind]
	return io.NewSectionReader(bytes.NewReader(b), 0, int64(len(b))), ok
}
