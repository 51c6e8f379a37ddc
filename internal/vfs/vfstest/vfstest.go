// Package vfstest is what every file system of package vfs must do, as a test.
//
// It runs against the operating system, against the wrappers that record and
// fail calls, and against anything else that implements vfs.FS, so that a test
// over a stand-in says something about the real one.
package vfstest

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"syscall"
	"testing"

	"durafs/internal/vfs"
)

// TestFS runs the suite. Each test calls open for a file system and an empty
// directory in it.
func TestFS(t *testing.T, open func(t *testing.T) (vfs.FS, string)) {
	for _, c := range []struct {
		name string
		fn   func(t *testing.T, fsys vfs.FS, dir string)
	}{
		{"Create", testCreate},
		{"OpenMissing", testOpenMissing},
		{"OpenReadOnly", testOpenReadOnly},
		{"ReadAt", testReadAt},
		{"ReadUncachedAt", testReadUncachedAt},
		{"ReadUncachedAfterRename", testReadUncachedAfterRename},
		{"WriteAtLeavesHolesOfZeros", testHoles},
		{"NegativeOffset", testNegativeOffset},
		{"Truncate", testTruncate},
		{"WriteBehind", testWriteBehind},
		{"RenameReplaces", testRenameReplaces},
		{"RenameAcrossDirectories", testRenameAcross},
		{"RenameMissing", testRenameMissing},
		{"RemoveOpenFile", testRemoveOpenFile},
		{"RemoveDirectory", testRemoveDirectory},
		{"MkdirAndReadDir", testMkdirAndReadDir},
		{"Stat", testStat},
		{"OpenDir", testOpenDir},
		{"Usage", testUsage},
		{"Concurrent", testConcurrent},
	} {
		t.Run(c.name, func(t *testing.T) {
			fsys, dir := open(t)
			c.fn(t, fsys, dir)
		})
	}
}

// Write makes a file with this content, synced and closed.
func Write(t testing.TB, fsys vfs.FS, name string, data []byte) {
	t.Helper()
	f, err := fsys.Create(name)
	if err != nil {
		t.Fatal(err)
	}
	if n, err := f.WriteAt(data, 0); err != nil || n != len(data) {
		t.Fatalf("WriteAt(%s) = %d, %v, want %d", name, n, err, len(data))
	}
	if err := f.Datasync(); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
}

// Read returns the content of a file.
func Read(t testing.TB, fsys vfs.FS, name string) []byte {
	t.Helper()
	f := mustOpen(t, fsys, name)
	size, err := f.Size()
	if err != nil {
		t.Fatal(err)
	}
	data := make([]byte, size)
	if n, err := f.ReadAt(data, 0); int64(n) != size {
		t.Fatalf("ReadAt(%s) = %d, %v, want %d", name, n, err, size)
	}
	return data
}

func mustOpen(t testing.TB, fsys vfs.FS, name string) vfs.File {
	t.Helper()
	f, err := fsys.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	return f
}

func mustCreate(t testing.TB, fsys vfs.FS, name string) vfs.File {
	t.Helper()
	f, err := fsys.Create(name)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	return f
}

func wantContent(t testing.TB, fsys vfs.FS, name, want string) {
	t.Helper()
	if got := Read(t, fsys, name); string(got) != want {
		t.Errorf("%s holds %q, want %q", filepath.Base(name), got, want)
	}
}

// wantError checks both that the error is the right one and that it is wrapped
// so that it names the file.
func wantError(t testing.TB, what string, err, want error) {
	t.Helper()
	if !errors.Is(err, want) {
		t.Errorf("%s: error %v, want %v", what, err, want)
		return
	}
	var pe *fs.PathError
	var le *os.LinkError
	if !errors.As(err, &pe) && !errors.As(err, &le) {
		t.Errorf("%s: error %v (%T) does not name the file", what, err, err)
	}
}

// pattern is content in which every position differs from its neighbours.
func pattern(n int) []byte {
	p := make([]byte, n)
	for i := range p {
		p[i] = byte(i*7 + i>>8*13 + i>>16)
	}
	return p
}

func testCreate(t *testing.T, fsys vfs.FS, dir string) {
	name := dir + "/a"
	f := mustCreate(t, fsys, name)
	if f.Name() != name {
		t.Errorf("Name() = %q, want %q", f.Name(), name)
	}
	if size, err := f.Size(); size != 0 || err != nil {
		t.Errorf("Size() = %d, %v, want 0", size, err)
	}
	_, err := fsys.Create(name)
	wantError(t, "Create of an existing name", err, fs.ErrExist)
	if _, err := f.WriteAt([]byte("kept"), 0); err != nil {
		t.Fatal(err)
	}
	_, err = fsys.Create(name)
	wantError(t, "Create of an existing name", err, fs.ErrExist)
	wantContent(t, fsys, name, "kept")
	_, err = fsys.Create(dir + "/missing/a")
	wantError(t, "Create in a missing directory", err, fs.ErrNotExist)
}

func testOpenMissing(t *testing.T, fsys vfs.FS, dir string) {
	_, err := fsys.Open(dir + "/a")
	wantError(t, "Open", err, fs.ErrNotExist)
	_, err = fsys.OpenWrite(dir + "/a")
	wantError(t, "OpenWrite", err, fs.ErrNotExist)
	if _, err := fsys.Stat(dir + "/a"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("OpenWrite made the file: Stat: %v", err)
	}
}

func testOpenReadOnly(t *testing.T, fsys vfs.FS, dir string) {
	Write(t, fsys, dir+"/a", []byte("old"))
	f := mustOpen(t, fsys, dir+"/a")
	if _, err := f.WriteAt([]byte("new"), 0); err == nil {
		t.Error("WriteAt on a file opened for reading: no error")
	}
	wantContent(t, fsys, dir+"/a", "old")

	w, err := fsys.OpenWrite(dir + "/a")
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	if _, err := w.WriteAt([]byte("E"), 1); err != nil {
		t.Fatal(err)
	}
	wantContent(t, fsys, dir+"/a", "oEd")
}

func testReadAt(t *testing.T, fsys vfs.FS, dir string) {
	data := pattern(10000)
	Write(t, fsys, dir+"/a", data)
	checkRanges(t, "ReadAt", data, mustOpen(t, fsys, dir+"/a").ReadAt)
}

func testReadUncachedAt(t *testing.T, fsys vfs.FS, dir string) {
	for _, size := range []int{0, 1, 4095, 4096, 4097, 10000, 8192} {
		name := fmt.Sprintf("%s/%d", dir, size)
		data := pattern(size)
		Write(t, fsys, name, data)
		checkRanges(t, fmt.Sprintf("ReadUncachedAt of %d bytes", size), data, mustOpen(t, fsys, name).ReadUncachedAt)
	}
}

// checkRanges reads ranges that begin and end on and around block boundaries
// and the end of the file.
func checkRanges(t *testing.T, what string, data []byte, readAt func([]byte, int64) (int, error)) {
	t.Helper()
	edges := []int{0, 1, 511, 512, 4095, 4096, 4097, 5000, 8191, 8192, len(data) - 1, len(data), len(data) + 1, len(data) + 9000}
	for _, off := range edges {
		for _, n := range []int{0, 1, 100, 4095, 4096, 4097, 9000, 20000} {
			if off < 0 {
				continue
			}
			p := make([]byte, n)
			got, err := readAt(p, int64(off))
			want := data[min(off, len(data)):min(off+n, len(data))]
			if got != len(want) || !bytes.Equal(p[:max(got, 0)], want) {
				t.Errorf("%s: %d bytes at %d: got %d bytes, want %d, equal %v (error %v)",
					what, n, off, got, len(want), bytes.Equal(p[:got], want), err)
			}
			if short := got < n; short && !errors.Is(err, io.EOF) {
				t.Errorf("%s: %d bytes at %d: short read of %d with error %v, want io.EOF", what, n, off, got, err)
			} else if !short && err != nil && !errors.Is(err, io.EOF) {
				t.Errorf("%s: %d bytes at %d: %v", what, n, off, err)
			}
		}
	}
}

func testReadUncachedAfterRename(t *testing.T, fsys vfs.FS, dir string) {
	Write(t, fsys, dir+"/a", []byte("first"))
	f := mustOpen(t, fsys, dir+"/a")
	if err := fsys.Rename(dir+"/a", dir+"/b"); err != nil {
		t.Fatal(err)
	}
	Write(t, fsys, dir+"/a", []byte("other"))
	p := make([]byte, 5)
	if _, err := f.ReadUncachedAt(p, 0); err != nil && !errors.Is(err, io.EOF) {
		t.Fatal(err)
	}
	if string(p) != "first" {
		t.Errorf("after a rename ReadUncachedAt reads %q, want the open file's %q", p, "first")
	}
}

func testHoles(t *testing.T, fsys vfs.FS, dir string) {
	f := mustCreate(t, fsys, dir+"/a")
	if _, err := f.WriteAt([]byte("end"), 9000); err != nil {
		t.Fatal(err)
	}
	want := append(make([]byte, 9000), "end"...)
	if got := Read(t, fsys, dir+"/a"); !bytes.Equal(got, want) {
		t.Errorf("a hole does not read as zeros, or the size is %d, want %d", len(got), len(want))
	}
	if n, err := f.WriteAt(nil, 20000); n != 0 || err != nil {
		t.Errorf("an empty write = %d, %v", n, err)
	}
	if size, _ := f.Size(); size != int64(len(want)) {
		t.Errorf("an empty write made the size %d, want %d", size, len(want))
	}
}

func testNegativeOffset(t *testing.T, fsys vfs.FS, dir string) {
	f := mustCreate(t, fsys, dir+"/a")
	for name, fn := range map[string]func([]byte, int64) (int, error){
		"ReadAt": f.ReadAt, "WriteAt": f.WriteAt, "ReadUncachedAt": f.ReadUncachedAt,
	} {
		if n, err := fn(make([]byte, 4), -1); err == nil || n != 0 {
			t.Errorf("%s at -1 = %d, %v, want an error", name, n, err)
		}
	}
}

func testTruncate(t *testing.T, fsys vfs.FS, dir string) {
	f := mustCreate(t, fsys, dir+"/a")
	if _, err := f.WriteAt([]byte("abcdef"), 0); err != nil {
		t.Fatal(err)
	}
	for _, step := range []struct {
		size int64
		want string
	}{{3, "abc"}, {5, "abc\x00\x00"}, {5, "abc\x00\x00"}, {0, ""}} {
		if err := f.Truncate(step.size); err != nil {
			t.Fatal(err)
		}
		if err := f.Datasync(); err != nil {
			t.Fatal(err)
		}
		wantContent(t, fsys, dir+"/a", step.want)
	}
}

func testWriteBehind(t *testing.T, fsys vfs.FS, dir string) {
	f := mustCreate(t, fsys, dir+"/a")
	data := pattern(70000)
	if _, err := f.WriteAt(data, 0); err != nil {
		t.Fatal(err)
	}
	for _, r := range [][2]int64{{0, 4096}, {100, 5000}, {65536, 1 << 20}} {
		if err := f.WriteBehind(r[0], r[1]); err != nil {
			t.Errorf("WriteBehind(%d, %d): %v", r[0], r[1], err)
		}
	}
	if got := Read(t, fsys, dir+"/a"); !bytes.Equal(got, data) {
		t.Error("WriteBehind changed the content")
	}
}

func testRenameReplaces(t *testing.T, fsys vfs.FS, dir string) {
	Write(t, fsys, dir+"/a", []byte("new"))
	Write(t, fsys, dir+"/b", []byte("old"))
	old := mustOpen(t, fsys, dir+"/b")
	if err := fsys.Rename(dir+"/a", dir+"/b"); err != nil {
		t.Fatal(err)
	}
	wantContent(t, fsys, dir+"/b", "new")
	_, err := fsys.Stat(dir + "/a")
	wantError(t, "Stat of the former name", err, fs.ErrNotExist)
	p := make([]byte, 3)
	if _, err := old.ReadAt(p, 0); err != nil || string(p) != "old" {
		t.Errorf("the replaced file, still open, reads %q, %v, want %q", p, err, "old")
	}
}

func testRenameAcross(t *testing.T, fsys vfs.FS, dir string) {
	for _, d := range []string{"/x", "/y"} {
		if err := fsys.Mkdir(dir + d); err != nil {
			t.Fatal(err)
		}
	}
	Write(t, fsys, dir+"/x/a", []byte("moved"))
	if err := fsys.Rename(dir+"/x/a", dir+"/y/b"); err != nil {
		t.Fatal(err)
	}
	wantContent(t, fsys, dir+"/y/b", "moved")
	if names, err := fsys.ReadDir(dir + "/x"); len(names) != 0 || err != nil {
		t.Errorf("ReadDir(x) = %q, %v, want nothing", names, err)
	}
}

func testRenameMissing(t *testing.T, fsys vfs.FS, dir string) {
	Write(t, fsys, dir+"/b", []byte("kept"))
	wantError(t, "Rename of a missing file", fsys.Rename(dir+"/a", dir+"/b"), fs.ErrNotExist)
	wantContent(t, fsys, dir+"/b", "kept")
	wantError(t, "Rename into a missing directory", fsys.Rename(dir+"/b", dir+"/x/b"), fs.ErrNotExist)
	wantContent(t, fsys, dir+"/b", "kept")
}

func testRemoveOpenFile(t *testing.T, fsys vfs.FS, dir string) {
	Write(t, fsys, dir+"/a", []byte("still here"))
	f := mustOpen(t, fsys, dir+"/a")
	if err := fsys.Remove(dir + "/a"); err != nil {
		t.Fatal(err)
	}
	wantError(t, "Remove again", fsys.Remove(dir+"/a"), fs.ErrNotExist)
	for name, read := range map[string]func([]byte, int64) (int, error){"ReadAt": f.ReadAt, "ReadUncachedAt": f.ReadUncachedAt} {
		p := make([]byte, 10)
		if _, err := read(p, 0); err != nil || string(p) != "still here" {
			t.Errorf("%s of a removed open file: %q, %v", name, p, err)
		}
	}
	Write(t, fsys, dir+"/a", []byte("the name is free"))
}

func testRemoveDirectory(t *testing.T, fsys vfs.FS, dir string) {
	if err := fsys.Mkdir(dir + "/x"); err != nil {
		t.Fatal(err)
	}
	Write(t, fsys, dir+"/x/a", nil)
	if err := fsys.Remove(dir + "/x"); err == nil {
		t.Error("Remove of a directory that holds a file: no error")
	}
	if err := fsys.Remove(dir + "/x/a"); err != nil {
		t.Fatal(err)
	}
	if err := fsys.Remove(dir + "/x"); err != nil {
		t.Error(err)
	}
}

func testMkdirAndReadDir(t *testing.T, fsys vfs.FS, dir string) {
	if names, err := fsys.ReadDir(dir); len(names) != 0 || err != nil {
		t.Errorf("ReadDir of an empty directory = %q, %v", names, err)
	}
	for _, n := range []string{"/b", "/a"} {
		if err := fsys.Mkdir(dir + n); err != nil {
			t.Fatal(err)
		}
	}
	wantError(t, "Mkdir of an existing name", fsys.Mkdir(dir+"/a"), fs.ErrExist)
	wantError(t, "Mkdir in a missing directory", fsys.Mkdir(dir+"/c/d"), fs.ErrNotExist)
	Write(t, fsys, dir+"/aa", nil)
	Write(t, fsys, dir+"/a/inner", nil)
	names, err := fsys.ReadDir(dir)
	if want := []string{"a", "aa", "b"}; err != nil || !slices.Equal(names, want) {
		t.Errorf("ReadDir = %q, %v, want %q", names, err, want)
	}
	_, err = fsys.ReadDir(dir + "/missing")
	wantError(t, "ReadDir of a missing directory", err, fs.ErrNotExist)
}

func testStat(t *testing.T, fsys vfs.FS, dir string) {
	Write(t, fsys, dir+"/a", []byte("four"))
	if info, err := fsys.Stat(dir + "/a"); err != nil || info.Size != 4 || info.IsDir || info.Links != 1 {
		t.Errorf("Stat of a file = %+v, %v", info, err)
	}
	if info, err := fsys.Stat(dir); err != nil || !info.IsDir {
		t.Errorf("Stat of a directory = %+v, %v", info, err)
	}
	_, err := fsys.Stat(dir + "/a/below")
	wantError(t, "Stat below a file", err, syscall.ENOTDIR)
}

func testOpenDir(t *testing.T, fsys vfs.FS, dir string) {
	d, err := fsys.OpenDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	Write(t, fsys, dir+"/a", nil)
	if err := d.Sync(); err != nil {
		t.Error(err)
	}
	if err := d.Close(); err != nil {
		t.Error(err)
	}
	_, err = fsys.OpenDir(dir + "/missing")
	wantError(t, "OpenDir of a missing directory", err, fs.ErrNotExist)
	_, err = fsys.OpenDir(dir + "/a")
	wantError(t, "OpenDir of a file", err, syscall.ENOTDIR)
}

func testUsage(t *testing.T, fsys vfs.FS, dir string) {
	u, err := fsys.Usage(dir)
	if err != nil {
		t.Fatal(err)
	}
	if u.SizeBytes <= 0 || u.FreeBytes < 0 || u.FreeBytes > u.SizeBytes || u.FreeInodes < -1 || u.Mount == "" {
		t.Errorf("Usage = %+v", u)
	}
	_, err = fsys.Usage(dir + "/missing")
	wantError(t, "Usage of a missing name", err, fs.ErrNotExist)
}

// testConcurrent is for the race detector: ranges that do not overlap may be
// written, read and synced at the same time.
func testConcurrent(t *testing.T, fsys vfs.FS, dir string) {
	const writers, block = 8, 5000
	f := mustCreate(t, fsys, dir+"/a")
	data := pattern(writers * block)
	var wg sync.WaitGroup
	for i := range writers {
		wg.Go(func() {
			off := int64(i * block)
			part := data[off : off+block]
			if _, err := f.WriteAt(part, off); err != nil {
				t.Error(err)
			}
			if err := f.Datasync(); err != nil {
				t.Error(err)
			}
			p := make([]byte, block)
			if _, err := f.ReadAt(p, off); err != nil && !errors.Is(err, io.EOF) {
				t.Error(err)
			}
			if _, err := f.ReadUncachedAt(p, off); err != nil && !errors.Is(err, io.EOF) {
				t.Error(err)
			}
			if !bytes.Equal(p, part) {
				t.Errorf("writer %d does not read what it wrote", i)
			}
		})
	}
	wg.Wait()
	if got := Read(t, fsys, dir+"/a"); !bytes.Equal(got, data) {
		t.Error("concurrent writes of different ranges harmed each other")
	}
}
