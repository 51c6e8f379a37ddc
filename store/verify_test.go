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
	for _, damage := range []struct{ glob, file string }{
		{"wal/0*.seg", "wal/"},
		{"cas/*.pack", "cas/"},
		{"store.json", "store.json"},
	} {
		t.Run(damage.glob, func(t *testing.T) {
			flipped(t, filepath.Join(dir, damage.glob))
			found := verify(t, dir)
			if len(found) == 0 || !strings.HasPrefix(found[0].File, damage.file) {
				t.Errorf("found %v, want damage in %s", found, damage.file)
			}
		})
	}
}

// flipped flips a bit in the middle of the first file of the pattern, and
// flips it back when the test ends.
func flipped(t *testing.T, pattern string) {
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
		b[len(b)/2] ^= 1
		if err := os.WriteFile(files[0], b, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	flip()
	t.Cleanup(flip)
}
