package wal

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"durafs/internal/vfs"
	"durafs/internal/vfs/simdisk"
)

func newDisk() *simdisk.Disk { return simdisk.New(simdisk.Options{}) }

// must is for calls that do not fail on a simulated disk that is sound.
func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

func must0(err error) { must(0, err) }

// filesOf are the names in the log's directory, with the directory, in order.
func filesOf(d vfs.FS) []string {
	names := must(d.ReadDir("/wal"))
	for i, n := range names {
		names[i] = filepath.Join("/wal", n)
	}
	slices.Sort(names)
	return names
}

func isThere(d vfs.FS, name string) bool {
	_, err := d.Stat(name)
	return err == nil
}

func bytesOf(d vfs.FS, name string) []byte {
	f := must(d.Open(name))
	defer f.Close()
	b := make([]byte, must(f.Size()))
	if len(b) > 0 {
		must(f.ReadAt(b, 0))
	}
	return b
}

// put gives a file these bytes, for good, as if the disk had.
func put(d vfs.FS, name string, b []byte) {
	f, err := d.OpenWrite(name)
	if err != nil {
		f = must(d.Create(name))
	}
	defer f.Close()
	must0(f.Truncate(int64(len(b))))
	if len(b) > 0 {
		must(f.WriteAt(b, 0))
	}
	must0(f.Datasync())
	syncDir(d)
}

func syncDir(d vfs.FS) {
	dir := must(d.OpenDir("/wal"))
	must0(dir.Sync())
	must0(dir.Close())
}

// lose takes a file away, for good.
func lose(d vfs.FS, names ...string) {
	for _, n := range names {
		must0(d.Remove(n))
	}
	syncDir(d)
}

// change edits the bytes of a file as if the disk had.
func change(t testing.TB, d vfs.FS, name string, edit func([]byte) []byte) {
	t.Helper()
	if !isThere(d, name) {
		t.Fatalf("no %s among %s", name, strings.Join(filesOf(d), " "))
	}
	put(d, name, edit(bytesOf(d, name)))
}

// failCalls lets each call that changes something, or syncs, fail as fn says of
// its number, which counts from 1; count tells how many there were.
func failCalls(d *simdisk.Disk, fn func(n int, c vfs.Call) *simdisk.Fault) (count func() int) {
	n := 0
	d.SetFault(func(_ int, c vfs.Call) *simdisk.Fault {
		if c.Op&(vfs.OpChanges|vfs.OpSyncs) == 0 {
			return nil
		}
		n++
		return fn(n, c)
	})
	return func() int { return n }
}
