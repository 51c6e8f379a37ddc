package fusefs_test

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"durafs/fusefs"
	"durafs/internal/need"
	"durafs/view"
	"durafs/view/viewtest"
)

// refusal mounts and wants to be refused with words.
func refusal(t *testing.T, dir, store string, words ...string) {
	t.Helper()
	srv, err := fusefs.Mount(fusefs.Options{Dir: dir, Store: store, View: view.New(viewtest.New(start), nil), Log: quiet()})
	if err == nil {
		srv.Unmount(t.Context())
		t.Errorf("%s was mounted on", dir)
		return
	}
	for _, w := range append(words, "mountpoint") {
		if !strings.Contains(err.Error(), w) {
			t.Errorf("%s: %v; it does not say %q", dir, err, w)
		}
	}
	t.Log(err)
}

func mkdir(t *testing.T, elem ...string) string {
	t.Helper()
	dir := filepath.Join(elem...)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	return dir
}

func TestMountpointsThatAreRefused(t *testing.T) {
	needMount(t)
	base := t.TempDir()
	store := mkdir(t, base, "a", "store")
	inner := mkdir(t, store, "wal")
	link := filepath.Join(base, "link")
	if err := os.Symlink(inner, link); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(base, "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	full := mkdir(t, base, "full")
	mkdir(t, full, "something")

	refusal(t, store, store, "is the store itself")
	refusal(t, inner, store, "lies in the store")
	refusal(t, link, store, "lies in the store")
	refusal(t, filepath.Join(base, "a"), store, "holds the store")
	refusal(t, "/", store, "holds the store")
	refusal(t, store+"/../store/wal", store, "lies in the store")
	refusal(t, filepath.Join(base, "none"), store, "does not exist")
	refusal(t, file, store, "is not a directory")
	refusal(t, full, store, "is not empty", "something")

	bound := mkdir(t, base, "bound")
	if err := unix.Mount(inner, bound, "", unix.MS_BIND, ""); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { unix.Unmount(bound, unix.MNT_DETACH) })
	refusal(t, bound, store, "lies in the store")
	refusal(t, filepath.Join(base, "a"), mkdir(t, bound, "deeper"), "holds the store")
}

func TestLiveMountIsNotTakenAway(t *testing.T) {
	_, v := sample()
	mnt, _ := mount(t, v)
	refusal(t, mnt, t.TempDir(), "is in use", "fuse.durafs", "durafs:")
	if _, err := os.ReadFile(mnt + "/status"); err != nil {
		t.Errorf("after the refusal: %v", err)
	}
}

// TestKilledServer kills a server that has an open reader: its mount is dead,
// not hanging, and the next Mount takes it away, however many there are.
func TestKilledServer(t *testing.T) {
	needMount(t)
	mnt := mkdir(t, t.TempDir(), "mnt")
	t.Cleanup(func() {
		for isMounted(mnt) {
			unix.Unmount(mnt, unix.MNT_DETACH)
		}
	})
	c := startChild(t, mnt)
	f, err := os.Open(runDir(mnt, 1) + "/log")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	c.cmd.Process.Kill()
	c.cmd.Wait()
	var st unix.Statfs_t
	if err := unix.Statfs(mnt, &st); err != syscall.ENOTCONN {
		t.Errorf("statfs of a dead mount: %v", err)
	}
	if _, err := f.Read(make([]byte, 10)); err == nil {
		t.Error("a dead server answers")
	}

	var said strings.Builder
	_, v := sample()
	srv, err := fusefs.Mount(fusefs.Options{Dir: mnt, Store: t.TempDir(), View: v, Log: slog.New(slog.NewTextHandler(&said, nil))})
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(said.String(), "a daemon that is gone") || !strings.Contains(said.String(), mnt) {
		t.Errorf("it was not said that a mount was taken away: %s", said.String())
	}
	if b, err := os.ReadFile(mnt + "/status"); err != nil || string(b) != "serving\n" {
		t.Errorf("the new mount: %q, %v", b, err)
	}
	if err := srv.Unmount(t.Context()); err != nil {
		t.Error(err)
	}
	if isMounted(mnt) {
		t.Error("a mount is left behind")
	}
}

func TestDeadMountOfSomethingElseIsLeft(t *testing.T) {
	needMount(t)
	dir := mkdir(t, t.TempDir(), "mnt")
	fd, err := unix.Open("/dev/fuse", unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	opts := "rootmode=40000,user_id=0,group_id=0,fd=" + strconv.Itoa(fd)
	if err := unix.Mount("other", dir, "fuse.other", 0, opts); err != nil {
		t.Fatal(err)
	}
	unix.Close(fd) // nobody serves it any more
	t.Cleanup(func() { unix.Unmount(dir, unix.MNT_DETACH) })
	refusal(t, dir, t.TempDir(), "fuse.other", "umount -l")
}

func isMounted(dir string) bool {
	b, err := os.ReadFile("/proc/self/mountinfo")
	return err == nil && strings.Contains(string(b), " "+dir+" ")
}

// TestStopWithAReader stops while tail -f runs: the name is free soon, the
// reader is served on, and the end comes when it ends.
func TestStopWithAReader(t *testing.T) {
	s, v := sample()
	mnt, srv := mount(t, v)
	tail := exec.Command("tail", "-f", "-s", "0.1", "-n", "1", runDir(mnt, 1)+"/log")
	out, err := tail.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := tail.Start(); err != nil {
		t.Fatal(err)
	}
	buf := make([]byte, 1000)
	if _, err := out.Read(buf); err != nil { // it has the file open
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if err := srv.Unmount(ctx); !errors.Is(err, fusefs.ErrInUse) {
		t.Errorf("stopped with a reader: %v", err)
	}
	if isMounted(mnt) {
		t.Error("it is still mounted")
	}
	s.Append(1, "to the last reader")
	n, err := out.Read(buf)
	if string(buf[:n]) != "to the last reader\n" {
		t.Errorf("the reader got %q, %v", buf[:n], err)
	}
	select {
	case <-srv.Done():
		t.Error("it ended under its reader")
	default:
	}
	tail.Process.Kill()
	tail.Wait()
	if err := srv.Unmount(t.Context()); err != nil {
		t.Error(err)
	}
	<-srv.Done()
}

func TestUnmountBySomebodyElse(t *testing.T) {
	_, v := sample()
	mnt, srv := mount(t, v)
	if err := unix.Unmount(mnt, 0); err != nil {
		t.Fatal(err)
	}
	select {
	case <-srv.Done():
	case <-time.After(5 * time.Second):
		t.Fatal("the end was not noticed")
	}
	// What is mounted there now is not ours to take away.
	if err := unix.Mount("none", mnt, "tmpfs", 0, ""); err != nil {
		t.Fatal(err)
	}
	defer unix.Unmount(mnt, unix.MNT_DETACH)
	if err := srv.Unmount(t.Context()); err != nil || !isMounted(mnt) {
		t.Errorf("unmount after the end: %v", err)
	}
}

// TestManyMounts mounts and unmounts, with programs being started meanwhile,
// and wants no descriptor, goroutine (see TestMain) or mount left.
func TestManyMounts(t *testing.T) {
	_, v := sample()
	needMount(t)
	mnt := mkdir(t, t.TempDir(), "mnt")
	fds := func() int { d, _ := os.ReadDir("/proc/self/fd"); return len(d) }
	before := fds()
	stop := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() { // a child that inherited the connection would keep it alive
		for {
			select {
			case <-stop:
				return
			default:
				exec.Command("true").Run()
			}
		}
	})
	for range 25 {
		srv, err := fusefs.Mount(fusefs.Options{Dir: mnt, Store: t.TempDir(), View: v, Log: quiet()})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := os.ReadDir(mnt + "/runs"); err != nil {
			t.Fatal(err)
		}
		if err := srv.Unmount(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	close(stop)
	wg.Wait()
	if isMounted(mnt) {
		t.Error("a mount is left")
	}
	if after := fds(); after > before {
		t.Errorf("%d descriptors before, %d after", before, after)
	}
}

// TestStorm looks up, lists, reads and changes in parallel, then ends cleanly.
func TestStorm(t *testing.T) {
	s, v := sample()
	mnt, _ := mount(t, v)
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for i := range 25 {
				os.ReadDir(mnt + "/runs")
				os.Stat(runDir(mnt, 100+i))
				if f, err := os.Open(runDir(mnt, 1+i%2) + "/record"); err == nil {
					if _, err := io.Copy(io.Discard, f); err != nil {
						t.Error(err)
					}
					f.Close()
				}
				os.ReadFile(runDir(mnt, 1) + "/log")
			}
		})
	}
	wg.Go(func() {
		for i := range 150 {
			ref := s.Start(viewtest.ID(100 + i))
			s.Append(ref, "x")
			s.Append(1, "y")
			s.Settle(ref, []byte("z"))
		}
	})
	wg.Wait()
}

// TestOneProcessor runs the tests above that serve and read in one process
// with a single processor, where a lost wakeup would be a deadlock.
func TestOneProcessor(t *testing.T) {
	needMount(t)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, os.Args[0], "-test.run",
		"^(TestMountShows|TestStorm|TestNamesAppear|TestSealing|TestSizes)")
	cmd.Env = append(os.Environ(), "GOMAXPROCS=1")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}

// TestAsOrdinaryUser mounts by fusermount3, twice, the second time over what a
// killed first one left. It does so in a mount namespace where everybody may
// open /dev/fuse, as on most machines.
func TestAsOrdinaryUser(t *testing.T) {
	needMount(t)
	need.Program(t, "fusermount3", "fuse3")
	need.Program(t, "unshare", "util-linux")
	need.Program(t, "setpriv", "util-linux")
	const script = `set -e
mount -t tmpfs -o mode=755,dev none /mnt
mknod /mnt/fuse c 10 229 && chmod 666 /mnt/fuse && mount --bind /mnt/fuse /dev/fuse
mkdir /mnt/mnt /mnt/store && cp "$0" /mnt/server && chown -R 65534:65534 /mnt/mnt /mnt/store
export DURAFS_TEST_SERVE=/mnt/mnt DURAFS_TEST_STORE=/mnt/store
user="setpriv --reuid 65534 --regid 65534 --clear-groups"
mkfifo /mnt/wait
$user /mnt/server < /mnt/wait > /mnt/out &
exec 3> /mnt/wait
until grep -q . /mnt/out; do sleep 0.02; done
kill -9 $!
wait $! || true
DURAFS_TEST_SHOW=status $user /mnt/server 3>&- < /dev/null
grep -c durafs /proc/self/mountinfo || true
`
	cmd := exec.Command("unshare", "--mount", "--propagation", "private", "sh", "-c", script, os.Args[0])
	var said strings.Builder
	cmd.Stderr = &said
	out, err := cmd.Output()
	if want := "ready\nserving\n <nil>\n0\n"; err != nil || string(out) != want {
		t.Errorf("%v\n%s%s\nwant %s", err, out, said.String(), want)
	}
}
