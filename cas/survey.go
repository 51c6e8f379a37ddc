package cas

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"slices"

	"durafs/internal/mutant"
)

// survey is the records of some packs, and which of them anything refers to: 24
// bytes of memory each.
type survey struct {
	records []surveyed // sorted by mark
	order   []int32    // of records, by pack and offset

	packs map[uint32]bool // whose records these are
	lost  map[uint32]bool // those of them in which a reference names a place that has no record
}

// surveyed is a record by the first bytes of its id: where two ids share them,
// both are kept.
type surveyed struct {
	mark    uint64
	seq     uint32
	off     uint32
	bytes   uint32
	reached bool
}

func surveyMark(id ID) uint64 { return binary.LittleEndian.Uint64(id[:]) }

// surveyOf lists the records of packs by their footers.
func (s *Store) surveyOf(packs []*pack) (*survey, error) {
	v := &survey{packs: make(map[uint32]bool), lost: make(map[uint32]bool)}
	for _, p := range packs {
		v.packs[p.seq] = true
		entries, err := s.listed(p)
		if err != nil && !mutant.On(mutant.SweepErrorIsEmpty) {
			return nil, err
		}
		for _, e := range entries {
			v.records = append(v.records, surveyed{mark: surveyMark(e.ID), seq: p.seq, off: e.Offset, bytes: e.End - e.Offset})
		}
	}
	slices.SortFunc(v.records, func(a, b surveyed) int { return cmp.Compare(a.mark, b.mark) })
	v.order = make([]int32, len(v.records))
	for i := range v.order {
		v.order[i] = int32(i)
	}
	slices.SortFunc(v.order, func(i, j int32) int {
		a, b := &v.records[i], &v.records[j]
		return cmp.Or(cmp.Compare(a.seq, b.seq), cmp.Compare(a.off, b.off))
	})
	return v, nil
}

// listed is what a sealed pack's footer lists; where there is no sound one, what
// a walk comes upon, if that finds no damage.
func (s *Store) listed(p *pack) ([]entry, error) {
	h, err := s.files.acquire(p)
	if err != nil {
		return nil, &DamageError{File: p.path(), Reason: "the pack cannot be opened", Err: err}
	}
	defer s.files.release(h)
	if _, entries, err := readFooter(h.f, p.end(), p.seq, p.nonce); err == nil {
		return entries, nil
	}
	var entries []entry
	var bad *DamageError
	walkPack(h.f, p.nonce, p.end(), func(w walked) {
		if w.err != nil && bad == nil {
			bad = &DamageError{File: p.path(), Offset: w.off, ID: w.hdr.ID, Reason: w.err.Error()}
		}
		entries = append(entries, w.entry())
	})
	if bad != nil {
		return nil, bad
	}
	return entries, nil
}

// reachAt marks the record at a place.
func (v *survey) reachAt(at Hint) {
	if i, ok := v.find(at); ok {
		v.records[v.order[i]].reached = true
	} else if v.packs[at.Pack] {
		v.lost[at.Pack] = true
	}
}

// named notes a place that a reference names. A pack's number is never given
// again, so there was a record.
func (v *survey) named(at Hint) {
	if !v.packs[at.Pack] {
		return
	}
	if _, ok := v.find(at); !ok {
		v.lost[at.Pack] = true
	}
}

func (v *survey) find(at Hint) (i int, ok bool) {
	return slices.BinarySearchFunc(v.order, at, func(i int32, at Hint) int {
		r := &v.records[i]
		return cmp.Or(cmp.Compare(r.seq, at.Pack), cmp.Compare(r.off, at.Offset))
	})
}

// reach marks the records of an id: of a chunk or node, any of them is as good as
// another.
func (v *survey) reach(id ID) {
	mark := surveyMark(id)
	i, _ := slices.BinarySearchFunc(v.records, mark, func(r surveyed, mark uint64) int { return cmp.Compare(r.mark, mark) })
	for ; i < len(v.records) && v.records[i].mark == mark; i++ {
		v.records[i].reached = true
	}
}

// of are the records of a pack, in the order of the file.
func (v *survey) of(seq uint32) []int32 {
	from, _ := slices.BinarySearchFunc(v.order, seq, func(i int32, seq uint32) int { return cmp.Compare(v.records[i].seq, seq) })
	to := from
	for to < len(v.order) && v.records[v.order[to]].seq == seq {
		to++
	}
	return v.order[from:to]
}

// bytesOf counts a pack's records, and those that are reached.
func (v *survey) bytesOf(seq uint32) (all, reached int64) {
	for _, i := range v.of(seq) {
		r := &v.records[i]
		all += int64(r.bytes)
		if r.reached {
			reached += int64(r.bytes)
		}
	}
	return all, reached
}

// mark finds out what of some packs anything refers to.
func (w *sweep) mark(packs []*pack) (*survey, error) {
	v, err := w.s.surveyOf(packs)
	if err != nil {
		return nil, err
	}
	m := marker{s: w.s, survey: v, seen: make(map[uint64]struct{})}
	err = w.o.References(w.ctx, func(ref Ref) error {
		if err := w.ctx.Err(); err != nil {
			return err
		}
		return m.payload(ref)
	})
	if err != nil {
		return nil, err
	}
	return v, nil
}

type marker struct {
	s      *Store
	survey *survey
	seen   map[uint64]struct{} // places of roots that were followed
}

// payload marks all that a payload is made of. Where that cannot be known it is
// an error: what would then be taken for unused may not be.
func (m *marker) payload(ref Ref) error {
	if ref.Inline != nil || ref.Bytes == 0 {
		return nil
	}
	m.survey.named(ref.Hint)
	if m.s.isChunk(ref) {
		m.survey.reach(ref.ID)
		return nil
	}
	root, at, err := m.s.rootAt(ref)
	switch {
	case err != nil && mutant.On(mutant.SweepErrorIsEmpty):
		return nil
	case err != nil:
		return fmt.Errorf("%w: what payload %v refers to: %w", ErrUnsure, ref.ID, err)
	}
	place := slotOf(ref.ID, at.Pack, int64(at.Offset)).place
	if _, ok := m.seen[place]; ok {
		return nil
	}
	m.seen[place] = struct{}{}
	m.survey.reachAt(at)
	return m.below(root)
}

// isChunk reports whether a payload is one chunk, if that is quickly told.
func (s *Store) isChunk(ref Ref) bool {
	r, ok := s.recordAt(ref.Hint.Pack, int64(ref.Hint.Offset), ref.ID)
	return ok && r.kind == kindChunk
}

func (m *marker) below(n *node) error {
	for i, c := range n.Child {
		m.survey.reach(c.ID)
		m.survey.named(c.Hint)
		if n.Level == 0 {
			continue
		}
		next, err := m.s.cachedNode(c, n, n.childBytes(i))
		if err != nil {
			return fmt.Errorf("%w: what a part of a manifest refers to: %w", ErrUnsure, err)
		}
		if err := m.below(next); err != nil {
			return err
		}
	}
	return nil
}
