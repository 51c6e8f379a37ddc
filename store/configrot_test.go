package store

import (
	"errors"
	"path/filepath"
	"syscall"
	"testing"

	"durafs/internal/vfs"
)

// A bad sector under store.json is damage, to an open and to verify, as a
// flipped bit is.
func TestConfigUnreadable(t *testing.T) {
	dir := t.TempDir()
	if err := openFor(t, vfs.OS, dir).Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	name := filepath.Join(dir, configName)
	disk := vfs.Hooked(vfs.OS, func(c vfs.Call, do func(int64) error) error {
		if c.Op&(vfs.OpRead|vfs.OpReadUncached) != 0 && c.Name == name {
			return syscall.EIO
		}
		return do(vfs.Whole)
	})
	_, err := Open(t.Context(), dir, Options{FS: disk})
	if e := mustBe[*ConfigError](t, err); e.Path != name || !errors.Is(err, syscall.EIO) {
		t.Errorf("%v, of %s", err, e.Path)
	}
	var found []Finding
	if _, err := Verify(t.Context(), dir, VerifyOptions{FS: disk}, func(f Finding) { found = append(found, f) }); err != nil {
		t.Fatal(err)
	}
	if len(found) != 1 || found[0].File != configName {
		t.Errorf("verify finds %+v", found)
	}
}
