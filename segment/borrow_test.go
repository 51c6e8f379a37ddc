package segment

import (
	"bytes"
	"errors"
	"io"
	"math/rand/v2"
	"testing"
)

// A walk that borrows, and one that reads briefly, see the frames of one that
// reads far: whole, and where a file is damaged or ends too soon.
func TestBorrowedWalk(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	key := NewKey(77)
	var payloads [][]byte
	for range 200 {
		payloads = append(payloads, bytes.Repeat([]byte{byte(r.Uint32())}, r.IntN(9000)))
	}
	whole, offs := file(key, 1<<20, payloads...)
	for round := range 60 {
		b := bytes.Clone(whole)
		if round%3 == 1 {
			b[offs[r.IntN(len(offs))]+r.Int64N(100)] ^= 1
		}
		end := int64(len(b))
		if round%3 == 2 {
			b = b[:r.Int64N(end)]
		}
		walker := func() *Walker { return NewWalker(bytes.NewReader(b).ReadAt, key, HeaderBytes, end, 0) }
		want, wantErr := framesOf(walker())

		brief := walker()
		brief.Brief()
		borrowed := walker()
		borrowed.Borrow(lendBlocks(b, int64(1+r.IntN(64<<10))))
		for _, w := range []*Walker{brief, borrowed} {
			got, err := framesOf(w)
			if err.Error() != wantErr.Error() || !bytes.Equal(got, want) {
				t.Fatalf("round %d: %d bytes of payloads, %v, want %d, %v", round, len(got), err, len(want), wantErr)
			}
		}
	}
}

// lendBlocks lends of blocks of n bytes, each in the same memory, which is
// overwritten with the next.
func lendBlocks(file []byte, n int64) func(int64) []byte {
	block := make([]byte, n)
	return func(off int64) []byte {
		base := off - off%n
		if base >= int64(len(file)) {
			return nil
		}
		got := int64(copy(block, file[base:]))
		if off-base >= got {
			return nil
		}
		return block[off-base : got]
	}
}

// framesOf are the payloads that a walk finds, and why it ended.
func framesOf(w *Walker) (all []byte, err error) {
	for {
		f, err := w.Next()
		if err != nil {
			if errors.Is(err, io.EOF) {
				err = io.EOF
			}
			return all, err
		}
		all = append(all, f.Payload...)
	}
}
