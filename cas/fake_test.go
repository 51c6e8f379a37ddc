package cas

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"slices"
	"sync"
	"testing"

	"durafs/internal/vfs"
)

// fakeLedger is a durable list of packs; one that is gone is not in it any more.
type fakeLedger struct {
	mu    sync.Mutex
	packs []Pack
	high  uint32 // highest number
}

func (l *fakeLedger) Packs() []Pack {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.packs)
}

func (l *fakeLedger) AddPack(p Pack) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if p.Seq <= l.high {
		return fmt.Errorf("pack %d was given already", p.Seq)
	}
	l.packs, l.high = append(l.packs, p), p.Seq
	return nil
}

func (l *fakeLedger) SealPack(p Pack) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	i := slices.IndexFunc(l.packs, func(known Pack) bool { return known.Seq == p.Seq })
	switch {
	case i < 0:
		return fmt.Errorf("pack %d is not known", p.Seq)
	case p.Bytes == 0:
		l.packs = slices.Delete(l.packs, i, i+1)
	default:
		l.packs[i] = p
	}
	return nil
}

// used is what a log that refers to refs tells Open.
func used(refs ...Ref) map[uint32]uint32 {
	m := make(map[uint32]uint32)
	for _, r := range refs {
		if r.Hint != (Hint{}) {
			m[r.Hint.Pack] = max(m[r.Hint.Pack], r.Hint.End)
		}
	}
	return m
}

func options(t testing.TB, l *fakeLedger, dir string) Options {
	t.Helper()
	return Options{FS: vfs.OS, Dir: dir, StoreID: [16]byte{1, 2, 3}, Ledger: l, SeqAfter: l.high}
}

func open(t testing.TB, o Options) *Store {
	t.Helper()
	s, _, err := Open(context.Background(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

func mustPut(t testing.TB, s *Store, data []byte) Ref {
	t.Helper()
	ref, err := s.Put(context.Background(), bytes.NewReader(data))
	if err != nil {
		t.Fatalf("put %d bytes: %v", len(data), err)
	}
	return ref
}

func readAll(s *Store, ref Ref) ([]byte, error) {
	r, err := s.Open(ref)
	if err != nil {
		return nil, err
	}
	return io.ReadAll(io.NewSectionReader(r, 0, r.Size()))
}

func wantBytes(t testing.TB, s *Store, ref Ref, want []byte) {
	t.Helper()
	got, err := readAll(s, ref)
	if err != nil {
		t.Fatalf("read %v: %v", ref.ID, err)
	}
	if !bytes.Equal(got, want) {
		t.Fatalf("read %v: %d bytes that are not the %d that were put", ref.ID, len(got), len(want))
	}
}

// noise is n bytes that do not compress.
func noise(seed uint64, n int) []byte {
	b := make([]byte, n)
	rand.NewChaCha8([32]byte{byte(seed), byte(seed >> 8)}).Read(b)
	return b
}

// text is n bytes that compress as agents' logs do.
func text(seed uint64, n int) []byte {
	r := rand.New(rand.NewPCG(seed, 1))
	words := []string{`{"role":"assistant","content":"`, "the ", "file ", "func ", "return ", "err ", "\\n", `"},`, "if ", "test ", "step "}
	b := make([]byte, 0, n+64)
	for len(b) < n {
		b = append(b, words[r.IntN(len(words))]...)
		b = append(b, byte('a'+r.IntN(26)))
	}
	return b[:n]
}

var ctx0 = context.Background()

// memDir is a directory in memory where there is one: for tests of which calls
// are made, and not of what a disk does.
func memDir(t testing.TB) string {
	t.Helper()
	dir, err := os.MkdirTemp("/dev/shm", "durafs-cas-")
	if err != nil {
		return t.TempDir()
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}

func (l *fakeLedger) highest() uint32 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.high
}
