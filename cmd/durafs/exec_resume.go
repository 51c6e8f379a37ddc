package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"durafs/cmd/durafs/internal/child"
	"durafs/control"
)

// execResumeRequestBytesMax bounds what is read of a resume request: an argv
// has at most 2 MiB.
const execResumeRequestBytesMax = 16 << 20

// errNotExec says that a run was not made by exec.
var errNotExec = errors.New("the run is not one that durafs exec has made")

// readExecRequest reads what exec has left for whoever resumes its run.
func readExecRequest(ctx context.Context, c *control.Client, id, token string) (r execRequest, err error) {
	body, err := c.ResumeRequest(ctx, id, token)
	if err != nil {
		if control.Code(err) == "unknown-payload" {
			err = errNotExec
		}
		return r, err
	}
	defer body.Close()
	b, err := io.ReadAll(io.LimitReader(body, execResumeRequestBytesMax))
	if err != nil {
		return r, err
	}
	if json.Unmarshal(b, &r) != nil || r.Type != execRequestType || len(r.Argv) == 0 {
		return r, errNotExec
	}
	return r, nil
}

// runExecResume takes a run of exec over and runs its command again, unless that
// has ended already and only its run has not.
func runExecResume(ctx context.Context, a *app, o ExecOptions) error {
	var err error
	if o.Socket, err = o.path(); err != nil {
		return err
	}
	c, err := o.client()
	if err != nil {
		return err
	}
	token := a.getenv(control.EnvResume)
	if token == "" {
		if token, err = o.prepare(ctx, c); err != nil {
			return err
		}
	}
	e, err := a.takeOver(ctx, c, o, token)
	if err != nil {
		a.giveUp(c, o.Resume, token, err)
		return &codeError{code: exitExec, err: err}
	}
	return e.run(ctx)
}

// prepare prepares the run as its owner.
func (o *ExecOptions) prepare(ctx context.Context, c *control.Client) (token string, err error) {
	if _, err := readExecRequest(ctx, c, o.Resume, ""); err != nil {
		return "", err
	}
	_, tag, err := c.Get(ctx, o.Resume)
	if err != nil {
		return "", err
	}
	p, err := c.Prepare(ctx, o.Resume, o.prepareRequest(tag))
	return p.Resume, err
}

// takeOver makes us the agent of a run, where its command can be run.
func (a *app) takeOver(ctx context.Context, c *control.Client, o ExecOptions, token string) (*execution, error) {
	r, err := readExecRequest(ctx, c, o.Resume, token)
	if err != nil {
		return nil, err
	}
	if err := os.Chdir(r.Dir); err != nil {
		return nil, err
	}
	if _, err := child.Look(r.Argv[0]); err != nil {
		return nil, err
	}
	o.ID, o.Safety = o.Resume, r.Safety
	e := &execution{app: a, o: o, facts: newFacts(a, o, r.Argv), env: withKept(os.Environ(), r.Env)}
	e.facts.Env = r.Env
	if err := printID(o.PrintID, o.ID); err != nil {
		return nil, err
	}
	c.Patience = patience
	run, got, err := c.Resumed(ctx, o.Resume, token, nil)
	if err != nil {
		return nil, err
	}
	attempt := uint64(1)
	for _, open := range got.OpenCalls {
		if open.CallID == commandCallID {
			attempt = open.Attempt + 1
		}
	}
	e.deliverTo(func(context.Context) (*control.Run, error) { return run, nil }, attempt)
	return e, nil
}

// withKept is our environment with the values that were recorded with the run.
func withKept(env []string, kept map[string]string) []string {
	env = slices.DeleteFunc(env, func(v string) bool {
		name, _, _ := strings.Cut(v, "=")
		_, ok := kept[name]
		return ok
	})
	for name, value := range kept {
		env = append(env, name+"="+value)
	}
	return env
}

// ended reports whether the command of a run that was taken over has ended
// before, by what its claim was refused with, and then ends the run as that
// says.
func (e *execution) ended(ctx context.Context, err error) (status int, ended bool, settleErr error) {
	p, ok := errors.AsType[*control.Problem](err)
	if !ok || p.Code != control.CodeCallExists || p.State != control.CallSettled || p.Committed == nil {
		return 0, false, nil
	}
	var o commandOutcome
	if err := json.Unmarshal(p.Committed.Outcome, &o); err != nil {
		return exitExec, true, fmt.Errorf("the outcome of the command is not one of exec: %w", err)
	}
	r := control.SettleRequest{Status: control.Success, Summary: o.Summary}
	if o.Status != "ok" {
		r.Status, status = control.Failure, 1
	}
	if o.ExitCode != nil {
		status = *o.ExitCode
	}
	_, err = e.delivery.run.Settle(ctx, r)
	return status, true, err
}
