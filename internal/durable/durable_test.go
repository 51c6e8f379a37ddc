package durable

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"syscall"
	"testing"

	"durafs/internal/vfs"
	"durafs/internal/vfs/vfstest"

	"github.com/google/go-cmp/cmp"
)

// The system calls of each helper, in order.
func TestSystemCalls(t *testing.T) {
	for _, c := range []struct {
		name string
		run  func(fsys vfs.FS, dir string) error
		want string
	}{
		{"WriteFile", func(fsys vfs.FS, dir string) error { return WriteFile(fsys, dir+"/a", []byte("12345")) }, `
opendir .
remove a.tmp: no such file or directory
create a.tmp
write a.tmp 0+5
datasync a.tmp
close a.tmp
rename a.tmp -> a
dirsync .
dirclose .
`},
		{"CreateDir", func(fsys vfs.FS, dir string) error { return CreateDir(fsys, dir+"/d") }, `
opendir .
mkdir d
dirsync .
dirclose .
`},
		{"EnsureDir", func(fsys vfs.FS, dir string) error { return EnsureDir(fsys, dir+"/old") }, `
opendir .
mkdir old: file exists
stat old
dirsync .
dirclose .
`},
		{"Rename", func(fsys vfs.FS, dir string) error { return Rename(fsys, dir+"/f", dir+"/g") }, `
opendir .
rename f -> g
dirsync .
dirclose .
`},
		{"Remove", func(fsys vfs.FS, dir string) error { return Remove(fsys, dir+"/f") }, `
opendir .
remove f
dirsync .
dirclose .
`},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := t.TempDir()
			vfstest.Write(t, vfs.OS, dir+"/f", nil)
			if err := vfs.OS.Mkdir(dir + "/old"); err != nil {
				t.Fatal(err)
			}
			r := vfs.NewRecorder(vfs.OS, dir)
			if err := c.run(r, dir); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(strings.TrimPrefix(c.want, "\n"), r.String()); diff != "" {
				t.Errorf("system calls (-want +got):\n%s", diff)
			}
		})
	}
}

// With any one call failing, in each way, WriteFile either succeeds with the
// new content in place or reports the error with one of the two complete
// contents in place; and the next WriteFile succeeds.
func TestWriteFileWithEachCallFailing(t *testing.T) {
	write := func(fsys vfs.FS, dir string) error { return WriteFile(fsys, dir+"/a", []byte("new content")) }
	dry := vfs.NewFaulty(vfs.OS)
	if err := write(dry, t.TempDir()); err != nil {
		t.Fatal(err)
	}
	calls := dry.Count(vfs.OpAll)
	if calls < 8 {
		t.Fatalf("only %d calls", calls)
	}
	for _, mode := range vfs.Modes {
		for k := 1; k <= calls; k++ {
			t.Run(fmt.Sprintf("%v/%d", mode, k), func(t *testing.T) {
				dir := t.TempDir()
				vfstest.Write(t, vfs.OS, dir+"/a", []byte("old"))
				vfstest.Write(t, vfs.OS, dir+"/a"+TmpSuffix, []byte("remainder"))
				fsys := vfs.NewFaulty(vfs.OS)
				fsys.Inject(vfs.Fault{Ops: vfs.OpAll, Nth: k, Mode: mode, Err: syscall.EIO})
				err := write(fsys, dir)
				fired := fsys.Fired()
				if len(fired) != 1 {
					t.Fatalf("fired %v", fired)
				}
				got := string(vfstest.Read(t, vfs.OS, dir+"/a"))
				switch {
				case err == nil && fired[0].Op != vfs.OpDirClose:
					t.Errorf("no error though this failed: %v", fired[0])
				case err == nil && got != "new content":
					t.Errorf("no error, and the file holds %q", got)
				case err != nil && got != "old" && got != "new content":
					t.Errorf("the file holds %q", got)
				}
				if err := write(fsys, dir); err != nil {
					t.Errorf("the next WriteFile: %v", err)
				}
				if names, _ := vfs.OS.ReadDir(dir); len(names) != 1 {
					t.Errorf("names left: %q", names)
				}
			})
		}
	}
}

// A name is never durable before its content: nothing is renamed after a
// datasync that failed.
func TestNoRenameAfterFailedSync(t *testing.T) {
	for _, mode := range vfs.Modes {
		dir := t.TempDir()
		faulty := vfs.NewFaulty(vfs.OS)
		r := vfs.NewRecorder(faulty, dir)
		faulty.Inject(vfs.Fault{Ops: vfs.OpDatasync, Nth: 1, Mode: mode, Err: syscall.EIO})
		if err := WriteFile(r, dir+"/a", []byte("x")); !errors.Is(err, syscall.EIO) {
			t.Errorf("error %v, want EIO", err)
		}
		if calls := r.Find(vfs.Pattern{Ops: vfs.OpRename}); len(calls) != 0 {
			t.Errorf("renamed after a failed sync:\n%s", r)
		}
	}
}

func TestFailedDirectorySyncIsAnError(t *testing.T) {
	for name, run := range map[string]func(fsys vfs.FS, dir string) error{
		"WriteFile": func(fsys vfs.FS, dir string) error { return WriteFile(fsys, dir+"/a", nil) },
		"CreateDir": func(fsys vfs.FS, dir string) error { return CreateDir(fsys, dir+"/a") },
		"EnsureDir": func(fsys vfs.FS, dir string) error { return EnsureDir(fsys, dir+"/a") },
		"Rename":    func(fsys vfs.FS, dir string) error { return Rename(fsys, dir+"/f", dir+"/a") },
		"Remove":    func(fsys vfs.FS, dir string) error { return Remove(fsys, dir+"/f") },
	} {
		dir := t.TempDir()
		vfstest.Write(t, vfs.OS, dir+"/f", nil)
		fsys := vfs.NewFaulty(vfs.OS)
		fsys.Inject(vfs.Fault{Ops: vfs.OpDirSync, Nth: 1, Mode: vfs.Done, Err: syscall.EIO})
		if err := run(fsys, dir); !errors.Is(err, syscall.EIO) {
			t.Errorf("%s: error %v, want EIO", name, err)
		}
	}
}

func TestReadFile(t *testing.T) {
	dir := t.TempDir()
	vfstest.Write(t, vfs.OS, dir+"/a", []byte("12345"))
	vfstest.Write(t, vfs.OS, dir+"/empty", nil)
	if got, err := ReadFile(vfs.OS, dir+"/a", 5); string(got) != "12345" || err != nil {
		t.Errorf("ReadFile = %q, %v", got, err)
	}
	if got, err := ReadFile(vfs.OS, dir+"/empty", 0); len(got) != 0 || err != nil {
		t.Errorf("ReadFile of an empty file = %q, %v", got, err)
	}
	if _, err := ReadFile(vfs.OS, dir+"/a", 4); !errors.Is(err, ErrTooLarge) {
		t.Errorf("ReadFile of a larger file: %v", err)
	}
	if _, err := ReadFile(vfs.OS, dir+"/missing", 4); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("ReadFile of a missing file: %v", err)
	}
	fsys := vfs.NewFaulty(vfs.OS)
	fsys.Inject(vfs.Fault{Ops: vfs.OpRead, Nth: 1, Mode: vfs.Half, Err: syscall.EIO})
	if got, err := ReadFile(fsys, dir+"/a", 5); !errors.Is(err, syscall.EIO) || got != nil {
		t.Errorf("ReadFile with a failing read = %q, %v", got, err)
	}
}

func TestNamesThatAreTaken(t *testing.T) {
	dir := t.TempDir()
	vfstest.Write(t, vfs.OS, dir+"/f", nil)
	if err := CreateDir(vfs.OS, dir+"/d"); err != nil {
		t.Fatal(err)
	}
	if err := CreateDir(vfs.OS, dir+"/d"); !errors.Is(err, fs.ErrExist) {
		t.Errorf("CreateDir twice: %v", err)
	}
	if err := EnsureDir(vfs.OS, dir+"/d"); err != nil {
		t.Errorf("EnsureDir of a directory: %v", err)
	}
	if err := EnsureDir(vfs.OS, dir+"/f"); !errors.Is(err, fs.ErrExist) {
		t.Errorf("EnsureDir of a file: %v", err)
	}
	if err := Rename(vfs.OS, dir+"/f", dir+"/d/f"); err == nil {
		t.Error("Rename across directories: no error")
	}
	if err := Remove(vfs.OS, dir+"/missing"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("Remove of a missing name: %v", err)
	}
}

// What a crash left under the temporary name does not disturb.
func TestWriteFileOverRemainders(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(dir+"/a"+TmpSuffix, []byte("remainder, and longer"), 0o400); err != nil {
		t.Fatal(err)
	}
	if err := WriteFile(vfs.OS, dir+"/a", []byte("new")); err != nil {
		t.Fatal(err)
	}
	if got := vfstest.Read(t, vfs.OS, dir+"/a"); string(got) != "new" {
		t.Errorf("the file holds %q", got)
	}
}
