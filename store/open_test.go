package store

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"durafs/internal/durable"
	"durafs/internal/vfs"
	"durafs/runs"
	"durafs/wal"
)

// mustBe fails the test unless err is a T, and returns it.
func mustBe[T error](t *testing.T, err error) T {
	t.Helper()
	var want T
	if !errors.As(err, &want) {
		t.Fatalf("got %v, want %T", err, want)
	}
	return want
}

func TestOpenRefusals(t *testing.T) {
	t.Run("held", func(t *testing.T) {
		dir := t.TempDir()
		s := openFor(t, vfs.OS, dir)
		defer s.Close(t.Context())
		_, err := Open(t.Context(), dir, Options{})
		if held := mustBe[*HeldError](t, err); held.PID != os.Getpid() {
			t.Errorf("held by process %d, not this one", held.PID)
		}
	})
	t.Run("foreign", func(t *testing.T) {
		dir := t.TempDir()
		write(t, filepath.Join(dir, "thesis.tex"), "x")
		_, err := Open(t.Context(), dir, Options{})
		mustBe[*ForeignError](t, err)
		if names := list(t, dir); len(names) != 1 {
			t.Errorf("a foreign directory was changed: %v", names)
		}
	})
	t.Run("future", func(t *testing.T) {
		dir := t.TempDir()
		write(t, filepath.Join(dir, configName), `{"format_version": 7, "new": true}`)
		_, err := Open(t.Context(), dir, Options{})
		if f := mustBe[*FutureError](t, err); f.Version != 7 {
			t.Errorf("version %d", f.Version)
		}
	})
	t.Run("store.json lost", func(t *testing.T) {
		dir := t.TempDir()
		if err := openFor(t, vfs.OS, dir).Close(t.Context()); err != nil {
			t.Fatal(err)
		}
		os.Remove(filepath.Join(dir, configName))
		_, err := Open(t.Context(), dir, Options{})
		mustBe[*ConfigError](t, err)
	})
	t.Run("log lost", func(t *testing.T) {
		dir := t.TempDir()
		if err := openFor(t, vfs.OS, dir).Close(t.Context()); err != nil {
			t.Fatal(err)
		}
		os.RemoveAll(filepath.Join(dir, walName))
		for range 2 { // nothing is begun in its place
			s := openFor(t, vfs.OS, dir)
			mustBe[*wal.DamageError](t, s.Healthy())
			_, err := s.Runs().Start(t.Context(), runs.Caller{Owner: true}, runs.StartRequest{Task: "t"})
			if !errors.Is(err, wal.ErrReadOnly) {
				t.Errorf("a start is answered %v", err)
			}
			s.Close(t.Context())
		}
	})
	t.Run("a file", func(t *testing.T) {
		name := filepath.Join(t.TempDir(), "file")
		write(t, name, "x")
		if _, err := Open(t.Context(), name, Options{}); err == nil {
			t.Error("a file was opened as a store")
		}
	})
	t.Run("network", func(t *testing.T) {
		dir := t.TempDir()
		for magic := range untrusted {
			_, err := Open(t.Context(), dir, Options{FS: onFilesystem{vfs.OS, magic}})
			mustBe[*FilesystemError](t, err)
		}
		if names := list(t, dir); len(names) != 0 {
			t.Errorf("a refused directory was changed: %v", names)
		}
		s, err := Open(t.Context(), dir, Options{FS: onFilesystem{vfs.OS, 0x6969}, UnsafeFilesystem: true})
		if err != nil {
			t.Fatal(err)
		}
		s.Close(t.Context())
	})
}

// onFilesystem says that it is of another type.
type onFilesystem struct {
	vfs.FS
	magic int64
}

func (o onFilesystem) Usage(name string) (vfs.Usage, error) {
	u, err := o.FS.Usage(name)
	u.Type = o.magic
	return u, err
}

func TestOpenMakesPrivateDirectories(t *testing.T) {
	old := syscall.Umask(0)
	defer syscall.Umask(old)
	dir := filepath.Join(t.TempDir(), "a", "b", "store")
	if err := openFor(t, vfs.OS, dir).Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	err := filepath.Walk(dir, func(path string, info os.FileInfo, err error) error {
		if want := os.FileMode(0o600); err == nil && !info.IsDir() && info.Mode().Perm() != want {
			t.Errorf("%s has mode %v", path, info.Mode())
		}
		if want := os.FileMode(0o700); err == nil && info.IsDir() && info.Mode().Perm() != want {
			t.Errorf("%s has mode %v", path, info.Mode())
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

func TestOpenEmptiesTmp(t *testing.T) {
	dir := t.TempDir()
	if err := openFor(t, vfs.OS, dir).Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(dir, tmpName, "left"), "x")
	if err := openFor(t, vfs.OS, dir).Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	if names := list(t, filepath.Join(dir, tmpName)); len(names) > 0 {
		t.Errorf("tmp holds %v", names)
	}
}

func TestConfigIsExact(t *testing.T) {
	c, err := newConfig(time.Unix(1e9, 0).UTC())
	if err != nil {
		t.Fatal(err)
	}
	b, err := c.encode()
	if err != nil {
		t.Fatal(err)
	}
	if got, err := decodeConfig("f", b); err != nil || !bytes.Equal(got.Key, c.Key) || got.Store != c.Store {
		t.Fatalf("decoded %+v, %v", got, err)
	}
	for i := range b {
		for bit := range 8 {
			bad := bytes.Clone(b)
			bad[i] ^= 1 << bit
			if _, err := decodeConfig("f", bad); err == nil {
				t.Fatalf("a flipped bit %d of byte %d (%q) was not seen", bit, i, bad[i])
			}
		}
	}
}

func FuzzConfig(f *testing.F) {
	c, err := newConfig(time.Unix(1e9, 0).UTC())
	if err != nil {
		f.Fatal(err)
	}
	good, err := c.encode()
	if err != nil {
		f.Fatal(err)
	}
	f.Add(good)
	f.Add([]byte(`{"format_version":0}`))
	f.Add([]byte(strings.Repeat("[", 4096)))
	f.Fuzz(func(t *testing.T, b []byte) {
		c, err := decodeConfig("f", b)
		if err != nil {
			return
		}
		if again, err := c.encode(); err != nil || !bytes.Equal(again, b) {
			t.Errorf("what was decoded is encoded otherwise: %v", err)
		}
	})
}

// TestCreationIsOneStep interrupts the making of a store at each call; the
// next open makes it, or finds it made.
func TestCreationIsOneStep(t *testing.T) {
	for n := 1; ; n++ {
		dir := memoryDir(t)
		faulty := vfs.NewFaulty(vfs.OS)
		faulty.Inject(vfs.Fault{Ops: vfs.OpChanges | vfs.OpSyncs, Err: syscall.EIO, Nth: n, Sticky: true})
		s, err := Open(t.Context(), dir, Options{FS: faulty})
		if err == nil {
			s.Close(t.Context())
		}
		if err := openFor(t, vfs.OS, dir).Close(t.Context()); err != nil {
			t.Fatalf("call %d: close: %v", n, err)
		}
		os.RemoveAll(dir)
		if len(faulty.Fired()) == 0 {
			if n < 10 {
				t.Fatalf("only %d calls", n)
			}
			return
		}
	}
}

func TestLeftoversOfCreationAreOurs(t *testing.T) {
	for _, name := range []string{lockName, makingName + durable.TmpSuffix} {
		dir := t.TempDir()
		write(t, filepath.Join(dir, name), "half")
		if err := openFor(t, vfs.OS, dir).Close(t.Context()); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func write(t *testing.T, name, text string) {
	t.Helper()
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func list(t *testing.T, dir string) []string {
	t.Helper()
	names, err := vfs.OS.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	return names
}

// A directory that an earlier process made, and was killed before it synced
// the name, is made durable before the store in it exists.
func TestRootIsMadeDurable(t *testing.T) {
	for dir, names := range map[string][]string{"store": {"."}, "a/store": {".", "a"}} {
		root := t.TempDir()
		if err := os.Mkdir(filepath.Join(root, strings.SplitN(dir, "/", 2)[0]), 0o700); err != nil {
			t.Fatal(err)
		}
		r := vfs.NewRecorder(vfs.OS, root)
		if err := openFor(t, r, filepath.Join(root, dir)).Close(t.Context()); err != nil {
			t.Fatal(err)
		}
		for _, name := range names {
			err := r.Precedes(vfs.Pattern{Ops: vfs.OpDirSync, Name: name}, vfs.Pattern{Ops: vfs.OpRename, Name: dir + "/" + configName})
			if err != nil {
				t.Errorf("%s: %.200s", dir, err)
			}
		}
	}
}
