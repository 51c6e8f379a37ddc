package runs

import (
	"encoding/binary"
	"io"
	"maps"
	"slices"

	"durafs/wal"
)

// A run that has lost a batch stands apart: what the rest of it comes to
// depends on what was certain when that was met (damage.go), and cannot be told
// from one segment alone. So from the segment of its loss on no footer tells of
// it. A section lists the runs that were left out of a segment of which it has
// something,
//
//	 0  4  magic "APRT"
//	 4  4  version, 0
//	 8  4  segment
//	12  4  number
//	16 4n  runs, in order
//
// and an open replays these from the segment's batches, behind what it has
// loaded. It costs a walk through each segment that lists one; all other runs
// are as they would be without it, and segments go on being sealed. What such a
// run has made of journals and threads stands where that of others does.
//
// A table that leaves somebody out is taken over by no later one.
const (
	apartHeadBytes = 16
	apartRunBytes  = 4
)

var apartMagic = [4]byte{'A', 'P', 'R', 'T'}

// leftOut is what the footer of a segment tells nothing of.
type leftOut struct {
	seg  uint32
	runs map[uint32]bool
}

// derive works out what the batches of a segment come to; before is what the
// segments before it leave of the whole store.
func (s *Store) derive(seg uint32, before *whole, batches wal.Batches) (*derived, error) {
	for {
		d := newDerived(seg, before.clone())
		d.apart = s.apartRuns()
		again := false
		err := batches(d.add, func(lost *wal.DamageError) error {
			if lost.Run > maxUint32 {
				return lost
			}
			num := uint32(lost.Run)
			d.listed[num], d.newest = true, max(d.newest, num)
			if _, known := d.apart[num]; !known {
				again = true
				d.apart[num] = s.setApart(num)
				s.foundLate(num, lost)
			}
			return nil
		})
		if err != nil {
			return nil, err
		}
		if again {
			continue // without what it had before that was met
		}
		d.end(s.tailOf)
		d.batch = batch{}
		return d, nil
	}
}

// apartRuns are the runs that stand apart, and whether anything else is known
// of them.
func (s *Store) apartRuns() map[uint32]bool {
	s.mu.RLock()
	defer s.mu.RUnlock()
	apart := map[uint32]bool{}
	for num, d := range s.index.damaged {
		if d.apart {
			apart[num] = s.index.phase(num) != PhaseNone
		}
	}
	return apart
}

func (s *Store) setApart(num uint32) (known bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.index.damageOf(num).apart = true
	return s.index.phase(num) != PhaseNone
}

// foundLate makes a run damaged of which the sealer meets that a batch has
// rotted since it was written or read. While the log is opened it is met again.
func (s *Store) foundLate(num uint32, lost *wal.DamageError) {
	if s.log != nil {
		s.foundDamage(num, lost)
	}
}

// addApart adds, of an entry of a run that stands apart, what is not of the run
// alone.
func (d *derived) addApart(e entry, at derivedAt) error {
	d.listed[e.run] = true
	d.newest = max(d.newest, e.run)
	switch e.kind {
	case kindAdmission, kindRecord: // it says who it is, if that was lost
		d.apart[e.run] = true
	case kindPayload:
		p, err := parsePayload(e)
		if err == nil {
			d.notePack(p.ref.Hint)
		}
		return err
	}
	if !d.apart[e.run] {
		return nil // nobody knows whose it is; see orphan
	}
	switch e.kind {
	case kindJournal:
		return d.whole.applyJournal(e, at.lsn, at.place)
	case kindThread:
		return d.addThread(e, at.lsn, at.place)
	case kindRemoved:
		gone, err := parseRemoval(e)
		if err == nil {
			d.removeFromStore(e.run, gone, at.lsn)
		}
		return err
	}
	return nil
}

func (d *derived) writeApart(w sectionWriter) error {
	if len(d.listed) == 0 {
		return nil
	}
	d.ref.rows = noTable
	w.Begin(sectionApart)
	le := binary.LittleEndian
	b := append([]byte(nil), apartMagic[:]...)
	for _, v := range [...]uint32{0, d.seg, uint32(len(d.listed))} {
		b = le.AppendUint32(b, v)
	}
	for _, num := range slices.Sorted(maps.Keys(d.listed)) {
		b = le.AppendUint32(b, num)
	}
	_, err := w.Write(b)
	return err
}

// loadApart notes what the footer of a segment has left out; mu is held.
func (s *Store) loadApart(sections wal.Sections, seg uint32) error {
	r, ok := sections.Section(sectionApart)
	if !ok {
		return nil
	}
	runs, err := readApart(r, seg)
	if err == nil {
		s.left = append(s.left, leftOut{seg, runs})
	}
	return err
}

func readApart(r *io.SectionReader, seg uint32) (map[uint32]bool, error) {
	var head [apartHeadBytes]byte
	if err := readAll(r, head[:], 0); err != nil {
		return nil, err
	}
	le := binary.LittleEndian
	n := le.Uint32(head[12:])
	if [4]byte(head[:4]) != apartMagic || le.Uint32(head[4:]) != 0 || le.Uint32(head[8:]) != seg ||
		n == 0 || r.Size() != apartHeadBytes+int64(n)*apartRunBytes {
		return nil, badParts("what says which runs are left out makes no sense")
	}
	b := make([]byte, int(n)*apartRunBytes)
	if err := readAll(r, b, apartHeadBytes); err != nil {
		return nil, err
	}
	runs := make(map[uint32]bool, n)
	for i := range int(n) {
		runs[le.Uint32(b[i*apartRunBytes:])] = true
	}
	return runs, nil
}

// LeftOut implements wal.Derived.
func (s *Store) LeftOut() (segs []uint32) {
	for _, l := range s.left {
		segs = append(segs, l.seg)
	}
	return segs
}

// ReplayLeftOut implements wal.Derived.
func (s *Store) ReplayLeftOut(seg uint32) (of func(run uint64) bool, each func(wal.Frame) error) {
	i := slices.IndexFunc(s.left, func(l leftOut) bool { return l.seg == seg })
	runs := s.left[i].runs
	of = func(run uint64) bool { return run <= maxUint32 && runs[uint32(run)] }
	return of, func(f wal.Frame) error {
		if f.Run != 0 && !of(f.Run) {
			return nil
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		s.endRestore()
		b := &s.replaying
		if err := b.decode(f.Payload); err != nil {
			return err
		}
		before := len(s.index.byAdmit)
		if _, err := s.index.applyOf(b, f.LSN, f.Pos, runs); err != nil {
			return err
		}
		if len(s.index.byAdmit) != before { // it came among those that were linked already
			s.index.sortAdmissions()
			s.index.links = links{}
		}
		return nil
	}
}
