package runs

import (
	"cmp"
	"hash/maphash"
	"maps"
	"slices"
	"time"

	"durafs/wal"
)

// index is what memory knows of every run: columns in chunks of flat arrays,
// and arenas for what has no fixed size. A row costs some 113 bytes, its
// labels' text apart; there is no pointer per run.
//
// It holds published values only, and is guarded by Store.mu.
type index struct {
	chunks  []*columns
	newest  uint32   // highest number of a published run
	byAdmit []uint32 // run numbers in the order of their admissions
	counts  [phaseCount]int
	phased  int64 // when a run last got into another phase, or later

	text   text
	ids    ids
	seed   maphash.Seed // of the column thread
	starts startTable

	// What lies in segments that are not sealed yet is found in memory; where
	// the rest lies their footers say, see sealed.go.
	recent map[uint32]*recent
	keys   map[hash16]keyedRow // of rows, by run and key
	names  map[hash16]place    // of payloads, by run and name

	// What few runs have is in maps: how many late writes, the outbox of a
	// settlement under way, how many payloads an owner has deleted, deliveries
	// that wait.
	late       map[uint32]lateCount
	outboxes   map[uint32]place
	deleted    map[uint32]uint32
	deliveries deliveries

	bytes int64 // of all runs, as quota.go counts them

	whole
	threads     map[string]*thread // by name
	threadOrder threadOrder        // those that have messages

	removed bool // a run that was loaded was removed; see endRestore

	// staged are the runs to come: of which there are rows and payloads, and
	// not yet an admission. See staged.go.
	staged map[uint32]struct{}

	links links

	// live holds the runs that are not finished, by phase.
	live [phaseCount]map[uint32]struct{}

	// damaged are the runs of which something is lost, also those of which
	// nothing else is known; lostAny says that it may be of any run.
	damaged map[uint32]*damage
	lostAny bool
}

// chunkRuns is how many runs a chunk of columns holds.
const chunkRuns = 4096

type columns struct {
	phase     [chunkRuns]Phase
	flags     [chunkRuns]runFlags
	revision  [chunkRuns]uint32
	epoch     [chunkRuns]uint32
	uid       [chunkRuns]uint32
	text      [chunkRuns]uint32 // id, parent, labels
	thread    [chunkRuns]uint32 // hash of the thread's name, 0 for none
	record    [chunkRuns]place  // of the newest record entry
	admission [chunkRuns]uint64
	started   [chunkRuns]int64 // Unix nanoseconds
	changed   [chunkRuns]int64
	heartbeat [chunkRuns]int64
	lastSeq   [chunkRuns]uint32
	payloads  [chunkRuns]uint32 // how many ordinals were given
	tail      [chunkRuns]uint32 // the last sealed segment with parts of it, 0 for none
	logBytes  [chunkRuns]int64

	// otherBytes are those that count beside the log's; see quota.go.
	otherBytes [chunkRuns]int64
}

type runFlags uint8

const (
	flagJournaled runFlags = 1 << iota // the terminal journal row was written
	flagThreaded                       // the thread's terminal message was written
	flagAnswered                       // the terminal payload belongs to the outcome
	flagPinned                         // an owner keeps the run's log
	flagCompacted                      // the run's log has given way

	// recordFlags are those that each record says anew.
	recordFlags = flagAnswered | flagPinned | flagCompacted
)

// place tells where an entry is: a frame and the entry's number in it.
type place struct {
	segment, offset uint32
	entry           uint32
}

func makePlace(pos wal.Position, entry int) place {
	return place{pos.Segment, pos.Offset, uint32(entry)}
}

func (p place) pos() wal.Position { return wal.Position{Segment: p.segment, Offset: p.offset} }

type (
	hash16 [16]byte

	// keyedRow is a row that was given with a key: its body's hash tells a
	// repetition from a conflict.
	keyedRow struct {
		body hash16
		seq  uint32
	}
	// startKey is an idempotency key of a start, and the hash of its body.
	startKey struct {
		body hash16
		num  uint32
	}
	// lateCount is how many late writes a run has.
	lateCount struct {
		rows  uint32
		bytes int64
	}
	lateRow struct {
		at  place
		off int64
	}
)

func newIndex() index {
	x := index{
		ids: newIDs(), seed: maphash.MakeSeed(),
		recent: map[uint32]*recent{}, keys: map[hash16]keyedRow{}, names: map[hash16]place{},
		late: map[uint32]lateCount{}, outboxes: map[uint32]place{}, deleted: map[uint32]uint32{}, deliveries: newDeliveries(), whole: newWhole(), threads: map[string]*thread{},
		damaged: map[uint32]*damage{}, staged: map[uint32]struct{}{},
	}
	for p := range x.live {
		if p != int(PhaseNone) && !Phase(p).sealed() {
			x.live[p] = map[uint32]struct{}{}
		}
	}
	return x
}

// at is the columns of a run and its row in them. A number that was never
// published has the phase PhaseNone.
func (x *index) at(num uint32) (*columns, int) {
	c := int(num / chunkRuns)
	if c >= len(x.chunks) || x.chunks[c] == nil {
		return &noColumns, 0
	}
	return x.chunks[c], int(num % chunkRuns)
}

var noColumns columns // of no run; never written

func (x *index) grow(num uint32) (*columns, int) {
	c := int(num / chunkRuns)
	for c >= len(x.chunks) {
		x.chunks = append(x.chunks, nil)
	}
	if x.chunks[c] == nil {
		x.chunks[c] = new(columns)
	}
	return x.chunks[c], int(num % chunkRuns)
}

func (x *index) phase(num uint32) Phase {
	c, i := x.at(num)
	return c.phase[i]
}

func (x *index) revision(num uint32) uint64 {
	c, i := x.at(num)
	return uint64(c.revision[i])
}

// find resolves an id, 0 if there is no such run.
func (x *index) find(id string) uint32 {
	return x.ids.find(appendTextID(nil, id), x.idBytes)
}

func (x *index) idBytes(num uint32) []byte {
	c, i := x.at(num)
	id, _ := cutTextID(x.text.from(c.text[i]))
	return id
}

// startedBy is the uid that started a run.
func (x *index) startedBy(num uint32) uint32 {
	c, i := x.at(num)
	return c.uid[i]
}

func (x *index) id(num uint32) string { return textID(x.idBytes(num)) }

// admit enters a run.
func (x *index) admit(num uint32, a *admission) (*columns, int) {
	c, i := x.grow(num)
	c.text[i] = x.text.add(encodeText(a.id, a.parent, a.labels))
	if thread := a.labels["thread"]; thread != "" {
		c.thread[i] = x.threadHash(thread)
	}
	x.ids.add(num, x.idBytes)
	x.byAdmit = append(x.byAdmit, num)
	x.newest = max(x.newest, num)
	return c, i
}

func (x *index) threadHash(name string) uint32 {
	return uint32(maphash.String(x.seed, name)) | 1
}

// setPhase changes a run's phase, and the counts of phases with it.
func (x *index) setPhase(num uint32, p Phase) {
	c, i := x.at(num)
	if was := c.phase[i]; was != PhaseNone {
		x.counts[was]--
		delete(x.live[was], num)
	}
	if p != PhaseNone {
		x.counts[p]++
	}
	if live := x.live[p]; live != nil {
		live[num] = struct{}{}
	}
	c.phase[i] = p
}

// inPhase lists the runs in a phase that is not final, in the order of their
// admissions.
func (x *index) inPhase(p Phase) []uint32 {
	nums := slices.Collect(maps.Keys(x.live[p]))
	slices.SortFunc(nums, func(a, b uint32) int { return cmp.Compare(x.admission(a), x.admission(b)) })
	return nums
}

// run is the row as readers get it.
func (x *index) run(num uint32) (Run, bool) {
	c, i := x.at(num)
	if c.phase[i] == PhaseNone {
		return Run{}, false
	}
	r := Run{
		Ref: Ref(num), ID: x.id(num), Phase: c.phase[i],
		Revision: uint64(c.revision[i]), Admission: c.admission[i],
		StartedAt: unixTime(c.started[i]), ChangedAt: unixTime(c.changed[i]),
		Rows: uint64(c.lastSeq[i]), LastSeq: uint64(c.lastSeq[i]), LogBytes: c.logBytes[i],
		Payloads: c.payloads[i], Deleted: x.deleted[num], Bytes: c.bytes(i),
	}
	if l, ok := x.late[num]; ok {
		r.LateRows, r.LateBytes = uint64(l.rows), l.bytes
	}
	if d := x.damaged[num]; d != nil {
		r.Damaged, r.Generation, r.Rows = true, d.changes, d.rowsLeft(c.lastSeq[i])
	}
	return r, true
}

func unixTime(ns int64) time.Time { return time.Unix(0, ns).UTC() }

// labels calls fn for a run's labels, in the order of their names, until it
// returns false.
func (x *index) labels(num uint32, fn func(name, value []byte) bool) {
	c, i := x.at(num)
	_, rest := cutTextID(x.text.from(c.text[i]))
	_, rest = cutTextID(rest)
	eachLabel(rest, fn)
}

// parent is the id of a run's parent as it stands in the arena.
func (x *index) parent(num uint32) []byte {
	c, i := x.at(num)
	_, rest := cutTextID(x.text.from(c.text[i]))
	parent, _ := cutTextID(rest)
	return parent
}

// label is the value of one label, nil if the run has no such label.
func (x *index) label(num uint32, name string) (value []byte) {
	x.labels(num, func(k, v []byte) bool {
		if string(k) == name {
			value = v
			return false
		}
		return true
	})
	return value
}
