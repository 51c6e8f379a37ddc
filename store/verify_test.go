package store

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func verify(t *testing.T, dir string) []Finding {
	t.Helper()
	var found []Finding
	if _, err := Verify(context.Background(), dir, VerifyOptions{Deep: true}, func(f Finding) { found = append(found, f) }); err != nil {
		t.Fatal(err)
	}
	return found
}

func TestVerify(t *testing.T) {
	dir := memoryDir(t)
	s := openFor(t, nil, dir)
	lifeOf(t.Context(), s, 1)
	if found := verify(t, dir); len(found) > 0 {
		t.Errorf("beside the open store: %v", found)
	}
	if err := s.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	if found := verify(t, dir); len(found) > 0 {
		t.Errorf("after closing: %v", found)
	}
	for _, damage := range []struct {
		glob, file string
		offset     int
	}{
		{"wal/0*.seg", "wal/", 5000},
		{"cas/*.pack", "cas/", 5000},
		{"store.json", "store.json", 100},
		{"wal/MANIFEST-A", "wal/MANIFEST-A", 4200},
		{"wal/MANIFEST-B", "wal/MANIFEST-B", 4200},
	} {
		t.Run(damage.glob, func(t *testing.T) {
			flipped(t, filepath.Join(dir, damage.glob), damage.offset)
			found := verify(t, dir)
			if len(found) == 0 || !strings.HasPrefix(found[0].File, damage.file) {
				t.Errorf("found %v, want damage in %s", found, damage.file)
			}
		})
	}
}

// A payload that the log refers to and that no pack holds is named, with its
// place in the log.
func TestVerifyMissesPayloads(t *testing.T) {
	dir := memoryDir(t)
	s := openFor(t, nil, dir)
	lifeOf(t.Context(), s, 1)
	if err := s.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	packs, err := filepath.Glob(filepath.Join(dir, casName, "*.pack"))
	if err != nil || len(packs) != 1 {
		t.Fatalf("packs: %v, %v", packs, err)
	}
	if err := os.Remove(packs[0]); err != nil {
		t.Fatal(err)
	}
	missing := 0
	for _, f := range verify(t, dir) {
		if strings.HasPrefix(f.File, "wal/") && f.ID != "" && f.LSNFrom > 0 {
			missing++
		}
	}
	if missing < 4 { // chunk, large, the oversized row, resume request, answer
		t.Errorf("%d payloads were missed", missing)
	}
}

// flipped flips a bit of the first file of the pattern, and flips it back when
// the test ends.
func flipped(t *testing.T, pattern string, offset int) {
	t.Helper()
	files, err := filepath.Glob(pattern)
	if err != nil || len(files) == 0 {
		t.Fatalf("no file %s: %v", pattern, err)
	}
	flip := func() {
		b, err := os.ReadFile(files[0])
		if err != nil {
			t.Fatal(err)
		}
		b[offset] ^= 1
		if err := os.WriteFile(files[0], b, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	flip()
	t.Cleanup(flip)
}
