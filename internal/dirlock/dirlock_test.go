package dirlock

import (
	"bufio"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"

	"golang.org/x/sys/unix"
)

// With this variable set the test binary is the other process: it takes the
// lock, says so, and waits to be killed or for its input to end.
const childEnv = "DIRLOCK_TEST_CHILD"

func TestMain(m *testing.M) {
	if path := os.Getenv(childEnv); path != "" {
		l, err := Acquire(path)
		if err != nil {
			os.Stdout.WriteString("error: " + err.Error() + "\n")
			os.Exit(1)
		}
		os.Stdout.WriteString("held\n")
		bufio.NewReader(os.Stdin).ReadString('\n')
		l.Close()
		os.Exit(0)
	}
	os.Exit(m.Run())
}

type child struct {
	*exec.Cmd
	said string
	stop func()
}

func startChild(t *testing.T, path string) child {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), childEnv+"="+path)
	in, err1 := cmd.StdinPipe()
	out, err2 := cmd.StdoutPipe()
	if err := errors.Join(err1, err2, cmd.Start()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { cmd.Process.Kill(); cmd.Wait() })
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	return child{cmd, strings.TrimSpace(line), func() { in.Close() }}
}

func lockPath(t *testing.T) string { return filepath.Join(t.TempDir(), "LOCK") }

func wantHeld(t *testing.T, err error, path string, pid int) {
	t.Helper()
	var held *HeldError
	if !errors.As(err, &held) {
		t.Fatalf("error %v, want *HeldError", err)
	}
	if held.Path != path || held.PID != pid || held.BootID != BootID() || held.BootID == "" {
		t.Errorf("%+v, want pid %d of boot %s", held, pid, BootID())
	}
	if want := path + " is held by process " + strconv.Itoa(pid); held.Error() != want {
		t.Errorf("message %q, want %q", held.Error(), want)
	}
}

func TestHeldByAnotherProcess(t *testing.T) {
	for name, end := range map[string]func(child){
		"closed": func(c child) { c.stop() },
		"killed": func(c child) { c.Process.Kill() },
	} {
		t.Run(name, func(t *testing.T) {
			path := lockPath(t)
			c := startChild(t, path)
			if c.said != "held" {
				t.Fatalf("the other process says %q", c.said)
			}
			_, err := Acquire(path)
			wantHeld(t, err, path, c.Process.Pid)

			end(c)
			c.Wait()
			l, err := Acquire(path)
			if err != nil {
				t.Fatalf("after the other process ended: %v", err)
			}
			l.Close()
		})
	}
}

func TestOtherProcessIsKeptOut(t *testing.T) {
	path := lockPath(t)
	l, err := Acquire(path)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	c := startChild(t, path)
	if want := "error: " + path + " is held by process " + strconv.Itoa(os.Getpid()); c.said != want {
		t.Errorf("the other process says %q, want %q", c.said, want)
	}
}

// The lock does not pass to children of the holder.
func TestNotInherited(t *testing.T) {
	path := lockPath(t)
	l, err := Acquire(path)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("sleep", "1000")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { cmd.Process.Kill(); cmd.Wait() }()
	l.Close()
	again, err := Acquire(path)
	if err != nil {
		t.Fatal(err)
	}
	again.Close()
}

func TestOneHolderInAProcess(t *testing.T) {
	path := lockPath(t)
	var mu sync.Mutex
	var locks []*Lock
	var wg sync.WaitGroup
	for range 20 {
		wg.Go(func() {
			l, err := Acquire(path)
			var held *HeldError
			if err != nil && !errors.As(err, &held) {
				t.Error(err)
			}
			if err == nil {
				mu.Lock()
				defer mu.Unlock()
				locks = append(locks, l)
			}
		})
	}
	wg.Wait()
	if len(locks) != 1 {
		t.Fatalf("%d locks were given, want 1", len(locks))
	}
	_, err := Acquire(path)
	wantHeld(t, err, path, os.Getpid())
	if err := locks[0].Close(); err != nil {
		t.Fatal(err)
	}
	if st, err := os.Stat(path); err != nil || st.Size() != 0 {
		t.Errorf("after Close the file should be there and empty: %v, %v", st, err)
	}
}

// A lock on a file that lost its name keeps nobody out and is not kept.
func TestReplacedFile(t *testing.T) {
	path := lockPath(t)
	l, err := Acquire(path)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	if isNamed(l.f, path) {
		t.Error("a removed file counts as named")
	}
	os.Symlink(l.f.Name(), path)
	if isNamed(l.f, path) {
		t.Error("a link counts as the file")
	}
}

func TestUnreadableHolder(t *testing.T) {
	for _, text := range []string{"", "12", "not a pid\n", "-5 x\n", strings.Repeat("9", 1000) + "\n"} {
		path := lockPath(t)
		f, err := os.Create(path)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		f.WriteString(text)
		if err := flock(f); err != nil {
			t.Fatal(err)
		}
		_, err = Acquire(path)
		var held *HeldError
		if !errors.As(err, &held) || held.PID != 0 || held.BootID != "" {
			t.Errorf("text %.20q: %v", text, err)
		} else if want := path + " is held by another process"; held.Error() != want {
			t.Errorf("text %.20q: message %q", text, held.Error())
		}
	}
}

func TestHolderOfAnotherBoot(t *testing.T) {
	err := &HeldError{Path: "LOCK", PID: 7, BootID: "some-other-boot"}
	if got, want := err.Error(), "LOCK is held by process 7 of another machine"; got != want {
		t.Errorf("message %q, want %q", got, want)
	}
}

func TestNotAFile(t *testing.T) {
	dir := t.TempDir()
	if err := unix.Mkfifo(dir+"/fifo", 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(dir+"/elsewhere", dir+"/link"); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{dir, dir + "/fifo", dir + "/link", dir + "/missing/LOCK"} {
		if l, err := Acquire(name); err == nil {
			l.Close()
			t.Errorf("Acquire(%s): no error", name)
		}
	}
	if _, err := os.Lstat(dir + "/elsewhere"); !errors.Is(err, fs.ErrNotExist) {
		t.Error("a link was followed")
	}
}

func TestModeUnderUmask(t *testing.T) {
	path := lockPath(t)
	old := unix.Umask(0o777)
	l, err := Acquire(path)
	unix.Umask(old)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if st, err := os.Stat(path); err != nil || st.Mode() != 0o600 {
		t.Errorf("mode %v, %v, want 0600", st.Mode(), err)
	}
}
