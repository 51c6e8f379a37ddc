package wal

import (
	"bytes"
	"cmp"
	"errors"
	"io"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
)

// recordedReads is a file that tells what was read of it, and fails from bad
// on, if that is not 0.
type recordedReads struct {
	file  []byte
	bad   int64
	mu    sync.Mutex
	calls [][2]int64
}

var errBad = errors.New("bad sector")

func (r *recordedReads) ReadAt(p []byte, off int64) (int, error) {
	r.mu.Lock()
	r.calls = append(r.calls, [2]int64{off, int64(len(p))})
	r.mu.Unlock()
	if end := off + int64(len(p)); r.bad > 0 && end > r.bad {
		return copy(p, r.file[min(off, r.bad):r.bad]), errBad
	}
	return bytes.NewReader(r.file).ReadAt(p, off)
}

func randomFile(n int) []byte {
	b := make([]byte, n)
	rand.NewChaCha8([32]byte{1}).Read(b)
	return b
}

func TestAheadReadsTheSame(t *testing.T) {
	const size = 5*aheadBytes + 12_345
	r := rand.New(rand.NewPCG(1, 2))
	for _, end := range []int64{size, size - 100, 3 * aheadBytes, size + 500} {
		file := &recordedReads{file: randomFile(size)}
		a := newAhead(file.ReadAt, end, nil)
		known := min(end, size)
		off := int64(4096)
		for range 60 {
			p := make([]byte, 1+r.IntN(aheadBytes+5000))
			n, err := a.ReadAt(p, off)
			want := max(0, min(int64(len(p)), known-off))
			if int64(n) != want || (err == io.EOF) != (want < int64(len(p))) {
				t.Fatalf("end %d: %d bytes at %d: got %d, %v, want %d", end, len(p), off, n, err, want)
			}
			if n > 0 && !bytes.Equal(p[:n], file.file[off:off+int64(n)]) {
				t.Fatalf("end %d: wrong bytes at %d", end, off)
			}
			if off += int64(n); r.IntN(8) == 0 || want == 0 {
				off = r.Int64N(end + 1000)
			}
		}
		a.wait()
		a = newAhead(file.ReadAt, end, a) // with the memory of the one before
		p := make([]byte, 100)
		if _, err := a.ReadAt(p, aheadBytes-50); err != nil || !bytes.Equal(p, file.file[aheadBytes-50:][:100]) {
			t.Fatalf("a used block is not read anew: %v", err)
		}
		a.wait()
	}
}

// Each block is read once, from the first to the last.
func TestAheadReadsOnce(t *testing.T) {
	const size = 5*aheadBytes + 7
	file := &recordedReads{file: randomFile(size)}
	a := newAhead(file.ReadAt, size, nil)
	for off := int64(0); off < size; off += 100_000 {
		if _, err := a.ReadAt(make([]byte, 100_000), off); err != nil && err != io.EOF {
			t.Fatal(err)
		}
	}
	a.wait()
	slices.SortFunc(file.calls, func(a, b [2]int64) int { return cmp.Compare(a[0], b[0]) })
	if len(file.calls) != 6 {
		t.Fatalf("read %v", file.calls)
	}
	for i, c := range file.calls {
		if off := int64(i) * aheadBytes; c[0] != off || c[1] != min(aheadBytes, size-off) {
			t.Fatalf("read %v", file.calls)
		}
	}
}

// What is lent is what the file has, up to the end of a block.
func TestAheadLends(t *testing.T) {
	const size = 2*aheadBytes + 500
	file := &recordedReads{file: randomFile(size)}
	a := newAhead(file.ReadAt, size+100, nil) // the file is shorter than it should be
	for _, c := range []struct{ off, n int64 }{
		{4096, aheadBytes - 4096},
		{4096 + 48, aheadBytes - 4096 - 48},
		{2*aheadBytes - 1, 1},
		{2 * aheadBytes, 500},
		{size, 0},
		{size + 100, 0},
		{100, aheadBytes - 100},
	} {
		b := a.lend(c.off)
		if int64(len(b)) != c.n || !bytes.Equal(b, file.file[min(c.off, size):][:c.n]) {
			t.Fatalf("lent %d bytes at %d, not the %d of the file", len(b), c.off, c.n)
		}
	}
	a.wait()
}

// What lies before a bad sector is given, then the error is.
func TestAheadStopsAtABadSector(t *testing.T) {
	const bad = aheadBytes + 8192
	file := &recordedReads{file: randomFile(3 * aheadBytes), bad: bad}
	a := newAhead(file.ReadAt, 3*aheadBytes, nil)
	p := make([]byte, 2*aheadBytes)
	for range 2 {
		n, err := a.ReadAt(p, 4096)
		if n != bad-4096 || !errors.Is(err, errBad) || !bytes.Equal(p[:n], file.file[4096:bad]) {
			t.Fatalf("got %d bytes, %v", n, err)
		}
	}
	a.wait()
}
