package cas

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"

	"durafs/internal/vfs"
)

func marksOf(r *rand.Rand, n int, spread uint64) []slot {
	slots := make([]slot, n)
	for i := range slots {
		slots[i] = slot{r.Uint64()%spread + 1, uint64(r.IntN(9)+1)<<32 | uint64(512+i)}
	}
	return slots
}

// An index answers as a map does, also where marks are equal across pages.
func TestIndexAgainstAMap(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	for _, spread := range []uint64{1, 3, 50, 1 << 62} {
		for _, n := range []int{1, 254, 255, 256, 511, 3000} {
			slots := marksOf(r, n, spread)
			want := map[uint64][]uint64{}
			for _, s := range slots {
				want[s.mark] = append(want[s.mark], s.place)
			}
			file := marshalIndex([16]byte{1}, []indexedPack{{1, 7}}, slots)
			x, err := readIndex(bytes.NewReader(file), int64(len(file)))
			if err != nil {
				t.Fatal(err)
			}
			for mark, places := range want {
				got, err := x.places(bytes.NewReader(file), mark, nil)
				slices.Sort(got)
				slices.Sort(places)
				if err != nil || !slices.Equal(got, places) {
					t.Fatalf("%d of %d, mark %d: %v, %v, want %v", n, spread, mark, got, err, places)
				}
			}
			for range 100 {
				mark := r.Uint64()
				if got, err := x.places(bytes.NewReader(file), mark, nil); err != nil || len(got) != len(want[mark]) {
					t.Fatalf("mark %d: %v, %v", mark, got, err)
				}
			}
		}
	}
}

func TestBloom(t *testing.T) {
	const n = 100_000
	r := rand.New(rand.NewPCG(5, 6))
	f := bloom(make([]byte, bloomBytes(n)))
	marks := make([]uint64, n)
	for i := range marks {
		marks[i] = r.Uint64()
		f.add(marks[i])
	}
	for _, m := range marks {
		if !f.has(m) {
			t.Fatalf("mark %x was added and is not there", m)
		}
	}
	wrong := 0
	for range n {
		if f.has(r.Uint64()) {
			wrong++
		}
	}
	if wrong > n*2/100 {
		t.Errorf("%d of %d false hits", wrong, n)
	}
}

// Any flipped bit, and any other length, is noticed before it can tell something
// else: an index that is wrong is none.
func TestIndexIsNotMalleable(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 8))
	file := marshalIndex([16]byte{1}, []indexedPack{{1, 7}, {2, 8}}, marksOf(r, 600, 1<<62))
	sound := func(b []byte) bool {
		x, err := readIndex(bytes.NewReader(b), int64(len(b)))
		for i := 0; err == nil && i < len(x.Marks); i++ {
			_, err = parsePage(b[x.pages+int64(i)*indexPageBytes:][:indexPageBytes])
		}
		return err == nil
	}
	if !sound(file) {
		t.Fatal("the index is not sound")
	}
	for at := 0; at < len(file); at += 3 {
		bad := bytes.Clone(file)
		bad[at] ^= 1 << (at % 8)
		if sound(bad) {
			t.Fatalf("a bit at %d of %d goes unnoticed", at, len(file))
		}
	}
	for _, n := range []int{0, 1, 4095, 4096, 5000, len(file) - 4096, len(file) - 1} {
		if sound(file[:n]) {
			t.Errorf("%d of %d bytes are taken for an index", n, len(file))
		}
	}
	if sound(append(bytes.Clone(file), 0)) {
		t.Error("a byte more goes unnoticed")
	}
}

// What parses marshals to the same bytes, nothing panics, and what is allocated
// is bounded by the file. The parts are given apart from their padding and
// checksums, or the fuzzer would not get past these.
func FuzzIndexPage(f *testing.F) {
	page := marshalPage([]slot{{1, 5}, {1, 6}, {9, 2}})
	f.Add(uint32(3), page[indexPageHead:indexPageHead+3*indexEntryBytes])
	f.Add(uint32(0), []byte{})
	f.Add(uint32(255), bytes.Repeat([]byte{1}, 255*indexEntryBytes))
	f.Fuzz(func(t *testing.T, n uint32, entries []byte) {
		b := make([]byte, indexPageBytes)
		copy(b[indexPageHead:], entries)
		binary.LittleEndian.PutUint32(b, n)
		binary.LittleEndian.PutUint32(b[4:], checksum(b[indexPageHead:]))
		if got, err := parsePage(b); err == nil && !bytes.Equal(marshalPage(got), b) {
			t.Errorf("%v has two forms", got)
		}
	})
}

func FuzzIndexDirectory(f *testing.F) {
	file := marshalIndex([16]byte{1}, []indexedPack{{1, 7}, {4, 9}}, []slot{{1, 5}, {2, 6}})
	f.Add(uint32(2), uint32(2), uint32(64), file[packHeaderBytes:packHeaderBytes+directoryBytes(2, 2, 64)])
	f.Add(uint32(1<<31), uint32(1<<31), uint32(1<<31), []byte{1})
	f.Fuzz(func(t *testing.T, packs, entries, filter uint32, dir []byte) {
		pages := min(pagesOf(int(entries)), 16)
		b := append(make([]byte, packHeaderBytes), dir...)
		b = append(b, make([]byte, pageAligned(int64(len(b)))-int64(len(b))+int64(pages)*indexPageBytes)...)
		copy(b, indexMagic)
		for i, n := range []uint32{packs, entries, filter} {
			binary.LittleEndian.PutUint32(b[32+4*i:], n)
		}
		n := min(directoryBytes(int(packs), int(entries), int(filter)), int64(len(b))-packHeaderBytes)
		binary.LittleEndian.PutUint32(b[44:], checksum(b[packHeaderBytes:packHeaderBytes+n]))
		binary.LittleEndian.PutUint32(b[4092:], checksum(b[:4092]))
		x, err := readIndex(bytes.NewReader(b), int64(len(b)))
		if err != nil {
			return
		}
		if len(x.Packs) != int(packs) || len(x.Filter) != int(filter) || len(x.Marks) != pages {
			t.Errorf("%d packs, %d bytes of filter, %d pages", len(x.Packs), len(x.Filter), len(x.Marks))
		}
		again := slices.Concat(marshalDirectory(x.Packs, x.Marks, x.Filter), make([]byte, indexPageBytes))[:n]
		if !bytes.Equal(again, b[packHeaderBytes:packHeaderBytes+n]) {
			t.Error("a directory has two forms")
		}
		for _, mark := range append(x.Marks, 0, 1, 1<<63) { // pages of zeros are no pages
			if got, err := x.places(bytes.NewReader(b), mark, nil); err == nil && len(got) > 0 {
				t.Errorf("mark %d is at %v", mark, got)
			}
		}
	})
}

// indexOptions make packs small and indexes of few records.
func indexOptions(t testing.TB, l *fakeLedger, dir string) Options {
	o := options(t, l, dir)
	o.PackBytesMax, o.indexRecords = 256<<10, 8
	return o
}

func (s *Store) waitIndexed(t *testing.T) {
	t.Helper()
	waitFor(t, "the indexer", func() bool {
		s.indexer.mu.RLock()
		defer s.indexer.mu.RUnlock()
		return s.indexer.idle
	})
}

// indexedStore leaves a store whose packs are in indexes but for the last.
func indexedStore(t *testing.T) (o Options, refs []Ref) {
	l := &fakeLedger{}
	o = indexOptions(t, l, memDir(t))
	s := open(t, o)
	for i := range 8 {
		refs = append(refs, mustPut(t, s, noise(uint64(i), 200_000)))
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	s, _ = reopen(t, o, refs...)
	s.waitIndexed(t)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if len(indexFiles(t, o.Dir)) < 3 {
		t.Fatalf("indexes: %v", indexFiles(t, o.Dir))
	}
	return o, refs
}

func indexFiles(t *testing.T, dir string) []string {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(dir, "*"+indexSuffix))
	if err != nil {
		t.Fatal(err)
	}
	return names
}

// What an earlier process stored is not stored again, whether table or index
// know of it, and whatever became of the index files.
func TestHitsBeyondTheProcess(t *testing.T) {
	for name, spoil := range map[string]func(t *testing.T, name string){
		"sound":   func(*testing.T, string) {},
		"missing": func(t *testing.T, name string) { os.Remove(name) },
		"empty":   func(t *testing.T, name string) { os.Truncate(name, 0) },
		"short":   func(t *testing.T, name string) { os.Truncate(name, 5000) },
		"header":  func(t *testing.T, name string) { flip(t, name, 30) },
		"filter":  func(t *testing.T, name string) { flip(t, name, 4096+70) },
		"page":    func(t *testing.T, name string) { flip(t, name, 8192+20) },
	} {
		t.Run(name, func(t *testing.T) {
			o, refs := indexedStore(t)
			for _, f := range indexFiles(t, o.Dir) {
				spoil(t, f)
			}
			s, rec := reopen(t, o, refs...)
			if len(rec.Orphans)+len(rec.Damage) > 0 {
				t.Errorf("recovery %+v", rec)
			}
			s.waitIndexed(t)
			for i := range refs { // the first round finds what is wrong
				mustPut(t, s, noise(uint64(i), 200_000))
			}
			s.waitIndexed(t)
			before := s.Stats()
			for i, ref := range refs {
				mustPut(t, s, noise(uint64(i), 200_000))
				ref.Hint = Hint{}
				wantBytes(t, s, ref, noise(uint64(i), 200_000))
			}
			if got := s.Stats().ChunkHits - before.ChunkHits; got != int64(4*len(refs)) {
				t.Errorf("%d of %d chunks were hits", got, 4*len(refs))
			}
			for _, f := range indexFiles(t, o.Dir) {
				data, _ := os.ReadFile(f)
				if _, err := readIndex(bytes.NewReader(data), int64(len(data))); err != nil {
					t.Errorf("%s: %v", filepath.Base(f), err)
				}
			}
		})
	}
}

// A full disk, or one that fails, keeps an index from being written and nothing
// else.
func TestIndexThatCannotBeWritten(t *testing.T) {
	l := &fakeLedger{}
	o := indexOptions(t, l, memDir(t))
	o.FS = vfs.Hooked(vfs.OS, func(c vfs.Call, do func(int64) error) error {
		if isIndex(c.Name) && c.Op&(vfs.OpWrite|vfs.OpDatasync) != 0 {
			return errors.New("no index here")
		}
		return do(vfs.Whole)
	})
	s := open(t, o)
	for i := range 8 {
		data := noise(uint64(i), 200_000)
		wantBytes(t, s, mustPut(t, s, data), data)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if names := indexFiles(t, o.Dir); len(names) != 0 {
		t.Errorf("indexes: %v", names)
	}
}

// A put of what is damaged heals it: also of a payload that was put by an
// earlier process, under the references that there are.
func TestPutHeals(t *testing.T) {
	for _, restart := range []bool{false, true} {
		t.Run(fmt.Sprint("restart ", restart), func(t *testing.T) {
			l := &fakeLedger{}
			o := options(t, l, memDir(t))
			s := open(t, o)
			data := noise(1, 300_000)
			ref := mustPut(t, s, data)
			if restart {
				if err := s.Close(); err != nil {
					t.Fatal(err)
				}
			}
			file := sealedOrActive(t, o.Dir, 1)
			for off := int64(5000); off < 290_000; off += 70_000 { // in bodies of chunks
				flip(t, file, off)
			}
			if restart {
				s, _ = reopen(t, o, ref)
				s.waitIndexed(t)
			}
			_, err := readAll(s, ref)
			wantDamage(t, err, ref)
			before := s.Stats()
			again := mustPut(t, s, data)
			if again.ID != ref.ID {
				t.Errorf("another id: %v", again.ID)
			}
			if got := s.Stats().ChunkHits - before.ChunkHits; got != 0 {
				t.Errorf("%d damaged chunks were hits", got)
			}
			wantBytes(t, s, ref, data)
			wantBytes(t, s, again, data)
			if got := mustPut(t, s, data); got.ID != ref.ID || s.Stats().ChunkHits-before.ChunkHits != 5 {
				t.Errorf("the healed chunks are no hits: %+v", s.Stats())
			}
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
			s, _ = reopen(t, o, ref, again)
			wantBytes(t, s, ref, data)
		})
	}
}

// Many put what is damaged at the same time: it is healed once.
func TestConcurrentHealing(t *testing.T) {
	l := &fakeLedger{}
	o := options(t, l, memDir(t))
	s := open(t, o)
	data := noise(1, 65536*4)
	ref := mustPut(t, s, data)
	for i := range int64(4) {
		flip(t, activeName(o.Dir, 1), packHeaderBytes+i*slotBytes+1000)
	}
	before := s.Stats()
	var wait sync.WaitGroup
	for range 8 {
		wait.Go(func() {
			got, err := s.Put(ctx0, bytes.NewReader(data))
			if err != nil || got.ID != ref.ID {
				t.Errorf("put: %v", err)
			}
			if back, err := readAll(s, got); err != nil || !bytes.Equal(back, data) {
				t.Errorf("read: %v", err)
			}
		})
	}
	wait.Wait()
	wantBytes(t, s, ref, data)
	if got := s.Stats().RecordBytes - before.RecordBytes; got > 4*slotBytes+8*400 {
		t.Errorf("four chunks were healed with %d bytes", got)
	}
}
