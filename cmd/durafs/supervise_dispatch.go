package main

import (
	"context"
	"encoding/json"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"

	"durafs/cmd/durafs/internal/process"
	"durafs/control"
)

// consider dispatches a run, if it is time. done says that there is nothing to
// wait for.
func (s *supervisor) consider(ctx context.Context, f control.Offer) (done bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, dispatchTimeout)
	defer cancel()
	rec, tag, err := s.client.Get(ctx, f.ID)
	if err != nil {
		return true, err
	}
	if runs := commandRuns(rec); runs >= commandRunsMax {
		s.requests[f.ID] = nil
		s.log.Warn("supervise: the command was begun often enough, and its owner decides: durafs exec --resume", "run", f.ID, "times", runs)
		return true, nil
	}
	state := s.state(ctx, rec)
	if state == process.Alive || state == process.Unknown && !f.Ready {
		return false, nil
	}
	p, err := s.client.Prepare(ctx, f.ID, control.PrepareRequest{IfMatch: tag, Dead: state == process.Dead})
	switch control.Code(err) {
	case control.CodeAttachWindow, control.CodeWrongPhase, "revision-mismatch":
		return false, nil // something has changed
	}
	if err != nil {
		return false, err
	}
	return true, s.dispatch(ctx, p)
}

// commandRuns is how often the command of a run was begun.
func commandRuns(rec *control.Record) uint64 {
	for _, open := range rec.OpenCalls {
		if open.CallID == commandCallID {
			return open.Attempt
		}
	}
	return 0
}

// state tells what is known of the processes that had the run last.
func (s *supervisor) state(ctx context.Context, rec *control.Record) process.State {
	r, err := s.client.Payload(ctx, rec.ID, markName(rec.Epoch), 0, -1)
	if err != nil {
		return process.Unknown
	}
	defer r.Close()
	const markBytesMax = 4 << 10
	b, err := io.ReadAll(io.LimitReader(r, markBytesMax))
	var m process.Mark
	if err != nil || json.Unmarshal(b, &m) != nil {
		return process.Unknown
	}
	return m.State()
}

// dispatch starts an exec that takes the run over.
func (s *supervisor) dispatch(ctx context.Context, p control.Prepared) error {
	id := p.Record.ID
	cmd, err := s.start(id, p.Resume)
	if err != nil {
		_, failErr := s.client.FailDispatch(ctx, id, p.Resume, boundedText(err.Error()))
		if failErr != nil {
			s.log.Warn("supervise: a dispatch was not given up", "run", id, "err", failErr)
		}
		return err
	}
	s.running[id] = true
	s.log.Info("supervise: the command runs again", "run", id, "attempt", p.Record.Resume.Attempt, "pid", cmd.Process.Pid)
	go func() { // it may outlive us
		err := cmd.Wait()
		s.log.Info("supervise: the command has ended", "run", id, "err", err)
		s.ended <- id
	}()
	return nil
}

// start starts durafs exec in a session of its own: what ends the supervisor is
// not to end the command.
func (s *supervisor) start(id, token string) (*exec.Cmd, error) {
	program, err := os.Executable()
	if err != nil {
		return nil, err
	}
	cmd := exec.Command(program, "exec", "--resume", id)
	cmd.Env = append(withoutTokens(os.Environ()), control.EnvSocket+"="+s.socket, control.EnvResume+"="+token)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	return cmd, cmd.Start()
}

// withoutTokens is an environment without what names a run or its secrets.
func withoutTokens(env []string) []string {
	return slices.DeleteFunc(slices.Clone(env), func(v string) bool {
		name, _, _ := strings.Cut(v, "=")
		return name == control.EnvWriter || name == control.EnvRunID || name == control.EnvSocket || name == control.EnvResume
	})
}
