package cas

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"durafs/internal/vfs"
)

// kill ends a store as SIGKILL does: nothing more is written.
func kill(s *Store) {
	_ = s.poison("killed by the test", os.ErrProcessDone)
	s.Close()
}

func reopen(t testing.TB, o Options, refs ...Ref) (*Store, Recovery) {
	t.Helper()
	o.Used = used(refs...)
	if l, ok := o.Ledger.(*fakeLedger); ok {
		o.SeqAfter = l.high
	}
	s, rec, err := Open(context.Background(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s, rec
}

func TestReopenAfterClose(t *testing.T) {
	l := &fakeLedger{}
	o := options(t, l, memDir(t))
	data := text(1, 300_000)
	s := open(t, o)
	ref := mustPut(t, s, data)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	s, rec := reopen(t, o, ref)
	if len(rec.Sealed)+len(rec.Dropped)+len(rec.Damage)+len(rec.Orphans) != 0 {
		t.Errorf("recovery after a clean close: %+v", rec)
	}
	wantBytes(t, s, ref, data)
	again := mustPut(t, s, text(2, 100_000))
	if again.Hint.Pack != 2 {
		t.Errorf("a new process appends to pack %d", again.Hint.Pack)
	}
}

func TestCloseWithoutPutsLeavesNothing(t *testing.T) {
	l := &fakeLedger{}
	o := options(t, l, memDir(t))
	if err := open(t, o).Close(); err != nil {
		t.Fatal(err)
	}
	if names, _ := os.ReadDir(o.Dir); len(names) != 0 || len(l.packs) != 0 {
		t.Errorf("left: %v, %v", names, l.packs)
	}
}

func TestReopenAfterKillCutsWhatNobodyRefersTo(t *testing.T) {
	l := &fakeLedger{}
	o := options(t, l, memDir(t))
	a, b := noise(1, 200_000), noise(2, 300_000)
	s := open(t, o)
	ref := mustPut(t, s, a)
	lost := mustPut(t, s, b)
	kill(s)
	s, rec := reopen(t, o, ref)
	if !slices.Equal(rec.Sealed, []uint32{1}) || len(rec.Damage) != 0 {
		t.Errorf("recovery: %+v", rec)
	}
	wantBytes(t, s, ref, a)
	if _, err := readAll(s, lost); err == nil {
		t.Error("what was cut off can be read")
	}
	if p := l.packs[0]; !p.Sealed || p.Bytes > int64(ref.Hint.End)+1000 {
		t.Errorf("ledger: %+v", p)
	}
	kill(s)
	s, rec = reopen(t, o, ref)
	if len(rec.Sealed)+len(rec.Damage) != 0 {
		t.Errorf("second recovery: %+v", rec)
	}
	wantBytes(t, s, ref, a)
}

func TestReopenDropsAPackWithoutUse(t *testing.T) {
	l := &fakeLedger{}
	o := options(t, l, memDir(t))
	s := open(t, o)
	mustPut(t, s, noise(1, 100_000))
	kill(s)
	s, rec := reopen(t, o)
	if !slices.Equal(rec.Dropped, []uint32{1}) {
		t.Errorf("recovery: %+v", rec)
	}
	if names, _ := filepath.Glob(filepath.Join(o.Dir, "*")); len(names) != 0 {
		t.Errorf("left: %v", names)
	}
	if ref := mustPut(t, s, noise(2, 100_000)); ref.Hint.Pack != 2 {
		t.Errorf("number %d was given again", ref.Hint.Pack)
	}
}

// A payload may begin in one pack and end in the next. The log refers to its
// manifest only, so the earlier pack's chunks are known from there alone.
func TestReopenKeepsChunksInEarlierPacks(t *testing.T) {
	l := &fakeLedger{}
	o := options(t, l, memDir(t))
	o.PackBytesMax = 256 << 10
	data := noise(1, 1<<20)
	s := open(t, o)
	// The ledger does not take seals, so that all packs stay open.
	sealed := &refusing{fakeLedger: l}
	s.opts.Ledger = sealed
	ref, err := s.Put(t.Context(), bytes.NewReader(data[:500<<10]))
	if err != nil {
		t.Fatal(err)
	}
	kill(s)
	if len(l.packs) < 2 || l.packs[0].Sealed {
		t.Fatalf("packs: %+v", l.packs)
	}
	s, rec := reopen(t, o, ref)
	if len(rec.Sealed) != len(l.packs) || len(rec.Damage) != 0 {
		t.Errorf("recovery: %+v", rec)
	}
	wantBytes(t, s, ref, data[:500<<10])
}

// refusing is a ledger that does not take seals.
type refusing struct{ *fakeLedger }

func (refusing) SealPack(Pack) error { return os.ErrDeadlineExceeded }

func TestReopenNamesDamage(t *testing.T) {
	l := &fakeLedger{}
	o := options(t, l, memDir(t))
	s := open(t, o)
	var refs []Ref
	var datas [][]byte
	for i := range 5 {
		datas = append(datas, noise(uint64(i), 30_000))
		refs = append(refs, mustPut(t, s, datas[i]))
	}
	kill(s)
	flip(t, activeName(o.Dir, 1), int64(refs[1].Hint.Offset)+5)    // header
	flip(t, activeName(o.Dir, 1), int64(refs[3].Hint.Offset)+1000) // body
	s, rec := reopen(t, o, refs...)
	if len(rec.Damage) != 2 || rec.Damage[0].Offset != int64(refs[1].Hint.Offset) || rec.Damage[1].ID != refs[3].ID {
		t.Errorf("damage: %v", rec.Damage)
	}
	for i, ref := range refs {
		got, err := readAll(s, ref)
		if i == 1 || i == 3 {
			wantDamage(t, err, ref)
		} else if err != nil || !bytes.Equal(got, datas[i]) {
			t.Errorf("payload %d: %v", i, err)
		}
	}
	// What is put again is stored again, and then the old reference is whole.
	mustPut(t, s, datas[3])
	wantBytes(t, s, refs[3], datas[3])
}

func TestReopenWithAMissingPack(t *testing.T) {
	for _, sealed := range []bool{false, true} {
		l := &fakeLedger{}
		o := options(t, l, memDir(t))
		s := open(t, o)
		ref := mustPut(t, s, noise(1, 100_000))
		if sealed {
			s.Close()
		} else {
			kill(s)
		}
		names, _ := filepath.Glob(filepath.Join(o.Dir, "*.pack"))
		aside := filepath.Join(memDir(t), "aside")
		if err := os.Rename(names[0], aside); err != nil {
			t.Fatal(err)
		}
		s, rec := reopen(t, o, ref)
		if !slices.Equal(rec.Missing, []uint32{1}) || len(rec.Damage) != 1 {
			t.Errorf("recovery: %+v", rec)
		}
		_, err := readAll(s, ref)
		wantDamage(t, err, ref)
		other := mustPut(t, s, noise(2, 100_000))
		s.Close()
		// Under whatever name it comes back, it is known again.
		if err := os.Rename(aside, filepath.Join(o.Dir, "found.pack")); err != nil {
			t.Fatal(err)
		}
		s, _ = reopen(t, o, ref, other)
		wantBytes(t, s, ref, noise(1, 100_000))
		wantBytes(t, s, other, noise(2, 100_000))
	}
}

func TestOrphansAreLeftAlone(t *testing.T) {
	l := &fakeLedger{}
	o := options(t, l, memDir(t))
	if err := os.WriteFile(filepath.Join(o.Dir, "stranger"), []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	_, rec := reopen(t, o)
	if !slices.Equal(rec.Orphans, []string{"stranger"}) {
		t.Errorf("orphans: %v", rec.Orphans)
	}
}

func flip(t testing.TB, file string, off int64) {
	t.Helper()
	f, err := vfs.OS.OpenWrite(file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var b [1]byte
	if _, err := f.ReadAt(b[:], off); err != nil {
		t.Fatal(err)
	}
	b[0] ^= 0x10
	if _, err := f.WriteAt(b[:], off); err != nil {
		t.Fatal(err)
	}
	if err := f.Datasync(); err != nil {
		t.Fatal(err)
	}
}

// spanning makes a payload over several packs that are all open, and kills the
// store.
func spanning(t *testing.T) (*fakeLedger, Options, Ref, []byte) {
	l := &fakeLedger{}
	o := options(t, l, memDir(t))
	o.PackBytesMax = 256 << 10
	s := open(t, o)
	s.opts.Ledger = &refusing{fakeLedger: l}
	data := noise(1, 500<<10)
	ref := mustPut(t, s, data)
	kill(s)
	return l, o, ref, data
}

// A pack that was away while later ones were sealed is not cut by what the log
// alone refers to.
func TestPackComesBackAfterLaterOnesWereSealed(t *testing.T) {
	_, o, ref, data := spanning(t)
	name := sealedOrActive(t, o.Dir, 1)
	aside := filepath.Join(t.TempDir(), "aside")
	copyFile(t, name, aside)
	if err := os.Remove(name); err != nil {
		t.Fatal(err)
	}
	ref2 := ref
	ref2.Hint = Hint{Pack: 1, Offset: packHeaderBytes, End: packHeaderBytes + 128} // so that it is in use
	s, rec := reopen(t, o, ref, ref2)
	if !slices.Equal(rec.Missing, []uint32{1}) {
		t.Fatalf("recovery: %+v", rec)
	}
	s.Close()
	copyFile(t, aside, name)
	s, _ = reopen(t, o, ref, ref2)
	wantBytes(t, s, ref, data)
}

// A damaged manifest names no chunks, so those in earlier packs are kept.
func TestDamagedManifestKeepsEarlierPacks(t *testing.T) {
	_, o, ref, data := spanning(t)
	flip(t, sealedOrActive(t, o.Dir, ref.Hint.Pack), int64(ref.Hint.Offset)+100)
	s, rec := reopen(t, o, ref)
	if len(rec.Damage) != 1 || rec.Damage[0].ID != ref.ID {
		t.Errorf("damage: %v", rec.Damage)
	}
	_, err := readAll(s, ref)
	wantDamage(t, err, ref)
	for off := 0; off+ChunkBytes <= len(data); off += ChunkBytes {
		id := Sum(data[off:][:ChunkBytes])
		if err := s.visit(id, Hint{}, nil, func(found) error { return nil }); err != nil {
			t.Errorf("chunk at %d: %v", off, err)
		}
	}
}

// sealedOrActive finds a pack's file by its header.
func sealedOrActive(t *testing.T, dir string, seq uint32) string {
	t.Helper()
	names, _ := filepath.Glob(filepath.Join(dir, "*.pack"))
	for _, n := range names {
		f, err := os.Open(n)
		if err != nil {
			t.Fatal(err)
		}
		h, err := readHeader(f)
		f.Close()
		if err == nil && h.Seq == seq {
			return n
		}
	}
	t.Fatalf("pack %d is not among %v", seq, names)
	return ""
}

func copyFile(t *testing.T, from, to string) {
	t.Helper()
	data, err := os.ReadFile(from)
	if err == nil {
		err = os.WriteFile(to, data, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
}
