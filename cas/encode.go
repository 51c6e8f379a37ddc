package cas

import (
	"bytes"

	"durafs/internal/mutant"
)

// encodeChunk hashes, looks up and compresses a chunk.
func (s *Store) encodeChunk(b *block, i int, w *workspace) {
	e, raw := &b.chunk[i], b.raw(i)
	e.hdr.ID = Sum(raw)
	e.seen = s.tail.Load()
	if at, ok := s.duplicate(e.hdr.ID, raw, w); ok {
		s.stats.hits.Add(1)
		e.at = at
		if mutant.On(mutant.DedupBeforeBarrier) {
			at.countsAtOnce()
		}
		return
	}
	if packed, ok := s.codec.encode(w.packed[:0], raw, w.back[:]); ok {
		b.set(i, codecZstd, packed)
	}
	b.close(i)
}

// duplicate tells where raw is stored, after reading it back: a record that
// does not give these bytes any more is no hit, and raw is stored again, so
// that a put heals what it finds damaged. The record may not be durable yet;
// the put waits for that as for its own.
func (s *Store) duplicate(id ID, raw []byte, w *workspace) (at place, ok bool) {
	s.find(id, func(seq uint32, off int64) bool {
		r, found := s.recordAt(seq, off, id)
		at, ok = r.place, found && r.kind == kindChunk && !r.p.frozen.Load() && s.sameAt(r.hint, id, raw, w)
		return ok
	})
	return at, ok
}

// sameAt reads the record at hint and reports whether it gives raw.
func (s *Store) sameAt(hint Hint, id ID, raw []byte, w *workspace) bool {
	same := false
	err := s.visitAt(id, hint, w.packed[:0], func(f found) error {
		body := f.body
		if f.hdr.Codec == codecZstd {
			var err error
			if body, err = s.codec.decode(w.back[:], f.body, int(f.hdr.Raw)); err != nil {
				return err
			}
		}
		same = f.hdr.Kind == kindChunk && bytes.Equal(body, raw)
		return nil
	})
	return err == nil && same
}
