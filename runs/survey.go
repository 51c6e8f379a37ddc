package runs

import (
	"errors"
	"slices"

	"durafs/wal"
)

const (
	// damagePlacesMax bounds how many places of one run are remembered as
	// damaged; at others the run's log is looked through again.
	damagePlacesMax = 1024
	// surveysMax bounds how often a log is looked through because it grew
	// meanwhile. A damaged run takes no rows, so only what was on its way can.
	surveysMax = 8
)

// rotten is the damage in err's chain, nil if there is none.
func rotten(err error) *wal.DamageError {
	d, _ := errors.AsType[*wal.DamageError](err)
	return d
}

// foundDamage makes a run damaged of which something could not be read, and
// brings its log to what is left of it. It is called by whoever met that, with
// mu free; other errors are none of its business.
func (s *Store) foundDamage(num uint32, err error) {
	at := rotten(err)
	if at == nil || !s.noteDamage(num, damagePlace{at.File, at.Offset}) {
		return
	}
	s.logger.Error("something stored of a run cannot be read", "run", num, "file", at.File, "offset", at.Offset, "reason", at.Reason)
	for range surveysMax {
		if s.survey(num) {
			break
		}
	}
	s.tell([]Change{{Ref: Ref(num), Kinds: ChangedRecord | ChangedPayload | ChangedLog | ChangedDamaged}})
}

// damagePlace is where a reader met damage.
type damagePlace struct {
	file string
	off  int64
}

// noteDamage reports whether the place is news.
func (s *Store) noteDamage(num uint32, at damagePlace) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.index.phase(num) == PhaseNone {
		return false
	}
	d := s.index.damageOf(num)
	if d.seen[at] {
		return false
	}
	if d.seen == nil {
		d.seen = map[damagePlace]bool{}
	}
	if len(d.seen) < damagePlacesMax {
		d.seen[at] = true
	}
	return true
}

// survey walks the whole log of a run, and puts lines in place of the rows that
// are gone. Not done: the log has changed meanwhile.
func (s *Store) survey(num uint32) (done bool) {
	sealed, err := s.sealed(num, s.tailOf(num))
	if err != nil {
		s.logger.Error("where a damaged run lies cannot be read", "run", num, "error", err)
		return true
	}
	s.mu.RLock()
	before := s.logState(num, sealed)
	s.mu.RUnlock()
	w := &surveyor{store: s, num: num}
	for i, e := range before.extents {
		last := before.last
		if i+1 < len(before.extents) {
			last = before.extents[i+1].seq - 1
		}
		w.extent(e, last)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.logState(num, sealed)
	if now.tail != before.tail || now.tail != sealed.tail || !slices.Equal(now.extents, before.extents) || now.last != before.last {
		return false
	}
	d := s.index.damageOf(num)
	if w.lost == d.rows {
		return true // what could not be read held no row
	}
	c, i := s.index.at(num)
	d.rows, d.log = w.lost, w.out
	d.changes++
	if d.loss != nil { // its line stands at the end
		d.log = append(d.log, makeExtent(wal.Position{}, d.loss.seq, w.off))
		s.recount(num, c.logBytes[i]+w.off-d.loss.off)
		d.loss.off = w.off
	} else {
		s.recount(num, w.off)
	}
	return true
}

// logState is where a run's rows are, up to a loss at its end; mu is held.
type logState struct {
	extents []extent
	last    uint32
	tail    uint32
}

func (s *Store) logState(num uint32, sealed *sealedRun) logState {
	c, i := s.index.at(num)
	st := logState{last: c.lastSeq[i], tail: c.tail[i]}
	memory, whole := s.index.extentsNow(num)
	if whole {
		st.extents = slices.Clone(memory)
	} else {
		st.extents = slices.Clone(sealed.joined(memory))
	}
	if d := s.index.damaged[num]; d != nil && d.loss != nil && len(st.extents) > 0 {
		st.extents, st.last = st.extents[:len(st.extents)-1], d.loss.seq-1
	}
	return st
}

// surveyor finds out which rows of a log are left.
type surveyor struct {
	store *Store
	num   uint32
	buf   [8 << 10]byte

	out  []extent
	off  int64 // behind what is in out, rendered
	lost uint64
}

func (w *surveyor) extent(e extent, last uint32) {
	pos, seq := e.pos(), e.seq
	for seq <= last && !e.isGap() && e.holds(pos) {
		f, next, err := w.store.log.ReadBatch(pos, w.buf[:])
		if err != nil && (rotten(err) == nil || next == pos) {
			break
		}
		if err == nil && (f.Run == uint64(w.num) || f.Run == 0) {
			seq = w.frame(f, seq, last)
		}
		pos = next
	}
	if seq <= last {
		w.gap(seq, last)
	}
}

// frame takes the rows of the run that are in f, from seq on.
func (w *surveyor) frame(f wal.Frame, seq, last uint32) uint32 {
	b, err := decodeBatch(f.Payload)
	if err != nil {
		return seq
	}
	at := b.stamp.find(w.num)
	if at < 0 {
		return seq
	}
	n := uint32(b.stamp.runs[at].seq)
	for _, e := range b.entries {
		if e.kind != kindRow || e.run != w.num {
			continue
		}
		if row, err := parseRow(e); err == nil && n >= seq && n <= last {
			if n > seq {
				w.gap(seq, n-1)
			}
			w.row(f.Pos, n, int64(lineBytes(row.text, row.flags, uint64(n))))
			seq = n + 1
		}
		n++
	}
	return seq
}

func (w *surveyor) row(pos wal.Position, seq uint32, bytes int64) {
	end := w.off + bytes
	if n := len(w.out); n == 0 || w.out[n-1].pos() != pos && !w.out[n-1].takes(pos, end) {
		w.out = append(w.out, makeExtent(pos, seq, w.off))
	}
	w.off = end
}

// gap puts one line in place of rows, or makes the one before stand for them
// too.
func (w *surveyor) gap(from, to uint32) {
	w.lost += uint64(to-from) + 1
	if n := len(w.out); n > 0 && w.out[n-1].isGap() {
		from, w.off = w.out[n-1].seq, w.out[n-1].off()
	} else {
		w.out = append(w.out, makeExtent(wal.Position{}, from, w.off))
	}
	w.off += int64(len(appendGap(nil, from, to, false)))
}
