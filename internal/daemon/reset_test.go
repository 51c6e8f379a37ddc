package daemon_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"durafs/control"
	"durafs/internal/daemon"
	"durafs/internal/need"
	"durafs/store"
)

// wantProblem checks the code that an error has.
func wantProblem(t *testing.T, err error, code string) {
	t.Helper()
	p := (*control.Problem)(nil)
	if !errors.As(err, &p) || p.Code != code {
		t.Errorf("%v, want %s", err, code)
	}
}

// TestReset empties the store of a daemon that serves and mounts it: who may,
// what is refused, what is there then, and what watchers are told. The daemon,
// its sockets and its lock are the same all the while.
func TestReset(t *testing.T) {
	need.FUSE(t)
	dir := shortDir(t)
	config := daemon.Config{Store: filepath.Join(dir, "s"), Mount: filepath.Join(dir, "m")}
	d, stop := serve(t, config)
	socket := d.Config().Socket
	c := &control.Client{Socket: socket}
	defer c.CloseIdle()
	former := d.Store().ID()
	before, err := os.Lstat(socket)
	if err != nil {
		t.Fatal(err)
	}
	over := startRun(t, c)
	if _, err := c.WithWriter(over.Writer).Settle(t.Context(), over.Record.ID, control.SettleRequest{Status: control.Success}); err != nil {
		t.Fatal(err)
	}
	active := startRun(t, c)
	watcher, err := c.Watch(t.Context(), control.WatchQuery{})
	if err != nil {
		t.Fatal(err)
	}
	defer watcher.Close()
	if ev, err := watcher.Next(); err != nil || ev.Kind != control.EventSnapshot {
		t.Fatalf("%+v, %v", ev, err)
	}
	paths := []string{"runs/" + over.Record.ID + "/record", "runs/" + active.Record.ID + "/log"}
	for _, p := range paths {
		if _, err := readElsewhere(t, filepath.Join(config.Mount, p)); err != nil {
			t.Fatal(err)
		}
	}
	_, err = c.Reset(t.Context(), control.ResetRequest{Store: "another"})
	wantProblem(t, err, "revision-mismatch")
	_, err = c.Reset(t.Context(), control.ResetRequest{Store: former})
	wantProblem(t, err, "runs-active")
	_, err = (&control.Client{Socket: daemon.AgentSocket(socket)}).Reset(t.Context(), control.ResetRequest{Store: former, Force: true})
	wantProblem(t, err, control.CodeNotOwner)
	if _, _, err := c.Get(t.Context(), active.Record.ID); err != nil {
		t.Errorf("a reset was refused, and a run is gone: %v", err)
	}

	done, err := c.Reset(t.Context(), control.ResetRequest{Store: former, Force: true})
	if err != nil || done.Former != former || done.Store == former || done.Runs != 2 || done.Active != 1 || done.Store != d.Store().ID() {
		t.Fatalf("%+v, %v", done, err)
	}
	_, err = c.Reset(t.Context(), control.ResetRequest{Store: former, Force: true})
	wantProblem(t, err, "revision-mismatch") // the request again does not empty the next one
	if s := d.Status(); s.StoreID != done.Store || s.BootID != done.BootID || len(s.Runs) != 0 || !s.Well() || s.Mount != d.Config().Mount {
		t.Errorf("status %+v", s)
	}
	if after, err := os.Lstat(socket); err != nil || !os.SameFile(before, after) {
		t.Errorf("the socket is another: %v", err)
	}
	var held *store.HeldError
	if _, err := store.Open(t.Context(), config.Store, store.Options{}); !errors.As(err, &held) {
		t.Errorf("the store's lock: %v", err)
	}
	for _, p := range paths {
		if _, err := readElsewhere(t, filepath.Join(config.Mount, p)); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("%s in the mount: %v", p, err)
		}
	}
	_, err = c.WithWriter(active.Writer).Append(t.Context(), active.Record.ID, []byte(`{"a":1}`), "")
	wantProblem(t, err, "unknown-run")
	fresh := startRun(t, c)
	if b, err := readElsewhere(t, filepath.Join(config.Mount, "runs", fresh.Record.ID, "log")); err != nil || len(b) == 0 {
		t.Errorf("a new run in the mount: %q, %v", b, err)
	}
	kinds := ""
	for range 2 {
		ev, err := watcher.Next()
		if err != nil {
			t.Fatal(err)
		}
		kinds += ev.Kind + " "
	}
	if kinds != control.EventResync+" "+control.EventSnapshot+" " {
		t.Errorf("a watcher is told %s", kinds)
	}
	watcher.Close()
	c.CloseIdle()
	stop()
	if _, err := os.Lstat(socket); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the socket was left behind: %v", err)
	}
	d, _ = serve(t, config)
	if d.Store().ID() != done.Store || d.Status().Runs["paused-interruption"] != 1 {
		t.Errorf("after a restart: %+v", d.Status())
	}
	if _, err := store.Verify(t.Context(), config.Store, store.VerifyOptions{Deep: true}, func(f store.Finding) { t.Error(f) }); err != nil {
		t.Error(err)
	}
}

// TestResetWithReader: who has a file open through a reset is told that it is
// not there any more, and reads the next store's under the same path.
func TestResetWithReader(t *testing.T) {
	need.FUSE(t)
	dir := shortDir(t)
	config := daemon.Config{Store: filepath.Join(dir, "s"), Mount: filepath.Join(dir, "m")}
	d, stop := serve(t, config)
	defer stop()
	c := &control.Client{Socket: d.Config().Socket}
	defer c.CloseIdle()
	run := startRun(t, c)
	log := filepath.Join(config.Mount, "runs", run.Record.ID, "log")
	reader := exec.Command("sh", "-c", `exec 3<"$1"; echo open; read -r go; cat <&3; echo "rc=$?"; cat "$2"`, "sh", log, filepath.Join(config.Mount, "status"))
	reader.Env = append(os.Environ(), "LC_ALL=C")
	in, err := reader.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := reader.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	var errs strings.Builder
	reader.Stderr = &errs
	if err := reader.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewReader(out)
	if line, err := lines.ReadString('\n'); line != "open\n" {
		t.Fatalf("%q, %v: %s", line, err, errs.String())
	}
	done, err := c.Reset(t.Context(), control.ResetRequest{Store: d.Store().ID(), Force: true})
	if err != nil {
		t.Fatal(err)
	}
	in.Close() // what it waits for
	rest, err := io.ReadAll(lines)
	if werr := reader.Wait(); err != nil || werr != nil {
		t.Errorf("%v, %v: %s", err, werr, errs.String())
	}
	if !strings.HasPrefix(string(rest), "rc=1\n") || !strings.Contains(errs.String(), "Stale file handle") {
		t.Errorf("it read %q, and was told %q", rest, errs.String())
	}
	if !strings.Contains(string(rest), done.Store) {
		t.Errorf("status is not of the store %s: %q", done.Store, rest)
	}
}

func waitUntil(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(30 * time.Second); !ok(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("waited in vain for %s", what)
		}
	}
}

func startRun(t *testing.T, c *control.Client) control.Started {
	t.Helper()
	st, err := c.Start(t.Context(), control.StartRequest{})
	if err != nil {
		t.Fatal(err)
	}
	return st
}

// TestResetUnderLoad: agents start runs and write rows without a pause while the
// store is emptied again and again. What was acknowledged after a reset is
// there, of what was before it nothing is, and nobody meets anything but that
// his run is gone, or that an answer did not come.
func TestResetUnderLoad(t *testing.T) {
	dir := shortDir(t)
	d, _ := serve(t, daemon.Config{Store: filepath.Join(dir, "s")})
	c := &control.Client{Socket: d.Config().Socket}
	defer c.CloseIdle()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var resets atomic.Int64
	var mu sync.Mutex
	acked := map[string]int64{} // runs whose rows were acknowledged, and after which reset they were begun
	var agents sync.WaitGroup
	for range 4 {
		agents.Go(func() {
			for ctx.Err() == nil {
				since := resets.Load()
				st, err := c.Start(ctx, control.StartRequest{})
				if err == nil {
					_, err = c.WithWriter(st.Writer).Append(ctx, st.Record.ID, []byte(`{"a":1}`), "")
				}
				p := (*control.Problem)(nil)
				switch {
				case err == nil:
					mu.Lock()
					acked[st.Record.ID] = since
					mu.Unlock()
				case ctx.Err() != nil:
				case errors.Is(err, control.ErrOutcomeUnknown): // his idle connection was closed as he asked
				case errors.As(err, &p) && (p.Code == "unknown-run" || p.Code == control.CodeShuttingDown):
				default:
					t.Errorf("an agent meets %v", err)
				}
			}
		})
	}
	rounds := 5
	if testing.Short() {
		rounds = 2
	}
	count := func() int { mu.Lock(); defer mu.Unlock(); return len(acked) }
	for range rounds {
		waitUntil(t, "runs", func() bool { return count() >= 20 })
		if _, err := c.Reset(t.Context(), control.ResetRequest{Store: d.Store().ID(), Force: true}); err != nil {
			t.Fatal(err)
		}
		resets.Add(1)
		mu.Lock()
		clear(acked)
		mu.Unlock()
	}
	waitUntil(t, "runs", func() bool { return count() >= 20 })
	cancel()
	agents.Wait()
	there := map[string]bool{}
	for page := (control.ListQuery{Limit: 1000}); ; {
		p, err := c.List(t.Context(), page)
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range p.Runs {
			there[r.ID] = true
		}
		if page.After = p.Next; p.Next == "" {
			break
		}
	}
	for id, since := range acked {
		if since == resets.Load() && !there[id] {
			t.Errorf("run %s was acknowledged after the last reset, and is not there", id)
		}
	}
	if s := d.Status(); !s.Well() {
		t.Error(s.Health)
	}
	if _, err := store.Verify(t.Context(), d.Config().Store, store.VerifyOptions{Deep: true}, func(f store.Finding) { t.Error(fmt.Sprint(f)) }); err != nil {
		t.Error(err)
	}
}
