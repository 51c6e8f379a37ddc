package fusefs_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"testing/fstest"
	"time"

	"golang.org/x/sys/unix"

	"durafs/fusefs"
	"durafs/runs"
	"durafs/view"
	"durafs/view/viewtest"
)

// TestRemovedRun: what a kernel remembers of a run whose admission was undone
// does not hide the one that has its id then.
func TestRemovedRun(t *testing.T) {
	s := viewtest.New(start)
	id := viewtest.ID(7)
	old := s.Start(id)
	mnt, _ := mount(t, view.New(s, nil))
	dir, link := filepath.Join(mnt, "runs", id), filepath.Join(mnt, "by-day/2026-03-01", id)
	ask := func() (inode uint64, err error) {
		for _, path := range []string{dir, link, filepath.Join(link, "record"), filepath.Join(dir, "log")} {
			fi, err := os.Stat(path)
			if err != nil {
				return 0, err
			}
			if path == dir {
				inode = fi.Sys().(*syscall.Stat_t).Ino
			}
		}
		_, err = os.ReadFile(filepath.Join(dir, "record"))
		return inode, err
	}
	if _, err := ask(); err != nil {
		t.Fatal(err)
	}
	s.Remove(old)
	eventually(t, 10*time.Second, "the run is gone", func() bool {
		_, err := os.Stat(dir)
		return errors.Is(err, fs.ErrNotExist)
	})
	next := s.Start(id)
	if inode, err := ask(); err != nil || inode != uint64(view.RunDir(next)) {
		t.Errorf("the next run of that id: inode %x, %v", inode, err)
	}
}

func TestMountPassesTheStandardTest(t *testing.T) {
	s := viewtest.New(start) // a small one: it is read byte by byte, many times
	live, ended := s.Start(viewtest.ID(1)), s.Start(viewtest.ID(2))
	s.Append(live, `{"seq":1}`)
	s.Append(ended, `{"seq":1}`)
	s.Put(ended, "big", runs.SourceNamed, pattern(5000))
	s.Put(ended, "100 %", runs.SourceNamed, nil)
	s.Late(ended, `{"late":true}`)
	s.Settle(ended, pattern(300))
	s.Call(s.StartIn(viewtest.ID(3), "a/b"), "bash", `{}`, []byte(`"done"`))
	s.Post("a/b", "hello")
	s.Enrol("site:https://example.org")
	s.Note("site:https://example.org", `{"type":"start"}`)
	mnt, _ := mount(t, view.New(s, func() []byte { return []byte("serving\n") }))
	id := "runs/" + viewtest.ID(2)
	err := fstest.TestFS(os.DirFS(mnt), "status", id+"/log", id+"/record", id+"/late", id+"/payload",
		id+"/payloads/big", id+"/payloads/100 %25", "by-day/2026-03-01/"+viewtest.ID(1),
		id+"/history", "runs/"+viewtest.ID(3)+"/tools/1", "by-thread/a%2Fb/"+viewtest.ID(3), "by-phase/terminal/"+viewtest.ID(2),
		"threads/a%2Fb/text", "threads/a%2Fb/json", "journal/site:https:%2F%2Fexample.org")
	if err != nil {
		t.Fatal(err)
	}
}

func TestMountShowsWhatTheViewShows(t *testing.T) {
	_, v := sample()
	mnt, _ := mount(t, v)
	mounted, seen := os.DirFS(mnt), 0
	err := fs.WalkDir(v.FS(), ".", func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		want, err := d.Info()
		if err != nil {
			return err
		}
		got, err := os.Lstat(filepath.Join(mnt, path))
		if err != nil {
			return err
		}
		seen++
		if path != "." && (got.Name() != want.Name() || got.Mode() != want.Mode() || !d.IsDir() && got.Size() != want.Size()) {
			t.Errorf("%s: %v; the view has %v", path, got, want)
		}
		if !got.ModTime().Equal(want.ModTime()) {
			t.Errorf("%s: changed at %v; the view has %v", path, got.ModTime(), want.ModTime())
		}
		st := got.Sys().(*syscall.Stat_t)
		if node := want.Sys().(view.Attr).Node; path != "." && st.Ino != uint64(node) {
			t.Errorf("%s: inode %#x; the view has %#x", path, st.Ino, uint64(node))
		}
		if st.Blocks*512 < st.Size {
			t.Errorf("%s: %d blocks for %d bytes", path, st.Blocks, st.Size)
		}
		if !want.Mode().IsRegular() {
			return nil
		}
		a, errA := fs.ReadFile(mounted, path)
		b, errB := fs.ReadFile(v.FS(), path)
		if errA != nil || errB != nil || !bytes.Equal(a, b) {
			t.Errorf("%s: %d bytes, %v; the view has %d, %v", path, len(a), errA, len(b), errB)
		}
		return nil
	})
	if err != nil || seen < 50 {
		t.Errorf("saw %d files: %v", seen, err)
	}
}

func TestToolsAgreeWithTheSource(t *testing.T) {
	s, v := sample()
	mnt, _ := mount(t, v)
	live, ended := runDir(mnt, 1), runDir(mnt, 2)
	log, big := s.Log(1), pattern(3<<20+17)
	sum := sha256.Sum256(big)

	for _, c := range []struct{ got, want string }{
		{run(t, "sha256sum", ended+"/payloads/big")[:64], hex.EncodeToString(sum[:])},
		{run(t, "cat", live+"/log"), string(log)},
		{run(t, "tac", live+"/log"), reversed(string(log))},
		{run(t, "sh", "-c", "wc -lc < "+live+"/log | tr -s ' '"), run(t, "sh", "-c", "printf %s '"+string(log)+"' | wc -lc | tr -s ' '")},
		{run(t, "grep", "-rlF", "needle 42", mnt+"/runs"), live + "/log\n"},
		{run(t, "grep", "-c", "", live+"/log"), "100\n"},
		{run(t, "readlink", "-f", mnt+"/by-day/2026-03-01/"+viewtest.ID(1)), live + "\n"},
		{run(t, "cat", mnt+"/by-day/2026-03-01/"+viewtest.ID(1)+"/payloads/plan.txt"), "first this, then that\n"},
		{run(t, "cat", mnt+"/status"), "serving\n"},
		{run(t, "sh", "-c", "find "+mnt+" -type f | wc -l | tr -d ' '"), "318\n"},
	} {
		if c.got != c.want {
			t.Errorf("got %.200q, want %.200q", c.got, c.want)
		}
	}

	copies := t.TempDir()
	run(t, "cp", "-a", "--sparse=always", ended, copies+"/cp")
	run(t, "cp", "--reflink=auto", ended+"/payloads/big", copies+"/big")
	run(t, "sh", "-c", "cd "+ended+" && tar -cf - --sparse . | tar -xf - -C "+copies)
	for _, name := range []string{"/cp/payloads/big", "/big", "/payloads/big"} {
		if b, err := os.ReadFile(copies + name); err != nil || !bytes.Equal(b, big) {
			t.Errorf("the copy %s has %d bytes, %v", name, len(b), err)
		}
	}
	run(t, "diff", "-r", ended, copies+"/cp")
	run(t, "sh", "-c", "tar -cf "+copies+"/t.tar -C "+mnt+" runs by-day && tar -df "+copies+"/t.tar -C "+mnt)
}

func TestJQ(t *testing.T) {
	s, v := sample()
	mnt, _ := mount(t, v)
	if got := run(t, "jq", "-r", ".id", runDir(mnt, 1)+"/record"); got != viewtest.ID(1)+"\n" {
		t.Errorf("the record's id is %q", got)
	}
	if got := run(t, "jq", "-c", "select(.seq==7)", runDir(mnt, 2)+"/log"); got != `{"seq":7,"type":"note"}`+"\n" {
		t.Errorf("row 7 is %q", got)
	}
	if b, err := os.ReadFile(runDir(mnt, 2) + "/record"); err != nil || !bytes.Equal(b, s.RecordText(2)) || !json.Valid(b) {
		t.Errorf("the record is %s, %v", b, err)
	}
}

func reversed(s string) string {
	lines := strings.SplitAfter(strings.TrimSuffix(s, "\n"), "\n")
	lines[len(lines)-1] += "\n"
	var b strings.Builder
	for i := len(lines) - 1; i >= 0; i-- {
		b.WriteString(lines[i])
	}
	return b.String()
}

func TestSeekDataAndHole(t *testing.T) {
	_, v := sample()
	mnt, _ := mount(t, v)
	for name, size := range map[string]int64{
		runDir(mnt, 2) + "/payload":        100_000,
		runDir(mnt, 1) + "/payloads/empty": 0,
	} {
		f, err := os.Open(name)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		for _, c := range []struct {
			off    int64
			whence int
			want   int64
			err    error
		}{
			{0, unix.SEEK_DATA, 0, nil},
			{5, unix.SEEK_DATA, 5, nil},
			{size - 1, unix.SEEK_DATA, size - 1, nil},
			{size, unix.SEEK_DATA, -1, syscall.ENXIO},
			{0, unix.SEEK_HOLE, size, nil},
			{size - 1, unix.SEEK_HOLE, size, nil},
			{size, unix.SEEK_HOLE, -1, syscall.ENXIO},
			{size + 9, unix.SEEK_HOLE, -1, syscall.ENXIO},
			{-1, unix.SEEK_DATA, -1, syscall.ENXIO},
			{0, unix.SEEK_END, size, nil},
			{9, unix.SEEK_END, size + 9, nil},
		} {
			if size == 0 && c.off < size+9 && c.whence != unix.SEEK_END && c.off != size {
				continue // the same, or before the start
			}
			if size == 0 && c.off == 0 && c.whence != unix.SEEK_END {
				c.want, c.err = -1, syscall.ENXIO
			}
			got, err := unix.Seek(int(f.Fd()), c.off, c.whence)
			if got != c.want || err != c.err {
				t.Errorf("%d bytes, seek %d to %d: %d, %v; want %d, %v", size, c.whence, c.off, got, err, c.want, c.err)
			}
		}
	}
}

// Without the number of inodes no free ones are told: df would compute a
// negative number of used ones.
func TestStatfsInodesNotCounted(t *testing.T) {
	_, v := sample()
	mnt, _ := mount(t, v, func(o *fusefs.Options) {
		o.Space = func() (fusefs.Space, error) {
			return fusefs.Space{SizeBytes: 100 << 20, FreeBytes: 40 << 20, Inodes: -1, FreeInodes: 300}, nil
		}
	})
	var st unix.Statfs_t
	if err := unix.Statfs(mnt, &st); err != nil {
		t.Fatal(err)
	}
	if st.Files != 0 || st.Ffree != 0 {
		t.Errorf("%d inodes, %d free", st.Files, st.Ffree)
	}
}

func TestStatfsAndNameMax(t *testing.T) {
	_, v := sample()
	mnt, _ := mount(t, v, func(o *fusefs.Options) {
		o.Space = func() (fusefs.Space, error) {
			return fusefs.Space{SizeBytes: 100 << 20, FreeBytes: 40 << 20, Inodes: 1000, FreeInodes: 300}, nil
		}
	})
	var st unix.Statfs_t
	if err := unix.Statfs(mnt, &st); err != nil {
		t.Fatal(err)
	}
	if st.Namelen != 255 || int64(st.Blocks)*st.Bsize != 100<<20 || int64(st.Bavail)*st.Bsize != 40<<20 || st.Files != 1000 || st.Ffree != 300 {
		t.Errorf("statfs: %+v", st)
	}
	if got := run(t, "getconf", "NAME_MAX", mnt); got != "255\n" {
		t.Errorf("NAME_MAX is %q", got)
	}
	if got := run(t, "df", "--output=fstype,source", mnt); !strings.Contains(got, "fuse.durafs") || !strings.Contains(got, "durafs:/") {
		t.Errorf("df: %s", got)
	}
	for _, c := range []struct {
		name string
		want error
	}{
		{strings.Repeat("x", 255), syscall.ENOENT},
		{strings.Repeat("x", 256), syscall.ENAMETOOLONG},
		{strings.Repeat("x", 1024), syscall.ENAMETOOLONG},
		{strings.Repeat("ü", 127), syscall.ENOENT},
	} {
		for _, dir := range []string{mnt, mnt + "/runs", mnt + "/by-day", runDir(mnt, 1), runDir(mnt, 1) + "/payloads"} {
			var st unix.Stat_t
			if err := unix.Lstat(dir+"/"+c.name, &st); err != c.want {
				t.Errorf("%d bytes in %s: %v, want %v", len(c.name), dir, err, c.want)
			}
		}
	}
}

func TestOwnerAndMode(t *testing.T) {
	_, v := sample()
	uid, gid := uint32(1234), uint32(4321)
	mnt, _ := mount(t, v, func(o *fusefs.Options) { o.UID, o.GID, o.Mode = &uid, &gid, 0o777 })
	for name, mode := range map[string]uint32{"": 0o040555, "/runs": 0o040555, "/status": 0o100444} {
		var st unix.Stat_t
		if err := unix.Lstat(mnt+name, &st); err != nil || st.Mode != mode || st.Uid != uid || st.Gid != gid {
			t.Errorf("%s/: %o, %d:%d, %v", name, st.Mode, st.Uid, st.Gid, err)
		}
	}
}

func TestReadOnlyDescriptorCanBeSynced(t *testing.T) {
	_, v := sample()
	mnt, _ := mount(t, v)
	for _, name := range []string{mnt, runDir(mnt, 1) + "/log", runDir(mnt, 2) + "/payload"} {
		f, err := os.Open(name)
		if err != nil {
			t.Fatal(err)
		}
		if err := unix.Fsync(int(f.Fd())); err != nil {
			t.Errorf("fsync %s: %v", name, err)
		}
		if err := unix.Fdatasync(int(f.Fd())); err != nil {
			t.Errorf("fdatasync %s: %v", name, err)
		}
		if err := unix.Syncfs(int(f.Fd())); err != nil {
			t.Errorf("syncfs %s: %v", name, err)
		}
		f.Close()
	}
}

func TestInodesSurviveCacheDropsAndRemounts(t *testing.T) {
	_, v := sample()
	dir := filepath.Join(t.TempDir(), "mnt")
	at := func(o *fusefs.Options) { o.Dir = dir }
	mnt, srv := mount(t, v, at)
	before := run(t, "find", mnt, "-printf", "%i %p\n")
	if err := os.WriteFile("/proc/sys/vm/drop_caches", []byte("2"), 0o200); err != nil {
		t.Fatal(err)
	}
	// A shell whose directory was forgotten by the kernel still knows where
	// it is, if the inode is the same one.
	script := "cd " + runDir(mnt, 1) + "/payloads && echo 2 > /proc/sys/vm/drop_caches && /bin/pwd && ls .. >/dev/null && /bin/pwd"
	if got, want := run(t, "sh", "-c", script), strings.Repeat(runDir(mnt, 1)+"/payloads\n", 2); got != want {
		t.Errorf("the working directory is %q", got)
	}
	if err := srv.Unmount(t.Context()); err != nil {
		t.Fatal(err)
	}
	mount(t, v, at)
	if after := run(t, "find", mnt, "-printf", "%i %p\n"); after != before {
		t.Errorf("inodes were\n%s\nand are\n%s", before, after)
	}
}

func TestDamageIsAnErrorForTheFileThatIsHit(t *testing.T) {
	s, v := sample()
	s.Fail = func(ref runs.Ref, name string) error {
		if name == "big" || name == runs.TerminalName {
			return &os.PathError{Op: "open", Path: "segment", Err: syscall.ENOENT} // beneath the store
		}
		return nil
	}
	mnt, srv := mount(t, v)
	if _, err := os.ReadFile(runDir(mnt, 2) + "/payloads/big"); !isErrno(err, syscall.EIO) {
		t.Errorf("a payload that cannot be read: %v", err)
	}
	if _, err := os.ReadFile(runDir(mnt, 2) + "/log"); err != nil {
		t.Errorf("the log beside it: %v", err)
	}
	if _, err := os.Stat(runDir(mnt, 2) + "/payload"); !isErrno(err, syscall.EIO) {
		t.Errorf("a payload that cannot be found: %v", err)
	}
	if names, err := os.ReadDir(runDir(mnt, 2)); err != nil || len(names) != 7 {
		t.Errorf("listed %v, %v", names, err)
	}
	if srv.Stats().Failures == 0 {
		t.Error("the failure was not counted")
	}
}

func TestPanicIsAnError(t *testing.T) {
	s, v := sample()
	s.Fail = func(ref runs.Ref, name string) error {
		if name == "" {
			panic("a mistake")
		}
		return nil
	}
	mnt, srv := mount(t, v)
	if _, err := os.ReadFile(runDir(mnt, 1) + "/log"); !isErrno(err, syscall.EIO) {
		t.Errorf("a handler that panics: %v", err)
	}
	if n := srv.Stats().Panics; n == 0 {
		t.Error("the panic was not counted")
	}
	if _, err := os.ReadFile(mnt + "/status"); err != nil {
		t.Errorf("after the panic: %v", err)
	}
}

func isErrno(err error, want syscall.Errno) bool {
	pe, ok := err.(*fs.PathError)
	return ok && pe.Err == want
}
