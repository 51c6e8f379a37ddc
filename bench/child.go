package bench

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"time"

	"durafs/control"
	"durafs/store"
)

const (
	childReadyMax = 20 * time.Second
	childStopMax  = 20 * time.Second
	childPoll     = 10 * time.Millisecond
)

// child is a daemon in a process of its own, with a mount.
type child struct {
	client *control.Client
	mount  string
	ended  chan error // gets how the process ended, once
	cmd    *exec.Cmd
	said   bytes.Buffer // what it wrote; complete when it has ended
}

// startChild starts a daemon on a new store in dir, and waits until it
// answers. The error of one that ended instead has what it said.
func (b *bench) startChild(ctx context.Context) (*child, error) {
	if b.serve == nil {
		return nil, errors.New("there is no command that serves one")
	}
	dir := filepath.Join(b.dir, "store")
	c := &child{mount: filepath.Join(b.dir, "mnt"), ended: make(chan error, 1)}
	c.cmd = b.serve(dir, c.mount)
	c.cmd.Stdout, c.cmd.Stderr = &c.said, &c.said
	c.cmd.Env = withoutRuntimeDir(c.cmd.Environ())
	c.cmd.SysProcAttr = &syscall.SysProcAttr{
		Setpgid:   true, // the terminal's keys are for us; we stop it when we are done
		Pdeathsig: syscall.SIGTERM,
	}
	started := make(chan error, 1)
	go func() {
		// The kernel sends Pdeathsig when the thread that started it ends.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := c.cmd.Start()
		started <- err
		if err == nil {
			c.ended <- c.cmd.Wait()
		}
	}()
	if err := <-started; err != nil {
		return nil, err
	}
	c.client = &control.Client{Socket: filepath.Join(dir, store.ControlName)}
	if err := c.ready(ctx); err != nil {
		return nil, errors.Join(err, c.stop())
	}
	return c, nil
}

// withoutRuntimeDir keeps the daemon from taking the place of the user's own,
// which leaves a link there.
func withoutRuntimeDir(env []string) []string {
	var kept []string
	for _, e := range env {
		if !strings.HasPrefix(e, "XDG_RUNTIME_DIR=") {
			kept = append(kept, e)
		}
	}
	return kept
}

// ready waits until the daemon answers.
func (c *child) ready(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, childReadyMax)
	defer cancel()
	for {
		_, err := c.client.Health(ctx)
		if err == nil {
			return nil
		}
		select {
		case ended := <-c.ended:
			c.ended <- ended
			return errors.New("the daemon did not begin")
		case <-ctx.Done():
			return fmt.Errorf("the daemon is not ready: %w", err)
		case <-time.After(childPoll):
		}
	}
}

// stop ends the daemon, and with it its mount.
func (c *child) stop() error {
	c.client.CloseIdle()
	c.cmd.Process.Signal(syscall.SIGTERM) // one that has ended is no matter
	var err error
	select {
	case err = <-c.ended:
	case <-time.After(childStopMax):
		c.cmd.Process.Kill()
		err = errors.Join(errors.New("the daemon did not end in time"), <-c.ended)
	}
	if err != nil {
		err = fmt.Errorf("the daemon: %w: %s", err, lastLine(c.said.String()))
	}
	return err
}

func lastLine(s string) string {
	s = strings.TrimSpace(s)
	return s[strings.LastIndexByte(s, '\n')+1:]
}

// inRun is where the mount shows a file of a run.
func (c *child) inRun(id string, elem ...string) string {
	return filepath.Join(append([]string{c.mount, "runs", id}, elem...)...)
}

// isMount tells the directories that a cache is not dropped in.
func isMount(e os.DirEntry) bool { return e.IsDir() && e.Name() == "mnt" }
