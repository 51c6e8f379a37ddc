package fusefs_test

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"durafs/view"
	"durafs/view/viewtest"
)

// TestTailFollows appends row by row under tail -f, and wants each row within
// a second, whole.
func TestTailFollows(t *testing.T) {
	for _, how := range []string{"-f", "-F"} {
		s := viewtest.New(start)
		mnt, _ := mount(t, view.New(s, nil))
		ref := s.Start(viewtest.ID(1))
		s.Append(ref, "row 0")
		cmd := exec.Command("tail", how, "-s", "0.2", "-n", "+1", runDir(mnt, 1)+"/log")
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		lines := make(chan string)
		go func() {
			defer close(lines)
			for sc := bufio.NewScanner(out); sc.Scan(); {
				lines <- sc.Text()
			}
		}()
		slowest := time.Duration(0)
		for i := range 12 {
			at := time.Now()
			if i > 0 {
				s.Append(ref, fmt.Sprintf("row %d %s", i, strings.Repeat("x", i*1000)))
			}
			select {
			case line := <-lines:
				if want := fmt.Sprintf("row %d", i); !strings.HasPrefix(line, want) || i > 0 && len(line) != len(want)+1+i*1000 {
					t.Errorf("tail %s: got %.20q of %d bytes, want %s", how, line, len(line), want)
				}
			case <-time.After(5 * time.Second):
				t.Fatalf("tail %s: row %d did not come", how, i)
			}
			if i > 0 { // the first waits for tail to start
				slowest = max(slowest, time.Since(at))
			}
		}
		if slowest > time.Second {
			t.Errorf("tail %s: a row took %v", how, slowest)
		}
		t.Logf("tail %s -s 0.2: the slowest row took %v", how, slowest)
		cmd.Process.Kill()
		for range lines {
		}
		cmd.Wait()
	}
}

// TestGrowingLogNeverShowsZeros reads a log in every way while it grows: at
// its end, from its start, by new descriptors, and by its size.
func TestGrowingLogNeverShowsZeros(t *testing.T) {
	const growFor, growEvery = 1500 * time.Millisecond, 100 * time.Microsecond
	s := viewtest.New(start)
	mnt, _ := mount(t, view.New(s, nil))
	ref := s.Start(viewtest.ID(1))
	name := runDir(mnt, 1) + "/log"
	var done atomic.Bool
	var wg sync.WaitGroup
	reader := func(what string, read func() error) {
		wg.Go(func() {
			for last := false; !last; {
				last = done.Load() // and once more after it
				if err := read(); err != nil {
					t.Errorf("%s: %v", what, err)
					return
				}
			}
		})
	}

	follow, err := os.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	defer follow.Close()
	var followed []byte
	buf := make([]byte, 64<<10)
	reader("following", func() error {
		n, err := follow.Read(buf)
		if err == io.EOF {
			return nil
		}
		followed = append(followed, buf[:n]...)
		if info, serr := follow.Stat(); serr == nil && info.Size() < int64(len(followed)) {
			return fmt.Errorf("read %d bytes, and then the size is %d", len(followed), info.Size())
		}
		return errOr(err, whole(buf[:n], n < len(buf)))
	})
	reader("reading anew", func() error {
		b, err := os.ReadFile(name)
		return errOr(err, whole(b, true))
	})
	// The page at the end is the one that is cached while it is not full: ask
	// for the size, read up to it, again and again on one descriptor.
	tail, err := os.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	defer tail.Close()
	reader("reading the end by size", func() error {
		info, err := tail.Stat()
		if err != nil {
			return err
		}
		b := make([]byte, min(info.Size(), 6000))
		_, err = tail.ReadAt(b, info.Size()-int64(len(b)))
		return errOr(err, whole(b, true))
	})
	tick := time.NewTicker(growEvery)
	defer tick.Stop()
	for i, enough := 0, time.After(growFor); !done.Load(); i++ {
		s.Append(ref, fmt.Sprintf(`{"seq":%d,"text":%q}`, i+1, bytes.Repeat([]byte("y"), i%40)))
		select {
		case <-enough:
			done.Store(true)
		case <-tick.C:
		}
	}
	wg.Wait()
	if !bytes.Equal(followed, s.Log(ref)) {
		t.Errorf("followed %d bytes of %d", len(followed), len(s.Log(ref)))
	}
}

func errOr(err, or error) error {
	if err != nil {
		return err
	}
	return or
}

// whole tells whether b has no zeros and, at its end, no half row.
func whole(b []byte, atEnd bool) error {
	if i := bytes.IndexByte(b, 0); i >= 0 {
		return fmt.Errorf("a zero at %d of %d bytes", i, len(b))
	}
	if atEnd && len(b) > 0 && b[len(b)-1] != '\n' {
		return fmt.Errorf("half a row at the end: %.40q", b[max(0, len(b)-40):])
	}
	return nil
}

// TestSealingDropsWhatSpliceLeft fills the page cache of a growing log behind
// the kernel's back, by sendfile, and wants nothing of that to outlive the
// sealing.
func TestSealingDropsWhatSpliceLeft(t *testing.T) {
	s := viewtest.New(start)
	mnt, srv := mount(t, view.New(s, nil))
	ref := s.Start(viewtest.ID(1))
	name := runDir(mnt, 1) + "/log"
	null, err := os.OpenFile("/dev/null", os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer null.Close()
	f, err := os.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for i := range 300 {
		s.Append(ref, fmt.Sprintf(`{"seq":%d,"text":"grows"}`, i+1))
		off := int64(0)
		if _, err := unix.Sendfile(int(null.Fd()), int(f.Fd()), &off, 1<<20); err != nil {
			t.Fatal(err)
		}
	}
	s.Settle(ref, nil)
	told := srv.Stats().Notifications
	eventually(t, 5*time.Second, "the sealing is not told", func() bool { return srv.Stats().Notifications > told || told > 0 })
	want := s.Log(ref)
	eventually(t, 5*time.Second, "the sealed log is not what was appended", func() bool {
		b, err := os.ReadFile(name)
		return err == nil && bytes.Equal(b, want)
	})
	for range 20 {
		if b, err := os.ReadFile(name); err != nil || !bytes.Equal(b, want) {
			t.Fatalf("read %d bytes, %v", len(b), err)
		}
	}
}

func TestSizesFollow(t *testing.T) {
	s := viewtest.New(start)
	mnt, _ := mount(t, view.New(s, nil))
	ref := s.Start(viewtest.ID(1))
	for i := range 30 {
		s.Append(ref, fmt.Sprintf("row %d", i))
		want := int64(len(s.Log(ref)))
		eventually(t, 3*time.Second, "the size does not follow", func() bool {
			info, err := os.Stat(runDir(mnt, 1) + "/log")
			return err == nil && info.Size() == want
		})
		record := int64(len(s.RecordText(ref)))
		eventually(t, 3*time.Second, "the record's size does not follow", func() bool {
			info, err := os.Stat(runDir(mnt, 1) + "/record")
			return err == nil && info.Size() == record
		})
	}
}

// TestNamesAppear asks for names before they are there.
func TestNamesAppear(t *testing.T) {
	s := viewtest.New(start)
	mnt, _ := mount(t, view.New(s, nil))
	ref := s.Start(viewtest.ID(1))
	dir := runDir(mnt, 1)
	appears := func(name string, make func()) {
		t.Helper()
		for range 3 { // until the kernel remembers that there is none
			if _, err := os.Stat(name); !isErrno(err, syscall.ENOENT) {
				t.Fatalf("%s: %v", name, err)
			}
		}
		make()
		eventually(t, 3*time.Second, name+" does not appear", func() bool {
			_, err := os.Stat(name)
			return err == nil
		})
	}
	appears(dir+"/late", func() { s.Late(ref, "{}") })
	appears(dir+"/payloads/a", func() { s.Put(ref, "a", "named", []byte("a")) })
	appears(dir+"/payload", func() { s.Settle(ref, []byte("done")) })
	appears(runDir(mnt, 2), func() { s.Start(viewtest.ID(2)) })
	appears(mnt+"/by-day/2027-01-01/"+viewtest.ID(3), func() {
		s.SetTime(time.Date(2027, 1, 1, 0, 0, 0, 0, time.UTC))
		s.Start(viewtest.ID(3))
	})
	if got := run(t, "ls", mnt+"/runs"); strings.Count(got, "\n") != 3 {
		t.Errorf("listed %q", got)
	}
}

// TestMomentsAreOne holds a record and a log open while the run goes on.
func TestMomentsAreOne(t *testing.T) {
	s := viewtest.New(start)
	mnt, srv := mount(t, view.New(s, nil))
	ref := s.Start(viewtest.ID(1))
	open, err := os.Open(runDir(mnt, 1) + "/record")
	if err != nil {
		t.Fatal(err)
	}
	was := s.RecordText(ref)
	for i := range 200 {
		s.Append(ref, fmt.Sprint(i))
	}
	s.Settle(ref, nil)
	if got, err := io.ReadAll(open); err != nil || !bytes.Equal(got, was) {
		t.Errorf("the record moved: %s, %v", got, err)
	}
	if n := srv.Stats().Handles; n != 1 {
		t.Errorf("%d handles are held, want 1", n)
	}
	open.Close()
	eventually(t, 3*time.Second, "the handle is not given back", func() bool { return srv.Stats().Handles == 0 })
}

// TestCompactedLogIsAnotherFile: the old inode is gone, the name leads to the
// new one.
func TestCompactedLogIsAnotherFile(t *testing.T) {
	s := viewtest.New(start)
	mnt, _ := mount(t, view.New(s, nil))
	ref := s.Start(viewtest.ID(1))
	s.Append(ref, "a long row that goes")
	name := runDir(mnt, 1) + "/log"
	if _, err := os.ReadFile(name); err != nil {
		t.Fatal(err)
	}
	s.ReplaceLog(ref, "one row\n")
	eventually(t, 3*time.Second, "the new log is not there", func() bool {
		b, err := os.ReadFile(name)
		info, serr := os.Stat(name)
		return err == nil && serr == nil && string(b) == "one row\n" && info.Size() == 8
	})
}
