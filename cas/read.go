package cas

import (
	"fmt"
	"io"
	"slices"
	"sync"
	"sync/atomic"

	"durafs/internal/mutant"
)

// Reader reads one payload. It holds no file open and may be used
// concurrently.
type Reader struct {
	s      *Store
	id     ID
	size   int64
	inline []byte
	root   *node // nil for an inline payload

	next atomic.Int64 // where the latest ReadAt ended: who goes on there is read ahead for
}

// Open opens a payload for reading. The manifest is read now, chunks when they
// are asked for. What is not what the reference says is a *DamageError; a
// payload that no pack holds is that or, without a hint, ErrNotFound.
func (s *Store) Open(ref Ref) (*Reader, error) {
	leave, err := s.enter()
	if err != nil {
		return nil, err
	}
	defer leave()
	r := &Reader{s: s, id: ref.ID, size: ref.Bytes}
	if ref.Inline != nil || ref.Bytes == 0 {
		if int64(len(ref.Inline)) != ref.Bytes || Sum(ref.Inline) != ref.ID {
			return nil, &DamageError{File: "inline", ID: ref.ID, Reason: "the bytes are not those of the id"}
		}
		r.inline = ref.Inline
		return r, nil
	}
	r.root, err = s.root(ref)
	return r, err
}

// root reads the manifest's root, or makes one of a payload's only chunk.
func (s *Store) root(ref Ref) (root *node, err error) {
	root, _, err = s.rootAt(ref)
	return root, err
}

// rootAt is root, and tells where it lies. A payload that was put twice may have
// two roots with nodes of their own below, and a sweep keeps those to which a
// reference points: of another one the nodes are looked for first.
func (s *Store) rootAt(ref Ref) (root *node, at Hint, err error) {
	err = s.visit(ref.ID, ref.Hint, nil, func(f found) error {
		n, err := f.root(ref)
		if err != nil {
			return err
		}
		if root, at = n, f.at; at == ref.Hint {
			return nil
		}
		return s.hasNodes(root)
	})
	return root, at, err
}

// root is the manifest in a record; of a payload of one chunk it is made up.
func (f found) root(ref Ref) (n *node, err error) {
	switch f.hdr.Kind {
	case kindChunk:
		n = &node{
			Chunk: ChunkBytes, Fanout: nodeChildrenMax, Bytes: int64(f.hdr.Raw),
			Child: []child{{ID: ref.ID, Hint: ref.Hint}},
		}
	case kindRoot:
		if n, _, err = parseNode(f.body); err != nil {
			return nil, f.damage(ref.ID, "the manifest is wrong", err)
		}
	default:
		return nil, f.damage(ref.ID, "another record is here", nil)
	}
	if n.Bytes != ref.Bytes {
		return nil, f.damage(ref.ID, fmt.Sprintf("the payload has %d bytes, not %d", n.Bytes, ref.Bytes), nil)
	}
	return n, nil
}

// hasNodes reports what of the nodes below n cannot be read.
func (s *Store) hasNodes(n *node) error {
	for i, c := range n.Child {
		if n.Level == 0 {
			return nil
		}
		below, err := s.cachedNode(c, n, n.childBytes(i))
		if err == nil {
			err = s.hasNodes(below)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// Size is the payload's size in bytes.
func (r *Reader) Size() int64 { return r.size }

// ReadAt implements io.ReaderAt; every chunk it takes from is verified against
// its id. What cannot be verified is a *DamageError, and the bytes before it
// are returned.
func (r *Reader) ReadAt(p []byte, off int64) (int, error) {
	switch {
	case off < 0:
		return 0, fmt.Errorf("cas: read at %d", off)
	case off >= r.size:
		return 0, io.EOF
	case len(p) == 0:
		return 0, nil
	}
	leave, err := r.s.enter()
	if err != nil {
		return 0, err
	}
	defer leave()
	want := int(min(int64(len(p)), r.size-off))
	n, err := r.readAt(p[:want], off)
	if err != nil {
		clear(p[n:want]) // nothing that was not verified is left there
		return n, err
	}
	r.readAhead(off, n)
	if n < len(p) {
		return n, io.EOF
	}
	return n, nil
}

func (r *Reader) readAt(p []byte, off int64) (int, error) {
	if r.root == nil {
		return copy(p, r.inline[off:]), nil
	}
	size := int64(r.root.Chunk)
	if off/size == (off+int64(len(p))-1)/size {
		if err := r.piece(p, off); err != nil {
			return 0, err
		}
		return len(p), nil
	}
	return r.pieces(p, off)
}

// pieces reads from several chunks, on as many processors as are free.
func (r *Reader) pieces(p []byte, off int64) (int, error) {
	var (
		size = int64(r.root.Chunk)
		wait sync.WaitGroup
		errs = make([]error, (off+int64(len(p))-1)/size-off/size+1)
		ends = make([]int, len(errs))
		bad  atomic.Bool
	)
	for i, at := 0, 0; at < len(p); i++ {
		n := int(min(size-(off+int64(at))%size, int64(len(p)-at)))
		piece, from := p[at:at+n], off+int64(at)
		work := func() {
			defer wait.Done()
			if errs[i] = r.piece(piece, from); errs[i] != nil {
				bad.Store(true)
			}
		}
		ends[i] = at
		at += n
		if bad.Load() { // what lies behind the damage is of no use
			break
		}
		wait.Add(1)
		if at == len(p) || !r.s.workers.try(work) {
			work()
		}
	}
	wait.Wait()
	if i := slices.IndexFunc(errs, func(err error) bool { return err != nil }); i >= 0 {
		return ends[i], errs[i]
	}
	return len(p), nil
}

// piece reads from one chunk.
func (r *Reader) piece(p []byte, off int64) error {
	c, n, err := r.chunkAt(off)
	if err != nil {
		return err
	}
	at := off % int64(r.root.Chunk)
	// A whole chunk is decoded to where it is wanted; a part of one is
	// probably followed by the rest, so it is worth keeping.
	if at == 0 && int64(len(p)) == n && !r.s.cache.has(c.ID) {
		_, err := r.s.readChunk(c.Hint, c.ID, len(p), p[:0:len(p)])
		return err
	}
	it, err := r.s.cachedChunk(c, int(n))
	if err != nil {
		return err
	}
	copy(p, it.chunk[at:])
	return nil
}

// chunkAt tells which chunk covers off, and its size.
func (r *Reader) chunkAt(off int64) (child, int64, error) {
	n := r.root
	for {
		i := int(off / n.span())
		c, size := n.Child[i], n.childBytes(i)
		if n.Level == 0 {
			return c, size, nil
		}
		off -= int64(i) * n.span()
		below, err := r.s.cachedNode(c, n, size)
		if err != nil {
			return child{}, 0, err
		}
		n = below
	}
}

// cachedNode reads the node c below up, which covers bytes.
func (s *Store) cachedNode(c child, up *node, bytes int64) (*node, error) {
	it, err := s.cache.get(c.ID, func(it *cached) error {
		return s.visit(c.ID, c.Hint, nil, func(f found) error {
			n, sum, err := parseNode(f.body)
			if err != nil || sum != c.ID {
				return f.damage(c.ID, "the manifest is wrong", err)
			}
			it.node = n
			return nil
		})
	})
	if err != nil {
		return nil, err
	}
	n := it.node
	if n == nil || n.Level != up.Level-1 || n.Chunk != up.Chunk || n.Fanout != up.Fanout || n.Bytes != bytes {
		return nil, &DamageError{File: s.dir, ID: c.ID, Reason: "the manifest's node is not one of this payload"}
	}
	return n, nil
}

// cachedChunk returns the chunk c of n bytes.
func (s *Store) cachedChunk(c child, n int) (*cached, error) {
	it, err := s.cache.get(c.ID, func(it *cached) (err error) {
		it.chunk, err = s.readChunk(c.Hint, c.ID, n, make([]byte, 0, n+decodeSlack))
		return err
	})
	if err != nil {
		return nil, err
	}
	if len(it.chunk) != n {
		return nil, &DamageError{File: s.dir, ID: c.ID, Reason: fmt.Sprintf("the chunk has %d bytes, not %d", len(it.chunk), n)}
	}
	return it, nil
}

// readChunk reads the chunk id of n bytes into dst, which has room for them, and
// verifies it.
func (s *Store) readChunk(hint Hint, id ID, n int, dst []byte) ([]byte, error) {
	w := s.getWorkspace()
	defer s.putWorkspace(w)
	err := s.visit(id, hint, w.packed[:0], func(f found) error {
		return s.verifyChunk(f, id, n, &dst)
	})
	return dst, err
}

func (s *Store) verifyChunk(f found, id ID, want int, dst *[]byte) error {
	n := int(f.hdr.Raw)
	switch {
	case f.hdr.Kind != kindChunk:
		return f.damage(id, "another record is here", nil)
	case n != want:
		return f.damage(id, fmt.Sprintf("the chunk has %d bytes, not %d", n, want), nil)
	}
	out := (*dst)[:n]
	if f.hdr.Codec == codecRaw {
		copy(out, f.body)
	} else {
		var err error
		if out, err = s.codec.decode(out, f.body, n); err != nil {
			return f.damage(id, "the chunk does not decode", err)
		}
	}
	if Sum(out) != id && !mutant.On(mutant.ChunkNotVerified) {
		return f.damage(id, "the bytes are not those of the id", nil)
	}
	*dst = out
	return nil
}

// readAhead loads the chunk behind a read that went on where the one before
// ended, if a worker is free.
func (r *Reader) readAhead(off int64, n int) {
	end := off + int64(n)
	if r.root == nil || r.next.Swap(end) != off || off == 0 || end >= r.size {
		return
	}
	size := int64(r.root.Chunk)
	at := (end + size - 1) / size * size
	if at >= r.size {
		return
	}
	c, bytes, err := r.chunkAt(at)
	if err != nil || r.s.cache.has(c.ID) {
		return
	}
	r.s.workers.try(func() { _, _ = r.s.cachedChunk(c, int(bytes)) })
}
