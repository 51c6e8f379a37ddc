package ballast

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"durafs/internal/vfs"

	"github.com/klauspost/compress/zstd"
)

// size tells how large the file is, -1 for none.
func size(t *testing.T, dir string) int64 {
	t.Helper()
	info, err := vfs.OS.Stat(filepath.Join(dir, Name))
	if errors.Is(err, fs.ErrNotExist) {
		return -1
	}
	if err != nil {
		t.Fatal(err)
	}
	return info.Size
}

func TestFillFree(t *testing.T) {
	dir := t.TempDir()
	const bytes = stepBytes + 4096
	b := New(vfs.OS, dir, bytes)
	if b.Held() || b.Free() || !b.Missing() {
		t.Fatal("there is a ballast before it was made")
	}
	for range 2 {
		if err := b.Fill(); err != nil || !b.Held() || size(t, dir) != bytes {
			t.Fatalf("Fill: %v, held %v, %d bytes", err, b.Held(), size(t, dir))
		}
	}
	content, err := os.ReadFile(filepath.Join(dir, Name))
	if err != nil {
		t.Fatal(err)
	}
	enc, _ := zstd.NewWriter(nil)
	if n := len(enc.EncodeAll(content, nil)); n < bytes {
		t.Errorf("%d bytes of ballast shrink to %d", bytes, n)
	}
	if again := New(vfs.OS, dir, bytes); !again.Held() {
		t.Error("the ballast of an earlier process does not count")
	}
	if !b.Free() || b.Held() || size(t, dir) != -1 || b.Free() {
		t.Error("Free did not free it once")
	}
}

// A half-made file is none, and is made again.
func TestHalfMade(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, Name), make([]byte, 100), 0o600); err != nil {
		t.Fatal(err)
	}
	b := New(vfs.OS, dir, 8192)
	if b.Held() {
		t.Fatal("100 bytes were taken for 8192")
	}
	if err := b.Fill(); err != nil || size(t, dir) != 8192 {
		t.Fatalf("Fill: %v, %d bytes", err, size(t, dir))
	}
}

func TestNone(t *testing.T) {
	dir := t.TempDir()
	b := New(vfs.OS, dir, 0)
	if err := b.Fill(); err != nil || b.Held() || b.Missing() || size(t, dir) != -1 {
		t.Fatalf("a ballast of nothing: %v, held %v", err, b.Held())
	}
}

// Where any call fails, in any way, no file is left and a later Fill succeeds.
func TestFailures(t *testing.T) {
	for _, op := range []vfs.Op{vfs.OpUsage, vfs.OpCreate, vfs.OpWrite, vfs.OpWriteBehind, vfs.OpDatasync} {
		for _, mode := range vfs.Modes {
			dir := t.TempDir()
			faulty := vfs.NewFaulty(vfs.OS)
			faulty.Inject(vfs.Fault{Ops: op, Nth: 1, Mode: mode, Err: syscall.ENOSPC})
			b := New(faulty, dir, 8192)
			if err := b.Fill(); !errors.Is(err, syscall.ENOSPC) || b.Held() {
				t.Errorf("%v %v: %v, held %v", op, mode, err, b.Held())
			}
			if err := b.Fill(); err != nil || size(t, dir) != 8192 {
				t.Errorf("%v %v: again: %v", op, mode, err)
			}
		}
	}
}

// little is a file system with little space.
type little struct {
	vfs.FS
	free int64
}

func (l little) Usage(name string) (vfs.Usage, error) {
	u, err := l.FS.Usage(name)
	u.FreeBytes = l.free
	return u, err
}

// The last of a disk is for others.
func TestTakesNotTheLast(t *testing.T) {
	dir := t.TempDir()
	if err := New(little{vfs.OS, 2*8192 - 1}, dir, 8192).Fill(); !errors.Is(err, syscall.ENOSPC) || size(t, dir) != -1 {
		t.Errorf("Fill: %v, %d bytes", err, size(t, dir))
	}
	if err := New(little{vfs.OS, 2 * 8192}, dir, 8192).Fill(); err != nil {
		t.Error(err)
	}
}

func TestBytesOn(t *testing.T) {
	for fsBytes, want := range map[int64]int64{1 << 40: Bytes, 64 << 20: Bytes, 32 << 20: 2 << 20} {
		if got := BytesOn(fsBytes); got != want {
			t.Errorf("BytesOn(%d) = %d, want %d", fsBytes, got, want)
		}
	}
}
