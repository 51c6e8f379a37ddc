package segment

import "sync"

// windowPool keeps the windows of walkers that are closed: to open a log looks
// into many files, one after the other, and most are small.
type windowPool struct{ small, large sync.Pool }

// smallWindowBytes is the size of a window for a file, or what is left of one,
// that is no larger. All others have windowBytes.
const smallWindowBytes = 64 << 10

var windows windowPool

// get returns a window of at least n bytes, at most windowBytes. What it holds
// is not defined.
func (p *windowPool) get(n int) []byte {
	pool, size := &p.large, windowBytes
	if n <= smallWindowBytes {
		pool, size = &p.small, smallWindowBytes
	}
	if w, ok := pool.Get().(*[]byte); ok {
		return *w
	}
	return make([]byte, size)
}

func (p *windowPool) put(w []byte) {
	if len(w) == smallWindowBytes {
		p.small.Put(&w)
	} else {
		p.large.Put(&w)
	}
}
