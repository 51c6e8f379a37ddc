package view

import (
	"io"
	"sort"
	"sync"
	"sync/atomic"
)

// rendered is a file that is not stored as it is shown: it is made of pieces,
// and each is made when it is read. What is kept is where each ends, so that
// the size is exact before the first byte is read, and memory does not grow
// with what the pieces say.
//
// A piece must come out the same each time. One that has another length than
// before (a payload that was in it is damaged or deleted since) ends the
// moment: reading is ErrStale from there on.
type rendered struct {
	piece func(dst []byte, i int) ([]byte, error)
	ends  []int64

	ended atomic.Bool // a piece came out another

	mu   sync.Mutex
	last int // the piece in buf, -1 for none
	buf  []byte
}

func (r *rendered) spoiled() bool { return r.ended.Load() }

// pieceKeptBytesMax is the size of the largest piece that is kept for the next
// read. A kernel reads in parts of at most 1 MiB.
const pieceKeptBytesMax = 1 << 20

// render makes each of count pieces once, to know how long they are.
func render(count int, piece func(dst []byte, i int) ([]byte, error)) (*rendered, error) {
	r := &rendered{piece: piece, ends: make([]int64, count), last: -1}
	var end int64
	var buf []byte
	for i := range count {
		var err error
		if buf, err = piece(buf[:0], i); err != nil {
			return nil, err
		}
		end += int64(len(buf))
		r.ends[i] = end
		if cap(buf) > pieceKeptBytesMax {
			buf = nil
		}
	}
	return r, nil
}

func (r *rendered) Size() int64 {
	if len(r.ends) == 0 {
		return 0
	}
	return r.ends[len(r.ends)-1]
}

// HeldBytes is about how much memory it holds.
func (r *rendered) HeldBytes() int64 { return int64(len(r.ends))*weightOfPiece + 4096 }

// weightOfPiece is what a piece costs: its end here, its places beneath.
const weightOfPiece = 8 + 40

func (r *rendered) start(i int) int64 {
	if i == 0 {
		return 0
	}
	return r.ends[i-1]
}

func (r *rendered) ReadAt(p []byte, off int64) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	got := 0
	for i := r.at(off); got < len(p) && i < len(r.ends); i++ {
		b, err := r.get(i)
		if err != nil {
			return 0, err
		}
		got += copy(p[got:], b[off+int64(got)-r.start(i):])
	}
	if got < len(p) {
		return got, io.EOF
	}
	return got, nil
}

// at is the piece that holds the byte at off.
func (r *rendered) at(off int64) int {
	return sort.Search(len(r.ends), func(i int) bool { return r.ends[i] > off })
}

// get makes piece i; mu is held.
func (r *rendered) get(i int) ([]byte, error) {
	if r.last == i {
		return r.buf, nil
	}
	r.last = -1
	b, err := r.piece(r.buf[:0], i)
	switch {
	case err != nil:
		return nil, err
	case int64(len(b)) != r.ends[i]-r.start(i):
		r.ended.Store(true)
		return nil, ErrStale
	}
	if r.buf = nil; cap(b) <= pieceKeptBytesMax {
		r.buf, r.last = b, i
	}
	return b, nil
}
