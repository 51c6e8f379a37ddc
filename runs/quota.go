package runs

import (
	"io"

	"durafs/wal"
)

// A run counts for its log as it reads, its payloads as they were given
// (however much of their bytes others share), and the claims and outcomes of
// its calls, which stand beside the rows that tell of them. A store counts for
// its runs together. That is a function of what was accepted, of nothing
// physical: the same after a restart, from footers, and wherever a copy is
// opened. What an owner deletes counts no more from that moment on.
//
// Two bounds may be set on it, of a run and of the store. What would pass one
// is refused before anything is written: starts, rows, payloads, claims. What
// ends work that was begun is taken beyond it: outcomes (with the sentinel in
// place of a projection whose images have no room), settlement with its answer,
// cancellation, and the store's own rows.

// quota is what was configured; 0 for no bound.
type quota struct {
	runBytesMax, storeBytesMax int64
}

// Usage is what the store's runs count for, and the bounds, 0 for none.
type Usage struct {
	Bytes         int64 `json:"bytes"`
	RunBytesMax   int64 `json:"run_bytes_max"`
	StoreBytesMax int64 `json:"store_bytes_max"`
}

// Usage tells what the runs count for now.
func (s *Store) Usage() Usage {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return Usage{s.index.bytes, s.quota.runBytesMax, s.quota.storeBytesMax}
}

// bytes is what the run in row i counts for.
func (c *columns) bytes(i int) int64 { return c.logBytes[i] + c.otherBytes[i] }

func (x *index) setLogBytes(c *columns, i int, n int64) {
	x.bytes += n - c.logBytes[i]
	c.logBytes[i] = n
}

func (x *index) addOther(c *columns, i int, n int64) {
	x.bytes += n
	c.otherBytes[i] += n
}

// grow counts n bytes for a run, as accepted; mu is held.
func (s *Store) grow(l *live, n int64) {
	l.bytes += n
	s.acc.bytes += n
}

// recount lets a run's log have n bytes, published and accepted, where that is
// no change of the run but what is left of it; mu is held.
func (s *Store) recount(num uint32, n int64) {
	c, i := s.index.at(num)
	by := n - c.logBytes[i]
	s.index.setLogBytes(c, i, n)
	s.acc.bytes += by
	if l := s.acc.runs[num]; l != nil {
		l.bytes += by
	}
}

// counts is what an entry counts for; a row would have the number seq.
func (e *entry) counts(seq uint64) int64 {
	switch e.kind {
	case kindRow:
		if w, err := parseRow(*e); err == nil {
			return int64(lineBytes(w.text, w.flags, seq))
		}
	case kindPayload:
		if p, err := parsePayload(*e); err == nil {
			return p.ref.Bytes
		}
	case kindClaim, kindOutcome:
		return int64(len(e.body))
	}
	return 0
}

// noRoom is why batches of the run l, which carry what is called field, are not
// to be accepted, nil if there is room for them; mu is held.
func (s *Store) noRoom(l *live, field string, batches ...*wal.Batch) *Refusal {
	if s.quota == (quota{}) {
		return nil
	}
	n, seq := int64(0), l.seq
	for _, b := range batches {
		entries := b.Value.(*batch).entries
		for i := range entries {
			if entries[i].kind == kindRow {
				seq++
			}
			n += entries[i].counts(seq)
		}
	}
	return s.noRoomFor(l.bytes, n, field)
}

// noRoomFor is noRoom for n bytes beside those that the run has; mu is held. At
// a bound not even what counts for nothing is taken.
func (s *Store) noRoomFor(have, n int64, field string) *Refusal {
	q, least := s.quota, max(n, 1)
	switch {
	case q.runBytesMax > 0 && have+least > q.runBytesMax:
		r := refuse(RunBytes, "the run has %d bytes, with this it would have %d, and the limit is %d", have, have+n, q.runBytesMax)
		r.Field, r.Size, r.Limit = field, have+n, q.runBytesMax
		return r
	case q.storeBytesMax > 0 && s.acc.bytes+least > q.storeBytesMax:
		r := refuse(StoreBytes, "the store's runs have %d bytes, with this they would have %d, and the limit is %d", s.acc.bytes, s.acc.bytes+n, q.storeBytesMax)
		r.Field, r.Size, r.Limit = field, s.acc.bytes+n, q.storeBytesMax
		return r
	}
	return nil
}

// noRoomNow asks noRoomFor before something is prepared, 0 being a run that is
// yet to be: what could not be accepted need not be stored. The accept step asks
// again.
func (s *Store) noRoomNow(num uint32, n int64, field string) error {
	if s.quota == (quota{}) {
		return nil
	}
	s.mu.RLock()
	defer s.mu.RUnlock()
	have := int64(0)
	if l := s.view(num); l != nil {
		have = l.bytes
	}
	if r := s.noRoomFor(have, n, field); r != nil {
		return r
	}
	return nil
}

// overQuota reports whether err is the refusal of one of the bounds.
func overQuota(err error) bool {
	code := CodeOf(err)
	return code == RunBytes || code == StoreBytes
}

// boundedReader reads a payload as long as there is room for it.
type boundedReader struct {
	r     io.Reader
	store *Store
	num   uint32
	n     int64 // read so far
}

// bounded is r, which fails where the run num has no room for more of it. A
// payload whose name is taken already counts for nothing, and is read whole: it
// may be a repetition.
func (s *Store) bounded(num uint32, name string, r io.Reader) (io.Reader, error) {
	if s.quota == (quota{}) {
		return r, nil
	}
	if free, err := s.nameFree(num, name); err != nil || !free {
		return r, err
	}
	if err := s.noRoomNow(num, 0, "payload"); err != nil {
		return nil, err
	}
	return &boundedReader{r: r, store: s, num: num}, nil
}

// nameFree reports whether the run has no payload of that name. It is not asked
// for where nothing is bounded.
func (s *Store) nameFree(num uint32, name string) (bool, error) {
	if s.quota == (quota{}) {
		return true, nil
	}
	hash := nameHash(num, name)
	at, _, err := s.findName(num, hash)
	s.mu.RLock()
	defer s.mu.RUnlock()
	_, underWay := s.acc.names.entries[hash]
	return !underWay && at == (place{}), err
}

func (b *boundedReader) Read(p []byte) (int, error) {
	n, err := b.r.Read(p)
	if b.n += int64(n); n > 0 {
		if full := b.store.noRoomNow(b.num, b.n, "payload"); full != nil {
			return 0, full
		}
	}
	return n, err
}
