package b3

import (
	"math/bits"

	"github.com/zeebo/blake3"
)

// Hasher is the BLAKE3 of what is written to it, in pieces of any length; those
// of 64 KiB on their own boundary are quickest. The zero Hasher is ready.
type Hasher struct {
	narrow *blake3.Hasher // where there is no AVX-512

	// first is held back until more comes: alone it is the root. The values of
	// later pieces do not depend on what follows; only whether two are merged
	// does, so the latest waits outside of stack.
	buf    []byte // of a piece that is not whole, or of the first
	pieces uint64 // whole ones, without what is in buf
	last   value  // of the latest whole piece, if there is one
	stack  [48]value
	height int
}

// Write never fails.
func (h *Hasher) Write(p []byte) (int, error) {
	if !wide {
		if h.narrow == nil {
			h.narrow = blake3.New()
		}
		return h.narrow.Write(p)
	}
	n := len(p)
	for len(p) > 0 {
		if len(h.buf) == pieceBytes { // the first, and it is not alone
			h.take(h.buf)
			h.buf = h.buf[:0]
		}
		if len(h.buf) == 0 && len(p) >= pieceBytes && h.pieces > 0 {
			h.take(p[:pieceBytes])
			p = p[pieceBytes:]
			continue
		}
		part := p[:min(len(p), pieceBytes-len(h.buf))]
		h.buf = append(h.buf, part...)
		p = p[len(part):]
		if len(h.buf) == pieceBytes && h.pieces > 0 {
			h.take(h.buf)
			h.buf = h.buf[:0]
		}
	}
	return n, nil
}

// take takes a whole piece.
func (h *Hasher) take(p []byte) {
	if h.pieces > 0 {
		h.push(h.last)
	}
	h.last = subtree(p, h.pieces*(pieceBytes/leafBytes), 0)
	h.pieces++
}

// push puts the value of the latest piece, which others follow, on the stack,
// and merges what is whole: as many times as the number of pieces is even.
func (h *Hasher) push(v value) {
	for range bits.TrailingZeros64(h.pieces) {
		h.height--
		v = parent(h.stack[h.height], v, 0)
	}
	h.stack[h.height] = v
	h.height++
}

// Sum is the hash of what was written up to now; more can be written after it.
func (h *Hasher) Sum() [32]byte {
	switch {
	case h.narrow != nil:
		return [32]byte(h.narrow.Sum(nil))
	case h.pieces == 0:
		return Sum256(h.buf)
	}
	g := *h // the stack is a copy
	right := g.last
	if len(g.buf) > 0 {
		g.push(g.last)
		right = tail(g.buf, g.pieces*(pieceBytes/leafBytes))
	}
	for g.height > 1 {
		g.height--
		right = parent(g.stack[g.height], right, 0)
	}
	// There is one left: the first piece is taken only when something follows.
	return parent(g.stack[0], right, flagRoot)
}

func tail(p []byte, counter uint64) value {
	if len(p) <= leafBytes {
		return leaf(p, counter)
	}
	return subtree(p, counter, 0)
}
