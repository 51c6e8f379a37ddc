package cas

import (
	"bytes"
	"os"
	"path/filepath"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"durafs/internal/vfs"
)

func mustPutApart(t *testing.T, s *Store, b []byte) Ref {
	t.Helper()
	r, err := s.PutApart(t.Context(), bytes.NewReader(b))
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// crashCopy is a directory with the packs as a killed process leaves them.
func crashCopy(t *testing.T, s *Store) string {
	t.Helper()
	dir := t.TempDir()
	for _, name := range files(t, s.dir) {
		b, err := os.ReadFile(name)
		if err == nil {
			err = os.WriteFile(filepath.Join(dir, filepath.Base(name)), b, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// TestSweepAndStalledPut: a put that began to look at a pack before that was swept
// does not take a chunk of it when it looks on after the sweep.
func TestSweepAndStalledPut(t *testing.T) {
	l := &fakeLedger{}
	o := smallPacks(t, l, t.TempDir())
	var stall atomic.Pointer[string]
	var count atomic.Int32
	reached, goOn := make(chan struct{}), make(chan struct{})
	o.FS = vfs.Hooked(vfs.OS, func(c vfs.Call, do func(int64) error) error {
		if name := stall.Load(); c.Op == vfs.OpRead && name != nil && c.Len == recordHeaderBytes && filepath.Base(c.Name) == *name {
			if count.Add(1) == 2 { // the first is that of duplicate, the second of since
				err := do(vfs.Whole)
				close(reached)
				<-goOn
				return err
			}
		}
		return do(vfs.Whole)
	})
	s := open(t, o)
	k := &kept{refs: map[int]Ref{}}
	x := noise(1, 1000) // one chunk
	k.set(0, mustPutApart(t, s, x))
	k.set(1, mustPutApart(t, s, noise(2, 1000)))
	k.forget(1)
	if _, err := s.Sweep(t.Context(), SweepOptions{All: true, References: k.references}); err != nil {
		t.Fatal(err)
	}
	waitFor(t, "the indexer", func() bool {
		s.indexer.mu.RLock()
		defer s.indexer.mu.RUnlock()
		return s.indexer.idle
	})
	// x is in a pack that a sweep has made. Now nothing refers to it any more.
	k.forget(0)
	var name string
	for _, p := range s.newestFirst() {
		if p.isSealed() {
			name = filepath.Base(activeName(s.dir, p.seq)) // the file is open since it was made
		}
	}
	putDone := make(chan Ref, 1)
	passes := 0
	k.passed = func() {
		if passes++; passes == 2 { // the mark: all is frozen and drained
			go func() {
				defer s.Hold()()
				stall.Store(&name)
				ref, err := s.PutApart(t.Context(), bytes.NewReader(x))
				if err != nil {
					t.Error(err)
				}
				putDone <- ref
			}()
			select {
			case <-reached:
			case <-time.After(time.Minute):
				t.Error("the put does not look where it was")
			}
		}
	}
	done, err := s.Sweep(t.Context(), SweepOptions{All: true, References: k.references})
	if err != nil || done.PacksFreed != 1 {
		t.Errorf("%+v, %v", done, err)
	}
	close(goOn)
	wantBytes(t, s, <-putDone, x)
}

// TestSweepKeepsUnlistedDamage: what had rotted when an open recovered a pack is
// not in its footer, and keeps the pack all the same.
func TestSweepKeepsUnlistedDamage(t *testing.T) {
	l := &fakeLedger{}
	o := smallPacks(t, l, t.TempDir())
	s := open(t, o)
	k := &kept{refs: map[int]Ref{}}
	for i := range 6 {
		k.set(i, mustPutApart(t, s, noise(uint64(i), 1000)))
	}
	dir := crashCopy(t, s)
	l2 := &fakeLedger{packs: l.Packs(), high: l.high}
	r := k.refs[2]
	f, err := os.OpenFile(activeName(dir, r.Hint.Pack), os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	var orig [1]byte
	f.ReadAt(orig[:], int64(r.Hint.Offset)+200)
	f.WriteAt([]byte{orig[0] ^ 1}, int64(r.Hint.Offset)+200)
	f.Close()
	o2 := o
	o2.Dir, o2.Ledger, o2.Used, o2.SeqAfter = dir, l2, used(k.all()...), l2.high
	s2, _, err := Open(t.Context(), o2)
	if err != nil {
		t.Fatal(err)
	}
	defer s2.Close()
	for i := range 6 {
		if i != 2 && i != 5 {
			k.forget(i)
		}
	}
	done, err := s2.Sweep(t.Context(), SweepOptions{All: true, References: k.references})
	if err != nil || done.PacksPinned != 1 || done.PacksFreed != 0 {
		t.Errorf("a record that is referred to and damaged did not keep its pack: %+v, %v", done, err)
	}
	wantBytes(t, s2, k.refs[5], noise(5, 1000))
}

// TestSweepKeepsWhatAnOpenMissed: so does what could not be read just then, and
// can be read by its place.
func TestSweepKeepsWhatAnOpenMissed(t *testing.T) {
	l := &fakeLedger{}
	o := smallPacks(t, l, t.TempDir())
	s := open(t, o)
	k := &kept{refs: map[int]Ref{}}
	for i := range 6 {
		k.set(i, mustPutApart(t, s, noise(uint64(i), 5000))) // five chunks each
	}
	dir := crashCopy(t, s)
	l2 := &fakeLedger{packs: l.Packs(), high: l.high}
	r := k.refs[2]
	pack := filepath.Base(activeName(dir, r.Hint.Pack))
	at := int64(r.Hint.Offset) - 2*1064 // in its chunks, before its root
	var bad atomic.Bool
	bad.Store(true)
	o2 := o
	o2.FS = vfs.Hooked(vfs.OS, func(c vfs.Call, do func(int64) error) error {
		if filepath.Base(c.Name) == pack {
			switch {
			case c.Op == vfs.OpWrite:
				bad.Store(false)
			case c.Op == vfs.OpReadUncached && bad.Load() && c.Off <= at && at < c.Off+c.Len:
				return syscall.EIO
			}
		}
		return do(vfs.Whole)
	})
	o2.Dir, o2.Ledger, o2.Used, o2.SeqAfter = dir, l2, used(k.all()...), l2.high
	s2, rec, err := Open(t.Context(), o2)
	if err != nil {
		t.Fatal(err)
	}
	defer s2.Close()
	wantBytes(t, s2, r, noise(2, 5000))
	for _, i := range []int{0, 1, 4} {
		k.forget(i)
	}
	done, err := s2.Sweep(t.Context(), SweepOptions{Only: rec.Sealed, References: k.references})
	if err != nil || done.PacksPinned != 1 {
		t.Errorf("%+v, %v", done, err)
	}
	s2.cache = newChunkCache(cacheBytesMax)
	wantBytes(t, s2, r, noise(2, 5000))
}
