package cas

import (
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"math"
	"slices"

	"durafs/internal/vfs"
)

// Census is the records that a Verify found sound, 16 bytes of memory each: for
// Reach, which finds out which of them anything refers to. The zero value is
// empty.
type Census struct {
	records []counted
	sorted  bool
}

// counted is a record by the first bytes of its id. Two ids that share them
// would count as one, which is never to be seen.
type counted struct {
	id      uint64
	bytes   uint32 // in its pack, its header too
	root    bool
	reached bool
}

func prefixOf(id ID) uint64 { return binary.LittleEndian.Uint64(id[:]) }

// note takes a record down.
func (c *Census) note(w walked) {
	c.records = append(c.records, counted{id: prefixOf(w.hdr.ID), bytes: uint32(w.end - w.off), root: w.hdr.Kind == kindRoot})
	c.sorted = false
}

// find tells where the records of an id are; there is more than one where it
// was stored more than once.
func (c *Census) find(id ID) []counted {
	if !c.sorted {
		slices.SortFunc(c.records, func(a, b counted) int { return cmp.Compare(a.id, b.id) })
		c.sorted = true
	}
	key := prefixOf(id)
	from, ok := slices.BinarySearchFunc(c.records, key, func(r counted, key uint64) int { return cmp.Compare(r.id, key) })
	if !ok {
		return nil
	}
	to := from
	for to < len(c.records) && c.records[to].id == key {
		to++
	}
	return c.records[from:to]
}

// Has tells whether a record of this id is sound.
func (c *Census) Has(id ID) bool { return len(c.find(id)) > 0 }

// Unreferenced counts the records that no Reach has come to, and their bytes.
func (c *Census) Unreferenced() (records, bytes int64) {
	for _, r := range c.records {
		if !r.reached {
			records++
			bytes += int64(r.bytes)
		}
	}
	return records, bytes
}

// Reach marks the records of payloads that are referred to, and reports each
// payload that is not whole: whose chunk, or part of whose manifest, no pack
// holds. Packs that were begun since the list was read are not missed. A
// manifest that cannot be read is damage that Verify has found; what it lists is
// not reached. The error is ctx's, or why dir could not be read at all.
func (c *Census) Reach(ctx context.Context, fsys vfs.FS, dir string, packs []Pack, refs iter.Seq[Ref], report func(Ref, *MissingError)) error {
	v, done, err := newVerifier(ctx, fsys, dir, packs)
	if err != nil {
		return err
	}
	defer done()
	r := &reach{s: v.s, census: c}
	for _, p := range packs {
		r.last = max(r.last, p.Seq)
	}
	for ref := range refs {
		if err := ctx.Err(); err != nil {
			return err
		}
		lacks := r.payload(ref)
		if r.moved { // once more, since a pack has another name by now
			v.relocate()
			r.moved = false
			lacks = r.payload(ref)
		}
		if lacks != nil {
			report(ref, lacks)
		}
	}
	return nil
}

// MissingError says that no pack holds a sound record which something refers to.
type MissingError struct {
	ID ID
	At Hint // where it should be
}

func (e *MissingError) Error() string { return fmt.Sprintf("no pack holds %v", e.ID) }

// Rotten tells whether the record was there once: one of the findings is where
// it should be.
func (e *MissingError) Rotten(found []Finding) bool {
	return slices.ContainsFunc(found, func(f Finding) bool {
		return f.seq == e.At.Pack && f.end < math.MaxInt64 && f.Offset < int64(e.At.End) && int64(e.At.Offset) < f.end
	})
}

type reach struct {
	s      *Store
	census *Census
	last   uint32 // the newest pack
	moved  bool   // a file was not where it was
}

// payload marks what a payload is made of, and tells what it lacks.
func (r *reach) payload(ref Ref) *MissingError {
	if ref.Inline != nil || ref.Bytes == 0 {
		return nil
	}
	roots, lacks := r.mark(ref.ID, ref.Hint)
	if lacks != nil || roots == 0 {
		return lacks
	}
	if roots > 1 {
		r.every(ref)
	}
	n, err := r.s.root(ref)
	if err != nil { // it is damaged, which is told of where it lies
		r.moved = errors.Is(err, fs.ErrNotExist)
		return nil
	}
	return r.below(n)
}

// every marks what is below each of a payload's roots: as with chunks, one is as
// good as another.
func (r *reach) every(ref Ref) {
	next := errors.New("the next one")
	_ = r.s.visit(ref.ID, ref.Hint, nil, func(f found) error {
		if n, err := f.root(ref); err == nil {
			r.below(n) // what it lacks another one may have
		}
		return next
	})
}

func (r *reach) below(n *node) (lacks *MissingError) {
	for i, c := range n.Child {
		_, l := r.mark(c.ID, c.Hint)
		if l == nil && n.Level > 0 {
			next, err := r.s.cachedNode(c, n, n.childBytes(i))
			if err == nil {
				l = r.below(next)
			}
			r.moved = r.moved || errors.Is(err, fs.ErrNotExist)
		}
		lacks = cmp.Or(lacks, l)
	}
	return lacks
}

// mark notes that something refers to an id, and counts the manifests of a
// payload with this one.
func (r *reach) mark(id ID, at Hint) (roots int, lacks *MissingError) {
	found := r.census.find(id)
	if len(found) == 0 && at.Pack <= r.last {
		return 0, &MissingError{id, at}
	}
	for i := range found {
		found[i].reached = true
		if found[i].root {
			roots++
		}
	}
	return roots, nil
}
