package vfs

import (
	"bytes"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

// The umask belongs to the process, so this test does not run in parallel with
// any other.
func TestModesUnderUmask(t *testing.T) {
	dir := t.TempDir()
	for _, mask := range []int{0o777, 0o077, 0} {
		old := unix.Umask(mask)
		f, err1 := OS.Create(filepath.Join(dir, "f"))
		err2 := OS.Mkdir(filepath.Join(dir, "d"))
		unix.Umask(old)
		if err := errors.Join(err1, err2); err != nil {
			t.Fatal(err)
		}
		f.Close()
		for name, want := range map[string]fs.FileMode{"f": 0o600, "d": 0o700 | fs.ModeDir} {
			st, err := os.Stat(filepath.Join(dir, name))
			if err != nil {
				t.Fatal(err)
			}
			if st.Mode() != want {
				t.Errorf("umask %#o: %s has mode %v, want %v", mask, name, st.Mode(), want)
			}
			if err := OS.Remove(filepath.Join(dir, name)); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// openFile makes a file of the operating system with this content.
func openFile(t *testing.T, data []byte) *osFile {
	t.Helper()
	f, err := OS.Create(filepath.Join(t.TempDir(), "f"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	if _, err := f.WriteAt(data, 0); err != nil {
		t.Fatal(err)
	}
	if err := f.Datasync(); err != nil {
		t.Fatal(err)
	}
	return f.(*osFile)
}

// Both ways of reading past the page cache give the file's bytes, for ranges
// over more than one buffer too.
func TestUncachedReadsOfLongRanges(t *testing.T) {
	data := make([]byte, 2*directBytesMax+5000)
	for i := range data {
		data[i] = byte(i ^ i>>8 ^ i>>16)
	}
	f := openFile(t, data)
	for name, read := range map[string]func([]byte, int64) (int, error){"direct": f.ReadUncachedAt, "dropped": f.readDroppedAt} {
		for _, off := range []int64{0, 1, 4095, 4096, directBytesMax - 1, directBytesMax, 2 * directBytesMax} {
			p := make([]byte, len(data))
			n, err := read(p, off)
			if want := data[off:]; !bytes.Equal(p[:n], want) || (n < len(p) && err != io.EOF) {
				t.Errorf("%s at %d: %d bytes, %v, want %d and EOF", name, off, n, err, len(want))
			}
		}
	}
}

// What was written through another descriptor and is dirty in the page cache
// is on the device by the time it is read from there.
func TestUncachedReadSeesDirtyPages(t *testing.T) {
	f := openFile(t, make([]byte, 8192))
	w, err := OS.OpenWrite(f.Name())
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	for i, read := range []func([]byte, int64) (int, error){f.ReadUncachedAt, f.readDroppedAt} {
		want := []byte{byte(i + 1), 2, 3}
		if _, err := w.WriteAt(want, 5000); err != nil {
			t.Fatal(err)
		}
		got := make([]byte, 3)
		if _, err := read(got, 5000); err != nil || !bytes.Equal(got, want) {
			t.Errorf("way %d: read %v, %v, want %v", i, got, err, want)
		}
	}
}

func TestUncachedReadKeepsOneDescriptor(t *testing.T) {
	f := openFile(t, make([]byte, 8192))
	count := func() int {
		names, err := OS.ReadDir("/proc/self/fd")
		if err != nil {
			t.Fatal(err)
		}
		return len(names)
	}
	before := count()
	for range 20 {
		if _, err := f.ReadUncachedAt(make([]byte, 100), 50); err != nil {
			t.Fatal(err)
		}
	}
	if n := count(); n > before+1 {
		t.Errorf("%d descriptors more after 20 reads, want at most 1", n-before)
	}
	f.Close()
	if n := count(); n >= before {
		t.Errorf("%d descriptors are open after Close, %d before it: one leaks", n, before)
	}
}

func TestClosedFile(t *testing.T) {
	f := openFile(t, []byte("x"))
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	p := make([]byte, 1)
	calls := map[string]func() error{
		"ReadAt":         func() error { _, err := f.ReadAt(p, 0); return err },
		"WriteAt":        func() error { _, err := f.WriteAt(p, 0); return err },
		"ReadUncachedAt": func() error { _, err := f.ReadUncachedAt(p, 0); return err },
		"Datasync":       f.Datasync,
		"WriteBehind":    func() error { return f.WriteBehind(0, 1) },
		"Truncate":       func() error { return f.Truncate(0) },
		"Close":          f.Close,
	}
	for name, fn := range calls {
		if err := fn(); !errors.Is(err, fs.ErrClosed) {
			t.Errorf("%s on a closed file: %v, want fs.ErrClosed", name, err)
		}
	}
}

func TestErrorsNameTheCallAndTheFile(t *testing.T) {
	f := openFile(t, nil)
	err := call(f.File, "fdatasync", func(int) error { return unix.EIO })
	var pe *fs.PathError
	if !errors.As(err, &pe) || pe.Op != "fdatasync" || pe.Path != f.Name() || !errors.Is(err, unix.EIO) {
		t.Errorf("error %#v", err)
	}
}

func TestInterruptedCallsAreRepeated(t *testing.T) {
	n := 0
	err := eintr(func() error {
		if n++; n < 4 {
			return unix.EINTR
		}
		return unix.ENOSPC
	})
	if n != 4 || err != unix.ENOSPC {
		t.Errorf("after %d calls: %v, want ENOSPC after 4", n, err)
	}
}

func TestMountpoint(t *testing.T) {
	dir := t.TempDir()
	if err := os.Symlink("/proc/self", filepath.Join(dir, "link")); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{
		"/proc/self/status":               "/proc",
		filepath.Join(dir, "link/status"): "/proc",
		"/":                               "/",
	} {
		if u, err := OS.Usage(name); err != nil || u.Mount != want {
			t.Errorf("Usage(%s).Mount = %q, %v, want %q", name, u.Mount, err, want)
		}
	}
	u, err := OS.Usage(dir)
	if err != nil {
		t.Fatal(err)
	}
	// A file and the directory that holds it lie on one mount.
	f := openFile(t, nil)
	if uf, err := OS.Usage(f.Name()); err != nil || uf.Mount != u.Mount {
		t.Errorf("a file in %s: mount %q, %v, want %q", dir, uf.Mount, err, u.Mount)
	}
}

func TestAlignedBuffer(t *testing.T) {
	for _, n := range []int{1, 4096, 100000, hugeBytes, 2*hugeBytes + 5} {
		b := AlignedBuffer(n)
		if len(b) != n || addressOf(b)%directAlign != 0 {
			t.Errorf("AlignedBuffer(%d): %d bytes at %#x", n, len(b), addressOf(b))
		}
		if n >= hugeBytes && addressOf(b)%hugeBytes != 0 {
			t.Errorf("AlignedBuffer(%d) at %#x: it cannot lie in huge pages", n, addressOf(b))
		}
	}
}

// Where the system cannot write behind, which promises nothing, that is no
// error: what can be done without must not stop anyone.
func TestWriteBehindIsNoMust(t *testing.T) {
	r, w, err := os.Pipe() // sync_file_range answers ESPIPE
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	defer w.Close()
	if err := (&osFile{File: w}).WriteBehind(0, 4096); err != nil {
		t.Error(err)
	}
}
