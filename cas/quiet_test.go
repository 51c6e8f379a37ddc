package cas

import (
	"io"
	"os"
	"testing"
)

// busy begins a put whose payload does not end before the test says so.
func busy(t *testing.T, s *Store) (end func()) {
	t.Helper()
	r, w := io.Pipe()
	done := make(chan error, 1)
	go func() {
		_, err := s.Put(t.Context(), r)
		done <- err
	}()
	if _, err := w.Write([]byte("x")); err != nil { // it runs
		t.Fatal(err)
	}
	return func() {
		w.Close()
		if err := receive(t, done); err != nil {
			t.Error(err)
		}
	}
}

// fillPacks fills n packs of 128 KiB, and begins one more.
func fillPacks(t *testing.T, s *Store, n int) (refs []Ref) {
	t.Helper()
	for i := range n + 1 {
		refs = append(refs, mustPut(t, s, noise(uint64(i), 60_000)), mustPut(t, s, noise(uint64(i+1000), 60_000)))
	}
	return refs
}

func quietStore(t *testing.T) (*Store, Options) {
	o := options(t, &fakeLedger{}, memDir(t))
	o.PackBytesMax = 128 << 10
	return open(t, o), o
}

// A full pack is not hashed while a put runs; what is in it can be read and is
// not stored again; and it is sealed when the put ends.
func TestFullPacksWaitForAQuietTime(t *testing.T) {
	s, _ := quietStore(t)
	end := busy(t, s)
	refs := fillPacks(t, s, 4)
	if st := s.Stats(); st.PacksSealed != 0 || st.Packs < 5 {
		t.Errorf("while a put runs: %d of %d packs are sealed", st.PacksSealed, st.Packs)
	}
	before := s.Stats()
	mustPut(t, s, noise(0, 60_000))
	if now := s.Stats(); now.ChunkHits != before.ChunkHits+1 || now.Records != before.Records {
		t.Errorf("a chunk of a full pack was stored again: %+v", now)
	}
	wantBytes(t, s, refs[0], noise(0, 60_000))
	end()
	waitFor(t, "the seals", func() bool { return s.Stats().PacksSealed == 4 })
}

// A put that does not end holds up a bounded number of packs.
func TestPacksThatWaitAreBounded(t *testing.T) {
	s, _ := quietStore(t)
	defer busy(t, s)()
	fillPacks(t, s, unhashedMax+3)
	waitFor(t, "the seals above the bound", func() bool { return s.Stats().PacksSealed == 3 })
}

// Packs that waited when the process ended are as good as sealed ones: the next
// Open ends each, and nothing of a payload is lost.
func TestReopenSealsPacksThatWaited(t *testing.T) {
	s, o := quietStore(t)
	end := busy(t, s)
	refs := fillPacks(t, s, unhashedMax)
	if n := s.Stats().PacksSealed; n != 0 {
		t.Fatalf("%d packs were sealed", n)
	}
	_ = s.poison("killed by the test", os.ErrProcessDone) // before the put ends
	end()
	s.Close()
	s, rec := reopen(t, o, refs...)
	if len(rec.Sealed) != unhashedMax+1 || len(rec.Damage) != 0 {
		t.Errorf("recovery: %+v", rec)
	}
	for i, ref := range refs {
		wantBytes(t, s, ref, noise(uint64(i/2+i%2*1000), 60_000))
	}
}
