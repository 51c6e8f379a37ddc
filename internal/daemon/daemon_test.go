package daemon_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"durafs/control"
	"durafs/internal/daemon"
	"durafs/internal/need"
	"durafs/store"
)

// serve opens a daemon, serves it, and ends it with the test. stop ends it
// sooner.
func serve(t *testing.T, c daemon.Config) (d *daemon.Daemon, stop func()) {
	t.Helper()
	d, err := daemon.Open(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- d.Serve(ctx) }()
	stopped := false
	stop = func() {
		if stopped {
			return
		}
		stopped = true
		cancel()
		if err := <-done; err != nil {
			t.Errorf("Serve: %v", err)
		}
	}
	t.Cleanup(stop)
	return d, stop
}

// shortDir is a directory whose sockets' paths are short enough.
func shortDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "dd")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}

// Nothing is shared between daemons of one process.
func TestSeveralInOneProcess(t *testing.T) {
	dir := shortDir(t)
	for i, name := range []string{"a", "b", "c"} {
		d, _ := serve(t, daemon.Config{Store: filepath.Join(dir, name)})
		c := &control.Client{Socket: d.Config().Socket}
		for range i + 1 {
			if _, err := c.Start(t.Context(), control.StartRequest{}); err != nil {
				t.Fatal(err)
			}
		}
		page, err := c.List(t.Context(), control.ListQuery{})
		if err != nil || len(page.Runs) != i+1 {
			t.Errorf("daemon %s: %d runs, %v", name, len(page.Runs), err)
		}
	}
}

func TestStatus(t *testing.T) {
	dir := shortDir(t)
	d, _ := serve(t, daemon.Config{Store: filepath.Join(dir, "s"), Version: "1.2.3"})
	c := &control.Client{Socket: d.Config().Socket}
	if _, err := c.Start(t.Context(), control.StartRequest{}); err != nil {
		t.Fatal(err)
	}
	raw, err := c.Status(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var s daemon.Status
	if err := json.Unmarshal(raw, &s); err != nil {
		t.Fatal(err)
	}
	if !s.Well() || s.PID != os.Getpid() || s.Version != "1.2.3" || s.Runs["running"] != 1 || !s.Recovery.Created {
		t.Errorf("status %s", raw)
	}
	var text strings.Builder
	if err := s.WriteText(&text); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"health    ok\n", "runs      1: 1 running\n", "recovery  a new store\n", "mount     none\n"} {
		if !strings.Contains(text.String(), want) {
			t.Errorf("status has no line %q:\n%s", want, &text)
		}
	}
}

// Stopping leaves no socket, no link and no mount behind, and starting again
// finds what was there.
func TestStopAndStart(t *testing.T) {
	need.FUSE(t)
	dir := shortDir(t)
	config := daemon.Config{Store: filepath.Join(dir, "s"), Mount: filepath.Join(dir, "m"), RuntimeDir: filepath.Join(dir, "run")}
	d, stop := serve(t, config)
	link := filepath.Join(dir, "run", "durafs", "control.sock")
	c := &control.Client{Socket: link}
	started, err := c.Start(t.Context(), control.StartRequest{Labels: map[string]string{"k": "v"}})
	if err != nil {
		t.Fatal(err)
	}
	record := filepath.Join(d.Config().Mount, "runs", started.Record.ID, "record")
	if _, err := readElsewhere(t, record); err != nil {
		t.Error(err)
	}
	c.CloseIdle()
	stop()
	for _, path := range []string{link, d.Config().Socket, daemon.AgentSocket(d.Config().Socket), record} {
		if _, err := os.Lstat(path); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("%s was left behind: %v", path, err)
		}
	}
	d, _ = serve(t, config)
	r, _, err := (&control.Client{Socket: d.Config().Socket}).Get(t.Context(), started.Record.ID)
	if err != nil || r.Phase != control.PhasePausedInterruption {
		t.Errorf("after a restart: %+v, %v", r, err)
	}
}

// The mount can be read before the daemon that makes it has gone on: the file
// status, too. (The race detector judges.)
func TestStatusWhileMounting(t *testing.T) {
	need.FUSE(t)
	dir := shortDir(t)
	status := filepath.Join(dir, "m", "status")
	reader := exec.Command("sh", "-c", `while :; do read line < "$1" && echo "$line"; done 2>/dev/null`, "sh", status)
	out, err := reader.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := reader.Start(); err != nil {
		t.Fatal(err)
	}
	defer reader.Wait()
	defer reader.Process.Kill()
	serve(t, daemon.Config{Store: filepath.Join(dir, "s"), Mount: filepath.Join(dir, "m")})
	if line, err := bufio.NewReader(out).ReadString('\n'); err != nil || !strings.HasPrefix(line, "health") {
		t.Errorf("status: %q, %v", line, err)
	}
}

// A mount that somebody took away is not told of any more.
func TestMountTakenAway(t *testing.T) {
	need.FUSE(t)
	need.Root(t, "unmount")
	dir := shortDir(t)
	d, _ := serve(t, daemon.Config{Store: filepath.Join(dir, "s"), Mount: filepath.Join(dir, "m")})
	if s := d.Status(); s.Mount != d.Config().Mount {
		t.Errorf("mount %q", s.Mount)
	}
	if err := unix.Unmount(d.Config().Mount, unix.MNT_DETACH); err != nil {
		t.Fatal(err)
	}
	for deadline := time.Now().Add(20 * time.Second); d.Status().Mount != ""; time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("the status tells of a mount on %s", d.Status().Mount)
		}
	}
}

// readElsewhere reads a file of the mount on a goroutine of its own: the
// daemon is in this process too.
func readElsewhere(t *testing.T, path string) ([]byte, error) {
	t.Helper()
	type answer struct {
		b   []byte
		err error
	}
	got := make(chan answer, 1)
	go func() {
		b, err := os.ReadFile(path)
		got <- answer{b, err}
	}()
	select {
	case a := <-got:
		return a.b, a.err
	case <-time.After(20 * time.Second):
		t.Fatal("the mount does not answer")
		return nil, nil
	}
}

func TestMetrics(t *testing.T) {
	dir := shortDir(t)
	d, _ := serve(t, daemon.Config{Store: filepath.Join(dir, "s")})
	c := &control.Client{Socket: d.Config().Socket}
	s, err := c.Start(t.Context(), control.StartRequest{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.WithWriter(s.Writer).Append(t.Context(), s.Record.ID, []byte(`{"type":"x"}`), ""); err != nil {
		t.Fatal(err)
	}
	h := http.Client{Transport: &http.Transport{DialContext: func(context.Context, string, string) (net.Conn, error) {
		return net.Dial("unix", d.Config().Socket)
	}}}
	defer h.CloseIdleConnections()
	resp, err := h.Get("http://d/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != http.StatusOK {
		t.Fatalf("%s, %v", resp.Status, err)
	}
	for _, want := range []string{
		"\ndurafs_rows_total 1\n", "\ndurafs_healthy 1\n", "\ndurafs_runs{phase=\"running\"} 1\n",
		"\ndurafs_barrier_seconds_bucket{", "\ndurafs_barrier_batches_sum ", "\ndurafs_requests_total ", "\ndurafs_queue_batches 0\n", "\ndurafs_free_bytes ",
	} {
		if !strings.Contains(string(b), want) {
			t.Errorf("no %q in the metrics", want)
		}
	}
	if t.Failed() {
		t.Logf("%s", b)
	}
}

// When opening fails half-way nothing stays open.
func TestOpenFails(t *testing.T) {
	dir := shortDir(t)
	if err := os.WriteFile(filepath.Join(dir, "in-the-way"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	config := daemon.Config{Store: filepath.Join(dir, "s"), Socket: filepath.Join(dir, "in-the-way")}
	if _, err := daemon.Open(t.Context(), config); err == nil {
		t.Fatal("a file was taken for a socket")
	}
	config.Socket = ""
	_, stop := serve(t, config) // the lock is free
	var held *store.HeldError
	if _, err := daemon.Open(t.Context(), config); !errors.As(err, &held) || held.PID != os.Getpid() {
		t.Errorf("a second daemon: %v", err)
	}
	stop()
}

// A socket that somebody listens on is not taken from him.
func TestSocketOfAnother(t *testing.T) {
	dir := shortDir(t)
	first, stop := serve(t, daemon.Config{Store: filepath.Join(dir, "a")})
	for _, socket := range []string{first.Config().Socket, daemon.AgentSocket(first.Config().Socket)} {
		d, err := daemon.Open(t.Context(), daemon.Config{Store: filepath.Join(dir, "b"), Socket: socket})
		var used *daemon.SocketInUseError
		if !errors.As(err, &used) {
			t.Errorf("%s: %v, %v", socket, d, err)
		}
		c := &control.Client{Socket: first.Config().Socket}
		if _, err := c.Start(t.Context(), control.StartRequest{}); err != nil {
			t.Errorf("the daemon that was there: %v", err)
		}
	}
	stop()
	serve(t, daemon.Config{Store: filepath.Join(dir, "b"), Socket: first.Config().Socket})
}

// A daemon that is the second of its user does not take the first one's link,
// but one that nobody answers behind.
func TestLink(t *testing.T) {
	dir := shortDir(t)
	link := filepath.Join(dir, "durafs", "control.sock")
	first, stop := serve(t, daemon.Config{Store: filepath.Join(dir, "a"), RuntimeDir: dir})
	second, _ := serve(t, daemon.Config{Store: filepath.Join(dir, "b"), RuntimeDir: dir})
	if to, _ := os.Readlink(link); to != first.Config().Socket {
		t.Errorf("the link leads to %s", to)
	}
	stop()
	if _, err := os.Lstat(link); !errors.Is(err, os.ErrNotExist) {
		t.Error("the first daemon left its link")
	}
	if err := os.Symlink(filepath.Join(dir, "gone"), link); err != nil {
		t.Fatal(err)
	}
	third, _ := serve(t, daemon.Config{Store: filepath.Join(dir, "c"), RuntimeDir: dir})
	if to, _ := os.Readlink(link); to != third.Config().Socket {
		t.Errorf("the link leads to %s", to)
	}
	c := &control.Client{Socket: second.Config().Socket}
	if _, err := c.Health(t.Context()); err != nil {
		t.Error(err)
	}
}

func TestAgentSocket(t *testing.T) {
	for control, want := range map[string]string{
		"/s/control.sock":  "/s/agent.sock",
		"/s/agent.sock":    "/s/agent.sock",
		"/s/x.sock":        "/s/x-agent.sock",
		"/s/x-agent.sock":  "/s/x-agent.sock",
		"control.sock":     "agent.sock",
		"/s/no-extension":  "/s/no-extension-agent.sock",
		"/s/control.sock2": "/s/control.sock2-agent.sock",
	} {
		if got := daemon.AgentSocket(control); got != want {
			t.Errorf("AgentSocket(%q) = %q, want %q", control, got, want)
		}
	}
}

func TestOverlap(t *testing.T) {
	dir := shortDir(t)
	for _, name := range []string{"store", "other"} {
		if err := os.Mkdir(filepath.Join(dir, name), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink("store", filepath.Join(dir, "link")); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ store, mount string }{
		{"store", "store"},
		{"store", "store/m"},
		{"store", "store/deep/er"},
		{"m/store", "m"},
		{"store", "link"},
		{"store", "link/m"},
		{"link", "store/m"},
		{"store", "other/../store/m"},
		{"store", "/"},
	} {
		mount := c.mount
		if mount != "/" {
			mount = filepath.Join(dir, mount)
		}
		_, err := daemon.Open(t.Context(), daemon.Config{Store: filepath.Join(dir, c.store), Mount: mount})
		var overlap *daemon.OverlapError
		if !errors.As(err, &overlap) {
			t.Errorf("store %s, mount %s: %v", c.store, c.mount, err)
		}
	}
	if names, _ := os.ReadDir(filepath.Join(dir, "store")); len(names) != 0 {
		t.Errorf("a refused daemon made %v", names)
	}
}
