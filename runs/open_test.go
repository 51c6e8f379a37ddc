package runs

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"durafs/cas"
	"durafs/internal/vfs"
	"durafs/wal"
)

var testStoreID = [16]byte{1, 2, 3}

func openLog(fs vfs.FS, dir string, o wal.Options, replay func(wal.Frame) error) (*wal.Log, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	o.FS, o.Dir, o.StoreID, o.LazyMax = fs, dir, testStoreID, time.Microsecond
	log, _, err := wal.Open(ctx, o, replay)
	return log, err
}

func openChunks(fs vfs.FS, dir string, l *memLedger, used map[uint32]uint32) (*cas.Store, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	s, _, err := cas.Open(ctx, cas.Options{FS: fs, Dir: dir, StoreID: testStoreID, Ledger: l, Used: used})
	return s, err
}

func copyDir(t *testing.T, from, to string) {
	t.Helper()
	if err := os.CopyFS(to, os.DirFS(from)); err != nil {
		t.Fatal(err)
	}
	filepath.WalkDir(to, func(p string, _ os.DirEntry, _ error) error { return os.Chmod(p, 0o700) })
}
