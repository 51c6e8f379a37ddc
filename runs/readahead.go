package runs

import "io"

// readAhead reads r from its beginning to size in steps, one of them ahead: a
// table is read while what came before is entered into the index. close must be
// called.
type readAhead struct {
	steps chan readStep // filled ones
	free  chan []byte   // to be filled
	now   readStep
	at    []byte // of now, what was not taken
}

type readStep struct {
	b   []byte
	err error
}

const (
	readAheadBytes = 1 << 20
	readAheadSteps = 3 // one that is filled, one that waits, one that is taken
)

func newReadAhead(r io.ReaderAt, size int64) *readAhead {
	a := &readAhead{steps: make(chan readStep, readAheadSteps), free: make(chan []byte, readAheadSteps)}
	for range min(readAheadSteps, size/readAheadBytes+1) {
		a.free <- make([]byte, min(readAheadBytes, size))
	}
	go a.fill(r, size)
	return a
}

func (a *readAhead) fill(r io.ReaderAt, size int64) {
	defer close(a.steps)
	for off := int64(0); off < size; {
		b, ok := <-a.free
		if !ok {
			return
		}
		b = b[:min(int64(cap(b)), size-off)]
		n, err := r.ReadAt(b, off)
		if n == len(b) {
			err = nil
		}
		a.steps <- readStep{b[:n], err}
		if err != nil {
			return
		}
		off += int64(n)
	}
}

func (a *readAhead) Read(p []byte) (int, error) {
	for len(a.at) == 0 {
		if a.now.err != nil {
			return 0, a.now.err
		}
		if a.now.b != nil {
			a.free <- a.now.b
			a.now.b = nil
		}
		var ok bool
		if a.now, ok = <-a.steps; !ok {
			a.now.err = io.EOF
		}
		a.at = a.now.b
	}
	n := copy(p, a.at)
	a.at = a.at[n:]
	return n, nil
}

// close ends the reading.
func (a *readAhead) close() {
	close(a.free)
	for range a.steps {
	}
}
