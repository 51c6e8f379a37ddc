package runs

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"encoding/json"
	"slices"
	"time"
)

// Bounds of a journal: beyond them its oldest rows leave, ordinary ones first.
const (
	JournalRowBytesMax = 4 << 10
	JournalRowsMax     = 500
	JournalBytesMax    = 200 << 10
	// journalDroppedMax is how many rows that left are remembered, so that an
	// admission that is undone leaves the journal as it was.
	journalDroppedMax = 64
)

// journalEntry is the body of a journal entry: length (1 byte) and name of the
// target, its generation (8) as the run's admission saw it, then the row, a
// JSON object.
//
// Where the row goes is decided when the entry is applied: to the target if it
// is enrolled in that generation, else to master. So a row that comes late
// never brings back a target that was removed.
type journalEntry struct {
	target string
	gen    uint64
	json   []byte
}

func (j *journalEntry) entry(flags uint8, run uint32) entry {
	b := make([]byte, 0, 1+len(j.target)+8+len(j.json))
	b = append(append(b, byte(len(j.target))), j.target...)
	b = binary.LittleEndian.AppendUint64(b, j.gen)
	return entry{kind: kindJournal, flags: flags, run: run, body: append(b, j.json...)}
}

func parseJournal(e entry) (*journalEntry, error) {
	r := reader{b: e.body}
	j := &journalEntry{target: string(r.take(int(r.byte()))), gen: r.uint64()}
	j.json = r.rest()
	if r.bad || j.target == "" || openBrace(j.json) != 0 || len(j.json) > JournalRowBytesMax {
		return nil, badBatch("a journal row of it is not as it should be")
	}
	return j, nil
}

// journalRow is the entry of a row in the journal of a run's target.
func journalRow(num uint32, rec *record, flags uint8, pairs ...any) entry {
	text := object(pairs...)
	if len(text) > JournalRowBytesMax { // escapes can make a preview longer
		text = object(dropPair(pairs, "summary", "task")...)
	}
	return (&journalEntry{rec.Target, rec.TargetGen, text}).entry(flags, num)
}

func dropPair(pairs []any, names ...string) (kept []any) {
	for i := 0; i < len(pairs); i += 2 {
		if !slices.Contains(names, pairs[i].(string)) {
			kept = append(kept, pairs[i], pairs[i+1])
		}
	}
	return kept
}

// goesTo is the journal that an entry's row is written to.
func (x *settings) goesTo(j *journalEntry) (target string, strayed bool) {
	t := x.target(j.target)
	if t.Enrolled && (j.target == targetMaster || t.Generation == j.gen) {
		return j.target, false
	}
	return targetMaster, true
}

// journal is the rows of one target: a ring in two parts, each in the order of
// LSNs, so that ordinary rows can leave first.
type journal struct {
	ordinary, ends journalRows
	bytes          int
	version        uint64 // LSN of its last change, 0 for a journal that was never written
	dropped        []journalPlace
}

type journalRows struct {
	rows []journalPlace
	gone int // of rows, at its beginning
}

type journalPlace struct {
	at      place
	lsn     uint64
	bytes   uint32
	once    bool // a run's end
	strayed bool // it was meant for another target
}

func (r *journalRows) live() []journalPlace { return r.rows[r.gone:] }

func (r *journalRows) pop() journalPlace {
	p := r.rows[r.gone]
	r.gone++
	if r.gone > JournalRowsMax {
		r.rows = append(r.rows[:0], r.rows[r.gone:]...)
		r.gone = 0
	}
	return p
}

// insert puts a row in its place by LSN.
func (r *journalRows) insert(p journalPlace) {
	at, _ := slices.BinarySearchFunc(r.live(), p.lsn, func(q journalPlace, lsn uint64) int { return cmp.Compare(q.lsn, lsn) })
	r.rows = slices.Insert(r.rows, r.gone+at, p)
}

func (j *journal) part(p journalPlace) *journalRows {
	if p.once {
		return &j.ends
	}
	return &j.ordinary
}

func (j *journal) add(p journalPlace) {
	part := j.part(p)
	part.rows = append(part.rows, p)
	j.bytes += int(p.bytes)
	j.version = p.lsn
	j.trim()
}

func (j *journal) full(more int, bytes uint32) bool {
	return len(j.ordinary.live())+len(j.ends.live())+more > JournalRowsMax || j.bytes+int(bytes) > JournalBytesMax
}

func (j *journal) trim() {
	for j.full(0, 0) {
		part := &j.ends
		if len(j.ordinary.live()) > 0 {
			part = &j.ordinary
		}
		p := part.pop()
		j.bytes -= int(p.bytes)
		if len(j.dropped) == journalDroppedMax {
			j.dropped = append(j.dropped[:0], j.dropped[1:]...)
		}
		j.dropped = append(j.dropped, p)
	}
}

// remove takes out the ordinary row that the batch lsn wrote, and lets those
// come back that had left since for want of room; false if it is not there.
func (j *journal) remove(lsn, now uint64) bool {
	live := j.ordinary.live()
	at, ok := slices.BinarySearchFunc(live, lsn, func(q journalPlace, lsn uint64) int { return cmp.Compare(q.lsn, lsn) })
	if !ok {
		return false
	}
	j.bytes -= int(live[at].bytes)
	j.ordinary.rows = slices.Delete(j.ordinary.rows, j.ordinary.gone+at, j.ordinary.gone+at+1)
	for n := len(j.dropped); n > 0 && !j.full(1, j.dropped[n-1].bytes); n-- {
		p := j.dropped[n-1]
		j.dropped = j.dropped[:n-1]
		j.part(p).insert(p)
		j.bytes += int(p.bytes)
	}
	j.version = now
	return true
}

func (x *whole) applyJournal(e entry, lsn uint64, at place) error {
	j, err := parseJournal(e)
	if err != nil {
		return err
	}
	target, strayed := x.settings.goesTo(j)
	ring := x.journals[target]
	if ring == nil {
		ring = new(journal)
		x.journals[target] = ring
	}
	ring.add(journalPlace{at: at, lsn: lsn, bytes: uint32(len(j.json)), once: e.flags&onceTerminal != 0, strayed: strayed})
	return nil
}

// journalVersion is the LSN of a journal's newest accepted change, 0 if it was
// never written; mu is held.
func (s *Store) journalVersion(target string) uint64 {
	if v, ok := s.acc.journals[target]; ok {
		return v
	}
	if j := s.index.journals[target]; j != nil {
		return j.version
	}
	return 0
}

// JournalRow is a row of a target's journal.
type JournalRow struct {
	LSN uint64
	At  time.Time
	// JSON is the row: its time put first, and where it strayed from a target
	// that is gone, a note at its end.
	JSON json.RawMessage
}

// Journal reads the rows of a target's journal that are above the LSN after,
// oldest first. In place of one that cannot be read stands one that says so.
// Needs an owner.
func (s *Store) Journal(c Caller, target string, after uint64) ([]JournalRow, error) {
	if !c.owns() {
		return nil, refuse(NotOwner, "the journal is not this caller's to read")
	}
	target, err := ParseTarget(target)
	if err != nil {
		return nil, err
	}
	s.mu.RLock()
	var places []journalPlace
	j := s.index.journals[target]
	if j != nil {
		places = slices.Concat(j.ordinary.live(), j.ends.live())
	}
	known := j != nil || s.index.settings.target(target).Generation > 0
	s.mu.RUnlock()
	if !known {
		return nil, targetNotEnrolled(target)
	}
	slices.SortFunc(places, func(a, b journalPlace) int { return cmp.Compare(a.lsn, b.lsn) })
	rows := []JournalRow{}
	for _, p := range places {
		if p.lsn <= after {
			continue
		}
		row, err := s.readJournal(p)
		if isDamage(err) {
			row, err = JournalRow{LSN: p.lsn, JSON: object("type", "damaged")}, nil
		}
		if err != nil {
			return nil, err
		}
		rows = append(rows, row)
	}
	return rows, nil
}

func (s *Store) readJournal(p journalPlace) (JournalRow, error) {
	b, e, err := s.readEntry(p.at, kindJournal)
	if err != nil {
		return JournalRow{}, err
	}
	j, err := parseJournal(e)
	if err != nil {
		return JournalRow{}, err
	}
	text := append([]byte(`{"time":`), mustJSON(unixTime(b.stamp.at))...)
	if rest := bytes.TrimSpace(j.json[1:]); !bytes.Equal(rest, []byte("}")) {
		text = append(text, ',')
	}
	text = append(text, j.json[1:]...)
	if p.strayed {
		text = append(bytes.TrimSuffix(text, []byte("}")), `,"target":`...)
		text = append(append(text, mustJSON(j.target)...), `,"note":"this target is not enrolled any more as it was when the run began"}`...)
	}
	return JournalRow{LSN: p.lsn, At: unixTime(b.stamp.at), JSON: text}, nil
}
