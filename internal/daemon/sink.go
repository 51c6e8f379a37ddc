package daemon

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"syscall"
	"time"

	"durafs/runs"
)

// sinkGrace is how long a command that was asked to end may go on.
const sinkGrace = 2 * time.Second

// runSink runs a sink's command and says why it failed, "" if it did not. It is
// a group of processes of its own. When its time is over, or ctx, the group gets
// SIGTERM, and SIGKILL when the command has ended or sinkGrace later. What a
// command that exits 0 leaves behind is not waited for, and goes on.
func (d *Daemon) runSink(ctx context.Context, next *runs.Delivery) (failure string) {
	at := slices.IndexFunc(d.config.Sinks, func(s Sink) bool { return s.Name == next.Sink })
	if at < 0 {
		return "it is not configured"
	}
	timeout := d.config.SinkTimeout
	if timeout <= 0 {
		timeout = SinkTimeoutDefault
	}
	limited, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	cmd := exec.CommandContext(limited, "/bin/sh", "-c", d.config.Sinks[at].Command)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error {
		if syscall.Kill(-cmd.Process.Pid, syscall.SIGTERM) != nil {
			return os.ErrProcessDone
		}
		return nil
	}
	cmd.WaitDelay = sinkGrace
	cmd.Env = append(os.Environ(),
		"DURAFS_SOCKET="+d.config.Socket, "DURAFS_RUN_ID="+next.Run, "DURAFS_DELIVERY="+next.ID,
		"DURAFS_SINK="+next.Sink, fmt.Sprint("DURAFS_ATTEMPT=", next.Attempt))
	cmd.Stdin = bytes.NewReader(next.Packet)
	said := &tail{}
	cmd.Stderr = said
	err := cmd.Run()
	if errors.Is(err, exec.ErrWaitDelay) { // it exited 0; something it left holds its pipes
		err = nil
	}
	if err == nil {
		return ""
	}
	if limited.Err() != nil && cmd.Process != nil {
		syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) // what of the group did not listen
	}
	failure = err.Error()
	if errors.Is(limited.Err(), context.DeadlineExceeded) {
		failure = fmt.Sprintf("it took longer than %v", timeout)
	}
	if text := bytes.TrimSpace(said.last); len(text) > 0 {
		failure += ": " + string(text)
	}
	return failure
}

// tail keeps the end of what is written to it.
type tail struct{ last []byte }

// tailBytes is how much of a command's standard error is kept.
const tailBytes = 256

// Write implements io.Writer.
func (t *tail) Write(p []byte) (int, error) {
	t.last = append(t.last, p[max(0, len(p)-tailBytes):]...)
	if over := len(t.last) - tailBytes; over > 0 {
		t.last = append(t.last[:0], t.last[over:]...)
	}
	return len(p), nil
}
