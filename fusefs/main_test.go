package fusefs_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"durafs/fusefs"
	"durafs/internal/need"
	"durafs/runs"
	"durafs/view"
	"durafs/view/viewtest"
)

// serveEnv makes the test binary a daemon that mounts on a directory, says so,
// and serves until its input ends.
const (
	serveEnv = "DURAFS_TEST_SERVE"
	storeEnv = "DURAFS_TEST_STORE"
	showEnv  = "DURAFS_TEST_SHOW" // a file of the mount to be written out
)

func TestMain(m *testing.M) {
	if dir := os.Getenv(serveEnv); dir != "" {
		serveAsChild(dir)
		return
	}
	goleak.VerifyTestMain(m)
}

func serveAsChild(dir string) {
	_, v := sample()
	srv, err := fusefs.Mount(fusefs.Options{Dir: dir, Store: os.Getenv(storeEnv), View: v, Log: quiet()})
	if err == nil {
		fmt.Println("ready")
		if show := os.Getenv(showEnv); show != "" {
			out, err := exec.Command("cat", filepath.Join(dir, show)).CombinedOutput()
			fmt.Printf("%s %v\n", out, err)
		}
		io.Copy(io.Discard, os.Stdin)
		err = srv.Unmount(context.Background())
	}
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
}

var start = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// sample is a store with a run that lives, one that ended, and payloads.
func sample() (*viewtest.Store, *view.View) {
	s := viewtest.New(start)
	live := s.Start(viewtest.ID(1))
	ended := s.Start(viewtest.ID(2))
	for i := range 100 {
		s.Append(live, fmt.Sprintf(`{"seq":%d,"type":"note","text":"needle %d"}`, i+1, i))
		s.Append(ended, fmt.Sprintf(`{"seq":%d,"type":"note"}`, i+1))
	}
	s.Put(live, "plan.txt", runs.SourceNamed, []byte("first this, then that\n"))
	s.Put(live, "empty", runs.SourceNamed, nil)
	s.Put(ended, "big", runs.SourceNamed, pattern(3<<20+17))
	s.Late(ended, `{"late":true}`)
	s.Settle(ended, pattern(100_000))
	talked := s.StartIn(viewtest.ID(3), "trip / odd%")
	for i := range 300 {
		s.Call(talked, "bash", fmt.Sprintf(`{"command":"ls %d"}`, i), fmt.Appendf(nil, `{"text":%q}`, strings.Repeat("shown ", i)))
		s.Post("trip / odd%", fmt.Sprintf("turn %d\nof many", i))
	}
	s.Enrol("master")
	s.Note("master", `{"type":"start"}`)
	return s, view.New(s, func() []byte { return []byte("serving\n") })
}

// pattern is n bytes that are different wherever one looks, and never zero.
func pattern(n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(1 + (i*7+i>>8*13+i>>16)%255)
	}
	return b
}

func quiet() *slog.Logger { return slog.New(slog.DiscardHandler) }

// needMount needs to mount, by root: as others the machine may have no helper.
func needMount(t testing.TB) {
	t.Helper()
	need.Root(t, "mount")
	need.FUSE(t)
}

// mount mounts v for the test.
func mount(t testing.TB, v *view.View, edit ...func(*fusefs.Options)) (string, *fusefs.Server) {
	t.Helper()
	needMount(t)
	o := fusefs.Options{Dir: filepath.Join(t.TempDir(), "mnt"), Store: t.TempDir(), View: v, Log: quiet()}
	for _, e := range edit {
		e(&o)
	}
	if err := os.MkdirAll(o.Dir, 0o700); err != nil {
		t.Fatal(err)
	}
	srv, err := fusefs.Mount(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		if err := srv.Unmount(ctx); err != nil {
			t.Error(err)
		}
	})
	return o.Dir, srv
}

// child is a server in a process of its own.
type child struct {
	cmd   *exec.Cmd
	stdin io.Closer
}

func startChild(t *testing.T, dir string) *child {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), serveEnv+"="+dir, storeEnv+"="+t.TempDir())
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { stdin.Close(); cmd.Process.Kill(); cmd.Wait() })
	line, _ := bufio.NewReader(out).ReadString('\n')
	if strings.TrimSpace(line) != "ready" {
		t.Fatalf("the child did not mount: %s", line)
	}
	return &child{cmd, stdin}
}

// packageOf tells which Debian package has a program; coreutils if nothing is
// said.
var packageOf = map[string]string{
	"jq": "jq", "tar": "tar", "grep": "grep", "find": "findutils", "diff": "diffutils", "getconf": "libc-bin", "sh": "dash",
}

// run runs a program and returns what it wrote.
func run(t testing.TB, name string, args ...string) string {
	t.Helper()
	need.Program(t, name, packageOf[name])
	out, err := exec.Command(name, args...).CombinedOutput()
	if err != nil {
		t.Fatalf("%s %v: %v\n%s", name, args, err, out)
	}
	return string(out)
}

// eventually waits for a condition.
func eventually(t testing.TB, within time.Duration, what string, ok func() bool) {
	t.Helper()
	timeout := time.After(within)
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for !ok() {
		select {
		case <-timeout:
			t.Fatalf("after %v: %s", within, what)
		case <-tick.C:
		}
	}
}

func runDir(mnt string, n int) string { return filepath.Join(mnt, "runs", viewtest.ID(n)) }
