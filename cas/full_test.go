package cas

import (
	"errors"
	"path/filepath"
	"sync/atomic"
	"syscall"
	"testing"

	"durafs/internal/ballast"
	"durafs/internal/vfs"
)

// A pack that an earlier process left is ended on a full disk too, out of the
// ballast, which is made again when there is space.
func TestOpenOnAFullDisk(t *testing.T) {
	var full atomic.Bool
	l := &fakeLedger{}
	o := options(t, l, memDir(t))
	o.PackBytesMax, o.BallastBytes = 256<<10, 64<<10
	name := filepath.Join(o.Dir, ballast.Name)
	held := func() bool { _, err := vfs.OS.Stat(name); return err == nil }
	o.FS = vfs.Hooked(vfs.OS, func(c vfs.Call, do func(int64) error) error {
		if full.Load() && c.Op&(vfs.OpCreate|vfs.OpWrite) != 0 && (held() || c.Name == name) {
			return syscall.ENOSPC
		}
		return do(vfs.Whole)
	})
	s := open(t, o)
	waitFor(t, "the ballast", held)
	data := noise(1, 100_000)
	ref := mustPut(t, s, data)
	kill(s)

	full.Store(true)
	s, rec := reopen(t, o, ref)
	if len(rec.Sealed) != 1 || len(rec.Damage)+len(rec.Orphans) != 0 || held() {
		t.Fatalf("recovery %+v, ballast held %v", rec, held())
	}
	wantBytes(t, s, ref, data)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}

	full.Store(false)
	s, _ = reopen(t, o, ref)
	waitFor(t, "the ballast", held)
	full.Store(true)
	var none *NoSpaceError
	if _, err := s.Put(ctx0, &stream{block: data, n: 100_000}); !errors.As(err, &none) || !held() {
		t.Errorf("a payload on a full disk: %v; ballast held %v", err, held())
	}
	full.Store(false)
	data = noise(2, 600_000) // several packs
	wantBytes(t, s, mustPut(t, s, data), data)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if found := verify(t, o.Dir, l.packs, true); len(found) > 0 {
		t.Errorf("verify: %v", found)
	}
}
