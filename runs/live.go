package runs

import (
	"crypto/subtle"
	"sync/atomic"
	"time"

	"durafs/cas"
)

// accepted is what accept steps know beyond the index: changes that were given
// to the log and are not yet behind their barrier. It is dropped when the log
// refuses them. Store.mu guards it.
type accepted struct {
	// runs holds the runs of this boot's active set, always, and any other run
	// as long as a change of it is under way.
	runs     map[uint32]*live
	ids      overlay[string, uint32]
	starts   overlay[hash16, startKey]
	keys     overlay[hash16, keyedRow]
	names    overlay[hash16, acceptedName] // payloads, by run and name
	posts    overlay[hash16, threadKey]
	chains   map[*Chain]struct{} // of streams under way
	journals map[string]uint64   // LSN of the newest change of each, where one is under way

	bytes int64 // of all runs, as quota.go counts them

	settings    *settings
	settingsLSN uint64 // of their newest change, 0 if that is published
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
	bytes     int64 // as quota.go counts them

	rec *record // the newest accepted, nil where it was not read
	pub *record // the newest published, nil where it was not read

	lastLSN uint64 // of its newest accepted batch; 0: all of it is published

	tools *tools // nil where they were not read

	// wrote is the LSN of the first thing that its agent wrote in this boot, and
	// denied says that a write of it found no room.
	wrote  uint64
	denied bool

	// window is when the time would have ended in which only an attach takes it,
	// where an accepted change has ended it before; 0 for none.
	window time.Duration

	lock  string        // its name, "" for none; set with rec
	lease time.Duration // 0 for none; set with rec
	heard atomic.Int64  // boot time of the agent's last request

	// token is the writer token of epoch, "" where it was not made: it spares
	// an active run the making for every request.
	token string
}

// holds reports whether a request's token is the one of the present epoch, as
// far as that is known without making it.
func (l *live) holds(writer string) bool {
	return l.token != "" && subtle.ConstantTimeCompare([]byte(writer), []byte(l.token)) == 1
}

// acceptedName is a payload that is under way, or its deletion.
type acceptedName struct {
	id      cas.ID
	deleted bool
}

func newAccepted() accepted {
	return accepted{
		runs: map[uint32]*live{}, chains: map[*Chain]struct{}{}, ids: newOverlay[string, uint32](), starts: newOverlay[hash16, startKey](),
		keys: newOverlay[hash16, keyedRow](), names: newOverlay[hash16, acceptedName](), posts: newOverlay[hash16, threadKey](), settings: new(settings), journals: map[string]uint64{},
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

// view is the accepted state of a run, nil if there is none; a run whose
// admission is being undone has no phase. What it returns is the accept step's
// own until it says commit; mu is held.
func (s *Store) view(num uint32) *live {
	if num == 0 {
		return nil
	}
	if l := s.acc.runs[num]; l != nil {
		return l
	}
	return s.indexed(num)
}

// gone reports whether there is no such run, or will be none.
func (l *live) gone() bool { return l == nil || l.phase == PhaseNone }

// indexed is a run's state as the index has it.
func (s *Store) indexed(num uint32) *live {
	c, i := s.index.at(num)
	if c.phase[i] == PhaseNone {
		return nil
	}
	l := &live{
		num: num, phase: c.phase[i], revision: uint64(c.revision[i]), epoch: uint64(c.epoch[i]),
		admission: c.admission[i], uid: c.uid[i], seq: uint64(c.lastSeq[i]), ordinals: c.payloads[i],
		bytes: c.bytes(i),
	}
	l.heard.Store(int64(s.clock.Boot()))
	l.lateRows = int(s.index.late[num].rows)
	return l
}

// find resolves an id among accepted and published runs; mu is held.
func (s *Store) find(id string) uint32 {
	if num, ok := s.acc.ids.entries[id]; ok {
		return num
	}
	return s.index.find(id)
}
