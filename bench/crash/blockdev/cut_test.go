package blockdev

import (
	"bytes"
	"math/rand/v2"
	"syscall"
	"testing"
)

func filled(b byte) []byte { return bytes.Repeat([]byte{b}, BlockBytes) }

// first tells what the first bytes of some blocks are.
func first(m Image, blocks int64) string {
	b := make([]byte, blocks*BlockBytes)
	m.read(b, 0)
	var s []byte
	for n := range blocks {
		s = append(s, b[n*BlockBytes]+'0')
	}
	return string(s)
}

// What was flushed is there, and of what was not each block holds any version
// that it had, by itself; what failed was never there.
func TestCuts(t *testing.T) {
	d := newDevice(NewImage(4 * BlockBytes))
	write := func(n int64, b byte) error {
		return d.happens(Event{Kind: Write, Off: n * BlockBytes, Data: filled(b)})
	}
	flush := func() error { return d.happens(Event{Kind: Flush}) }
	must := func(errs ...error) {
		t.Helper()
		for _, err := range errs {
			if err != nil {
				t.Fatal(err)
			}
		}
	}
	must(write(0, 1), write(1, 1), flush(), write(0, 2), write(0, 3), write(2, 4))
	d.Note("here")
	d.SetFault(func(n int, e Event) *Fault {
		switch n {
		case 0:
			return &Fault{Err: syscall.EIO}
		case 1, 2:
			return &Fault{Err: syscall.EIO, Done: n == 2}
		}
		return nil
	})
	if write(3, 5) != syscall.EIO || flush() != syscall.EIO || write(3, 6) != syscall.EIO {
		t.Error("nothing failed")
	}
	end := d.Record().End()
	if none, all := first(end.None(), 4), first(end.All(), 4); none != "1100" || all != "3146" {
		t.Errorf("none %s, all %s", none, all)
	}
	rng, seen := rand.New(rand.NewPCG(1, 1)), map[string]bool{}
	for range 200 {
		seen[first(end.Mix(rng), 4)] = true
	}
	if len(seen) != 3*2*2 { // of block 0: 1, 2, 3; of 2: 0, 4; of 3: 0, 6
		t.Errorf("mixes: %v", seen)
	}
	must(flush())
	if got := first(d.Record().End().None(), 4); got != "3146" {
		t.Errorf("flushed: %s", got)
	}
	var at []int
	for c := range d.Record().Cuts(3) {
		at = append(at, c.Events)
	}
	if len(at) == 0 || at[0] != 3 || at[1] != 4 {
		t.Errorf("cuts at %v", at)
	}
}

// A write need not begin or end where a block does.
func TestParts(t *testing.T) {
	m := NewImage(3 * BlockBytes)
	want := make([]byte, m.Size)
	rng := rand.New(rand.NewPCG(1, 2))
	for i := range 200 {
		off := rng.Int64N(m.Size)
		data := bytes.Repeat([]byte{byte(i + 1)}, int(rng.Int64N(m.Size-off)))
		m.write(off, data)
		copy(want[off:], data)
	}
	got := make([]byte, m.Size)
	if m.read(got, 0); !bytes.Equal(got, want) {
		t.Error("it does not read as it was written")
	}
	d := newDevice(m)
	if d.happens(Event{Kind: Write, Off: m.Size, Data: []byte{1}}) == nil {
		t.Error("a write behind the end")
	}
}
