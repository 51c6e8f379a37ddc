package cas

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"durafs/internal/vfs"
)

func wantDamage(t testing.TB, err error, ref Ref) {
	t.Helper()
	var d *DamageError
	if !errors.As(err, &d) {
		t.Fatalf("want damage, got %v", err)
	}
	if d.File == "" || d.Reason == "" {
		t.Errorf("damage is not named: %+v", d)
	}
}

// sealedPack makes a store with one sealed pack.
func sealedPack(t *testing.T) (l *fakeLedger, dir string, refs []Ref, datas [][]byte) {
	l, dir = &fakeLedger{}, memDir(t)
	o := options(t, l, dir)
	o.chunkBytes, o.nodeChildren = 4096, 2
	s := open(t, o)
	for i, data := range [][]byte{text(1, 17_000), noise(2, 4096*4+10), text(3, 4096*3), noise(4, 20_000)} {
		refs = append(refs, mustPut(t, s, data))
		datas = append(datas, data)
		_ = i
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	return l, dir, refs, datas
}

func verify(t testing.TB, dir string, packs []Pack, deep bool) []Finding {
	t.Helper()
	var found []Finding
	if _, err := Verify(t.Context(), vfs.OS, dir, packs, deep, nil, func(f Finding) { found = append(found, f) }); err != nil {
		t.Fatal(err)
	}
	return found
}

func TestVerifySound(t *testing.T) {
	l, dir, _, _ := sealedPack(t)
	for _, deep := range []bool{false, true} {
		if found := verify(t, dir, l.packs, deep); len(found) != 0 {
			t.Errorf("deep %v: %v", deep, found)
		}
	}
}

// One flipped bit, at one place after the other: every payload is read as it
// was put, or its damage is named; Verify finds each; and a store opens.
func TestBitFlips(t *testing.T) {
	l, dir, refs, datas := sealedPack(t)
	file := filepath.Join(dir, l.packs[0].B3.String()+".pack")
	whole, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	step := 131
	if testing.Short() {
		step = 997
	}
	damaged := 0
	for at := 0; at < len(whole); at += step {
		bad := bytes.Clone(whole)
		bad[at] ^= 1 << (at % 8)
		if err := os.WriteFile(file, bad, 0o600); err != nil {
			t.Fatal(err)
		}
		if found := verify(t, dir, l.packs, false); len(found) == 0 {
			t.Fatalf("bit at %d of %d: Verify finds nothing", at, len(whole))
		}
		s, _ := reopen(t, options(t, l, dir), refs...)
		for i, ref := range refs {
			for _, hint := range []Hint{ref.Hint, {}, {Pack: 1, Offset: 4096, End: 4096 + 128}} {
				ref.Hint = hint
				got, err := readAll(s, ref)
				switch {
				case err == nil && !bytes.Equal(got, datas[i]):
					t.Fatalf("bit at %d: payload %d is wrong", at, i)
				case err != nil && !errors.Is(err, ErrNotFound):
					damaged++
					wantDamage(t, err, ref)
				}
			}
		}
		kill(s)
	}
	if damaged == 0 {
		t.Error("no payload was damaged: the test flips nothing")
	}
}

func TestLostFooterIsRebuilt(t *testing.T) {
	for name, spoil := range map[string]func([]byte) []byte{
		"trailer wrong": func(b []byte) []byte { b[len(b)-20] ^= 1; return b },
		"entry wrong":   func(b []byte) []byte { b[len(b)-footerTrailerBytes-70] ^= 1; return b },
		"cut off":       func(b []byte) []byte { return b[:len(b)-footerTrailerBytes-100] },
		"zeros":         func(b []byte) []byte { clear(b[len(b)-footerTrailerBytes:]); return b },
	} {
		t.Run(name, func(t *testing.T) {
			l, dir, refs, datas := sealedPack(t)
			file := filepath.Join(dir, l.packs[0].B3.String()+".pack")
			whole, _ := os.ReadFile(file)
			if err := os.WriteFile(file, spoil(whole), 0o600); err != nil {
				t.Fatal(err)
			}
			s, _ := reopen(t, options(t, l, dir), refs...)
			for i, ref := range refs {
				ref.Hint = Hint{}
				wantBytes(t, s, ref, datas[i])
			}
		})
	}
}

// A footer's entry that is wrong hides its record from a search, unless the
// footer is checked.
func TestEveryFooterEntryIsChecked(t *testing.T) {
	l, dir, refs, datas := sealedPack(t)
	file := filepath.Join(dir, l.packs[0].B3.String()+".pack")
	whole, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	size := int64(len(whole))
	tr, err := parseTrailer(whole[size-footerTrailerBytes:], size-footerTrailerBytes)
	if err != nil {
		t.Fatal(err)
	}
	for i := range int64(tr.Count) {
		bad := bytes.Clone(whole)
		bad[int64(tr.Entries)+i*footerEntryBytes+31] ^= 1 // the order stays
		if err := os.WriteFile(file, bad, 0o600); err != nil {
			t.Fatal(err)
		}
		s, _ := reopen(t, options(t, l, dir), refs...)
		for i, ref := range refs {
			ref.Hint = Hint{}
			wantBytes(t, s, ref, datas[i])
		}
		kill(s)
	}
}

func TestVerifyDeepFindsAWrongPayload(t *testing.T) {
	l := &fakeLedger{}
	o := options(t, l, memDir(t))
	o.chunkBytes = 4096
	s := open(t, o)
	p := &put{s: s, ctx: t.Context(), needs: map[*pack]uint32{}}
	p.tree = tree{put: p}
	ref := mustPut(t, s, noise(1, 4096*5))
	r, err := s.Open(ref)
	if err != nil {
		t.Fatal(err)
	}
	for _, i := range []int{1, 0, 2} { // another order than that of the id
		if err := p.tree.add(0, r.root.Child[i], 4096); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := p.tree.finish(ID{1}); err != nil {
		t.Fatal(err)
	}
	s.Close()
	if found := verify(t, o.Dir, l.packs, false); len(found) != 0 {
		t.Errorf("not deep: %v", found)
	}
	if found := verify(t, o.Dir, l.packs, true); len(found) != 1 || found[0].ID != (ID{1}) {
		t.Errorf("deep: %v", found)
	}
}

func TestVerifyBesideAnOpenStore(t *testing.T) {
	l := &fakeLedger{}
	o := options(t, l, memDir(t))
	s := open(t, o)
	mustPut(t, s, noise(1, 200_000))
	f, err := os.OpenFile(activeName(o.Dir, 1), os.O_WRONLY|os.O_APPEND, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	f.Write([]byte("half a record that is being written"))
	if found := verify(t, o.Dir, l.Packs(), true); len(found) != 0 {
		t.Errorf("found %v", found)
	}
}
