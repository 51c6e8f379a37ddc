package daemon_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"durafs/control/server"
	"durafs/internal/daemon"
	"durafs/internal/need"
	"durafs/store"
)

// Who knocks in these tests.
const (
	strangerUID = 65534
	groupGID    = 64201 // nobody's, and strangerUID is in it only where a test says so
)

// asStranger runs fn on a thread that belongs to another user, with gid as its
// only group. The thread ends with it, and no other has changed.
func asStranger(t *testing.T, gid int, fn func()) (done chan struct{}) {
	t.Helper()
	need.Root(t, "knock as another user")
	done = make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread() // and never unlocked: the thread is thrown away
		for _, c := range [][4]uintptr{
			{unix.SYS_SETGROUPS, 0, 0, 0},
			{unix.SYS_SETRESGID, uintptr(gid), uintptr(gid), uintptr(gid)},
			{unix.SYS_SETRESUID, strangerUID, strangerUID, strangerUID},
		} {
			if _, _, errno := unix.RawSyscall(c[0], c[1], c[2], c[3]); errno != 0 {
				t.Error(errno)
				return
			}
		}
		fn()
	}()
	return done
}

// knock tries to connect. EACCES: we may not; ENOENT: there is nothing. All else
// says that the way was open, also ECONNREFUSED: who may not connect is told so
// before he is told that nobody listens.
func knock(path string) error {
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	return unix.Connect(fd, &unix.SockaddrUnix{Name: path})
}

// openDir is a directory that everybody may pass through, as are those above.
func openDir(t *testing.T) string {
	t.Helper()
	dir := shortDir(t)
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	return dir
}

// errLetIn says that a stranger came in.
var errLetIn = errors.New("the stranger was let in")

// race lets a stranger knock at paths without a pause, while change makes and
// removes what stands there, until that has been done often enough and he was
// turned away often enough. The error is errLetIn if anything else than that, or
// nothing, ever met him.
func race(t *testing.T, rounds, away int, change func(), paths ...string) error {
	t.Helper()
	var turnedAway atomic.Int64
	var in error
	stop := make(chan struct{})
	knocker := asStranger(t, strangerUID, func() {
		for {
			select {
			case <-stop:
				return
			default:
			}
			for _, p := range paths {
				switch err := knock(p); {
				case errors.Is(err, syscall.EACCES):
					turnedAway.Add(1)
				case !errors.Is(err, syscall.ENOENT):
					in = fmt.Errorf("%w: %v", errLetIn, err)
					return
				}
			}
		}
	})
	deadline := time.Now().Add(20 * time.Second)
	for n := 0; n < rounds || turnedAway.Load() < int64(away); n++ {
		select {
		case <-knocker:
			return in
		default:
			change()
		}
		if time.Now().After(deadline) {
			t.Errorf("in %d rounds the stranger was turned away %d times: no race", n, turnedAway.Load())
			break
		}
	}
	close(stop)
	<-knocker
	return in
}

// TestSocketsAreNeverOpen: at no moment between its creation and its removal does
// a socket let in who is not meant.
func TestSocketsAreNeverOpen(t *testing.T) {
	dir := openDir(t)
	path := filepath.Join(dir, "s.sock")
	old := unix.Umask(0) // nothing is owed to how the daemon was started
	defer unix.Umask(old)
	for name, share := range map[string]bool{"alone": false, "shared with a group": true} {
		err := race(t, 200, 50, func() {
			l, err := server.Listen(path, 0o600)
			if err == nil && share {
				err = server.Share(path, groupGID)
			}
			if err != nil {
				t.Error(err)
				return
			}
			l.Close()
		}, path)
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	// The test sees what it is to see: made open, and then closed to others.
	err := race(t, 1<<30, 1<<30, func() {
		l, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
		if err != nil {
			t.Error(err)
			return
		}
		os.Chmod(path, 0o600)
		l.Close()
	}, path)
	if !errors.Is(err, errLetIn) {
		t.Errorf("a socket that is closed to others after it was made: %v", err)
	}
}

// TestDaemonsSocketsAreNeverOpen is the same of a daemon that is started over
// and over, also where an earlier one was killed and left its sockets.
func TestDaemonsSocketsAreNeverOpen(t *testing.T) {
	dir := openDir(t)
	control := filepath.Join(dir, "control.sock")
	old := unix.Umask(0)
	defer unix.Umask(old)
	err := race(t, 4, 20, func() {
		stale, err := server.Listen(control, 0o600)
		if err != nil {
			t.Error(err)
			return
		}
		stale.SetUnlinkOnClose(false)
		stale.Close()
		_, stop := serve(t, daemon.Config{Store: filepath.Join(dir, "s"), Socket: control})
		stop()
	}, control, daemon.AgentSocket(control))
	if err != nil {
		t.Error(err)
	}
}

// TestSocketGroup: members of the group come in, as agents; nobody else does.
func TestSocketGroup(t *testing.T) {
	dir := openDir(t)
	sockets := filepath.Join(dir, "run")
	makeGroupDir(t, sockets, 0o710, groupGID)
	control := filepath.Join(sockets, "control.sock")
	d, _ := serve(t, daemon.Config{Store: filepath.Join(dir, "s"), Socket: control, SocketGroup: fmt.Sprint(groupGID)})
	for _, path := range []string{control, daemon.AgentSocket(control)} {
		fi, err := os.Stat(path)
		if err != nil || fi.Mode().Perm() != 0o660 || fi.Sys().(*syscall.Stat_t).Gid != groupGID {
			t.Errorf("%s: %v, %v", path, fi.Mode(), err)
		}
		for gid, want := range map[int]error{groupGID: nil, strangerUID: syscall.EACCES} {
			<-asStranger(t, gid, func() {
				if err := knock(path); !errors.Is(err, want) {
					t.Errorf("group %d at %s: %v, want %v", gid, filepath.Base(path), err, want)
				}
			})
		}
		// The directory keeps others out, whatever the socket's own mode.
		if err := os.Chmod(path, 0o666); err != nil {
			t.Fatal(err)
		}
		<-asStranger(t, strangerUID, func() {
			if err := knock(path); !errors.Is(err, syscall.EACCES) {
				t.Errorf("through the directory: %v", err)
			}
		})
	}
	<-asStranger(t, groupGID, func() {
		if status := ask(t, d.Config().Socket, "/v1/status"); status != 403 {
			t.Errorf("a member asks for what is the owner's: %d", status)
		}
		if status := ask(t, d.Config().Socket, "/v1/runs"); status != 200 {
			t.Errorf("a member lists its own runs: %d", status)
		}
	})
}

// ask makes a request on this very thread, which is another user's.
func ask(t *testing.T, socket, path string) (status int) {
	t.Helper()
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Error(err)
		return 0
	}
	defer unix.Close(fd)
	answer := make([]byte, 64)
	n := 0
	if err = unix.Connect(fd, &unix.SockaddrUnix{Name: socket}); err == nil {
		if _, err = unix.Write(fd, []byte("GET "+path+" HTTP/1.1\r\nHost: d\r\n\r\n")); err == nil {
			n, err = unix.Read(fd, answer)
		}
	}
	if err != nil {
		t.Error(err)
	}
	fmt.Sscanf(string(answer[:n]), "HTTP/1.1 %d", &status)
	return status
}

func makeGroupDir(t *testing.T, dir string, mode fs.FileMode, gid int) {
	t.Helper()
	need.Root(t, "give a directory to a group")
	if err := errors.Join(os.Mkdir(dir, 0o700), os.Chown(dir, -1, gid), os.Chmod(dir, mode)); err != nil {
		t.Fatal(err)
	}
}

// TestSocketGroupNeeds lists what a group of the sockets needs; what is wrong is
// found before anything is made, and the error says what to do.
func TestSocketGroupNeeds(t *testing.T) {
	dir := shortDir(t)
	group := fmt.Sprint(groupGID)
	makeGroupDir(t, filepath.Join(dir, "wide"), 0o750, groupGID)
	makeGroupDir(t, filepath.Join(dir, "others"), 0o710, strangerUID)
	makeGroupDir(t, filepath.Join(dir, "foreign"), 0o710, groupGID)
	if err := os.Chown(filepath.Join(dir, "foreign"), strangerUID, -1); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct{ socket, group, want string }{
		"no socket":      {"", group, "give --socket a path outside"},
		"in the store":   {"s/control.sock", group, "give --socket a path outside"},
		"below it":       {"s/run/control.sock", group, "give --socket a path outside"},
		"no directory":   {"none/control.sock", group, "is missing; make it with: mkdir -m 0700 " + dir + "/none && chgrp " + group},
		"too wide":       {"wide/control.sock", group, "has mode 0750, and not 0710"},
		"another group":  {"others/control.sock", group, "is of group 65534"},
		"another's":      {"foreign/control.sock", group, "belongs to uid 65534"},
		"no such group":  {"wide/control.sock", "no-such-group", "getent group"},
		"no such number": {"wide/control.sock", "-1", "getent group"},
	} {
		config := daemon.Config{Store: filepath.Join(dir, "s"), SocketGroup: c.group}
		if c.socket != "" {
			config.Socket = filepath.Join(dir, c.socket)
		}
		d, err := daemon.Open(t.Context(), config)
		if refused := (*daemon.SocketGroupError)(nil); !errors.As(err, &refused) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, %v", name, d, err)
		}
		if _, err := os.Lstat(config.Store); !errors.Is(err, fs.ErrNotExist) {
			t.Fatalf("%s: the store was made", name)
		}
	}
}

// TestSecondDaemonTakesNothing: who does not get the store's lock leaves the
// sockets of who has it alone, also such as look stale.
func TestSecondDaemonTakesNothing(t *testing.T) {
	dir := shortDir(t)
	config := daemon.Config{Store: filepath.Join(dir, "s")}
	first, err := daemon.Open(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	socket := first.Config().Socket
	before, err := os.Lstat(socket)
	if err != nil {
		t.Fatal(err)
	}
	var held *store.HeldError
	if _, err := daemon.Open(t.Context(), config); !errors.As(err, &held) {
		t.Errorf("a second daemon: %v", err)
	}
	after, err := os.Lstat(socket)
	if err != nil || !os.SameFile(before, after) {
		t.Errorf("the socket was replaced: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := first.Serve(ctx); err != nil {
		t.Error(err)
	}
}
