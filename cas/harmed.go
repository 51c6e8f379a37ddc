package cas

import (
	"context"
	"errors"
	"iter"

	"durafs/internal/vfs"
)

// Harmed tells, of payloads that are referred to, which cannot be read in whole
// because of what Verify found, and why. It reads their manifests, and of their
// chunks those that lie where something was found: one that lies elsewhere too,
// since it was put again, is sound. The error is ctx's, or why dir could not be
// read at all.
func Harmed(ctx context.Context, fsys vfs.FS, dir string, packs []Pack, found []Finding, refs iter.Seq[Ref], report func(Ref, error)) error {
	v, done, err := newVerifier(ctx, fsys, dir, packs)
	if err != nil {
		return err
	}
	defer done()
	h := &harm{s: v.s, bad: map[uint32][]Finding{}}
	for _, f := range found {
		h.bad[f.seq] = append(h.bad[f.seq], f)
	}
	for ref := range refs {
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := h.payload(ref); err != nil {
			report(ref, err)
		}
	}
	return nil
}

// harm looks for payloads that lie where something was found.
type harm struct {
	s   *Store
	bad map[uint32][]Finding // by the pack's number
}

// hits reports whether something was found where a record should be.
func (h *harm) hits(at Hint) bool {
	if h.s.packs[at.Pack] == nil {
		return true
	}
	for _, f := range h.bad[at.Pack] {
		if f.Offset < int64(at.End) && int64(at.Offset) < f.end {
			return true
		}
	}
	return false
}

// payload is why a payload cannot be read.
func (h *harm) payload(ref Ref) error {
	if ref.Bytes <= ChunkBytes && !h.hits(ref.Hint) {
		return nil // its only chunk is there; a smaller chunk size has none of these
	}
	root, err := h.s.root(ref)
	if err != nil {
		return err
	}
	return h.below(root)
}

// below is why something that a node lists cannot be read.
func (h *harm) below(n *node) error {
	for i, c := range n.Child {
		var err error
		switch size := n.childBytes(i); {
		case n.Level > 0:
			var next *node
			if next, err = h.s.cachedNode(c, n, size); err == nil {
				err = h.below(next)
			}
		case h.hits(c.Hint):
			_, err = h.s.readChunk(c.Hint, c.ID, int(size), make([]byte, 0, size))
		}
		if err != nil && !errors.Is(err, ErrClosed) {
			return err
		}
	}
	return nil
}
