package bench

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"durafs/internal/vfs"
	"durafs/store"
)

func TestWrittenCountsWrites(t *testing.T) {
	w := newWritten()
	f, err := w.Create(filepath.Join(t.TempDir(), "f"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for _, n := range []int{10, 4096} {
		if _, err := f.WriteAt(make([]byte, n), 5); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := f.ReadAt(make([]byte, 100), 0); err != nil {
		t.Fatal(err)
	}
	if got := w.bytes.Load(); got != 4106 {
		t.Errorf("%d bytes were written, want 4106", got)
	}
}

// Each byte counts once, however often and in whatever pieces it was read.
func TestReadsAreTakenOnce(t *testing.T) {
	dir := t.TempDir()
	a, b := filepath.Join(dir, "a"), filepath.Join(dir, "b")
	for _, name := range []string{a, b} {
		if err := os.WriteFile(name, make([]byte, 1000), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	r := newReads()
	for _, s := range []span{{b, 0, 10}, {a, 100, 200}, {a, 150, 160}, {a, 200, 300}, {a, 400, 500}, {a, 0, 10}} {
		f, err := r.Open(s.name)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := f.ReadAt(make([]byte, s.end-s.off), s.off); err != nil {
			t.Fatal(err)
		}
		f.Close()
	}
	want := []span{{a, 0, 10}, {a, 100, 300}, {a, 400, 500}, {b, 0, 10}}
	if got := r.taken(); !slices.Equal(got, want) {
		t.Errorf("taken %v, want %v", got, want)
	}
	if took, err := readAgain(append(want, span{filepath.Join(dir, "gone"), 0, 10})); err != nil || took <= 0 {
		t.Errorf("%v, %v", took, err)
	}
}

// A crashed store has all that it acknowledged in its tail, and a copy of it
// can be opened and crash again without harm to the next.
func TestTail(t *testing.T) {
	b := &bench{dir: t.TempDir()}
	crashed := filepath.Join(b.dir, "crashed")
	last, err := makeTail(t.Context(), crashed, 5<<20, 10)
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		p, err := b.reopen(t.Context(), crashed, last, true)
		if err != nil {
			t.Fatal(err)
		}
		if p.bytes < 5<<20 || p.open <= 0 || p.answered < p.open || p.scan <= 0 {
			t.Errorf("%+v", p)
		}
	}
	s, err := store.Open(t.Context(), crashed, store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close(t.Context())
	if n := s.Runs().Counts()["terminal"]; n != 5<<20/(100<<10)+1 {
		t.Errorf("%d runs", n)
	}
}

func TestUnsealedRefusesWhatSealingNeeds(t *testing.T) {
	dir := t.TempDir()
	u := newUnsealed(vfs.OS)
	f, err := u.Create(filepath.Join(dir, "1.seg"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := u.OpenWrite(filepath.Join(dir, "1.seg")); err == nil {
		t.Error("a segment was opened to be sealed")
	}
	if _, err := f.WriteAt([]byte("x"), 0); err != nil {
		t.Error(err)
	}
	u.off.Store(true)
	if _, err := f.WriteAt([]byte("y"), 0); err == nil {
		t.Error("written without power")
	}
	if err := f.Datasync(); err == nil {
		t.Error("synced without power")
	}
	if err := u.Remove(filepath.Join(dir, "1.seg")); err == nil {
		t.Error("removed without power")
	}
	f.Close()
	var _ vfs.FS = u
}

// A store's size on the disk is that of what was written into it.
func TestSpaceCountsWhatHolds(t *testing.T) {
	dir := t.TempDir()
	for name, n := range map[string]int{"a.seg": 100, "b.pack": 10, "spare-1.seg": 1000, "ballast": 5000} {
		if err := os.WriteFile(filepath.Join(dir, name), make([]byte, n), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if n, err := storedBytes(dir); err != nil || n != 110 {
		t.Errorf("%v, %v", n, err)
	}
}
