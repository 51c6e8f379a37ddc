package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"github.com/google/uuid"

	"durafs/cmd/durafs/internal/child"
	"durafs/cmd/durafs/internal/output"
	"durafs/cmd/durafs/internal/process"
	"durafs/cmd/durafs/internal/spool"
	"durafs/control"
	"durafs/internal/term"
)

// execution is one command that is being run.
type execution struct {
	app   *app
	o     ExecOptions
	facts facts
	env   []string // of the command, but for where to find its run

	spool    *spool.Spool
	recorder *output.Recorder
	delivery *delivery
}

func runExec(ctx context.Context, a *app, o ExecOptions, argv []string) error {
	if _, err := child.Look(argv[0]); err != nil {
		return &codeError{code: child.StartExitCode(err), err: err}
	}
	e, err := newExecution(a, o, argv)
	if err != nil {
		return &codeError{code: exitExec, err: err}
	}
	return e.run(ctx)
}

// run runs the command, and delivers what comes of it.
func (e *execution) run(ctx context.Context) error {
	if err := e.begin(ctx); err != nil {
		defer e.spool.Close()
		if status, ended, err := e.ended(ctx, err); ended {
			return e.endedBefore(status, err)
		}
		return &codeError{code: exitExec, err: fmt.Errorf("the store refused the run, and the command was not started: %w", err)}
	}
	status, err := e.command()
	e.finish()
	if err != nil {
		return &codeError{code: status, err: err}
	}
	if status != 0 {
		return exitWith(status)
	}
	return nil
}

// endedBefore says that the command is not run again.
func (e *execution) endedBefore(status int, err error) error {
	if err != nil {
		return &codeError{code: exitExec, err: err}
	}
	e.app.note("exec: the command of run %s has ended before, and is not run again", e.o.ID)
	if status != 0 {
		return exitWith(status)
	}
	return nil
}

func newExecution(a *app, o ExecOptions, argv []string) (*execution, error) {
	if o.ID == "" {
		id, err := uuid.NewV7()
		if err != nil {
			return nil, err
		}
		o.ID = id.String()
	}
	e := &execution{app: a, o: o, facts: newFacts(a, o, argv), env: os.Environ()}
	request, err := o.request()
	if err != nil {
		return nil, err
	}
	request.Task = commandText(argv)
	if request.ResumeRequest, err = e.facts.resumeRequest(o.Safety); err != nil {
		return nil, err
	}
	// The run's own id is its key: it is random, and starting it again after
	// an answer was lost must not make two.
	request.IdempotencyKey = "exec-" + o.ID
	if err := printID(o.PrintID, o.ID); err != nil {
		return nil, err
	}
	e.deliverTo(startRun(o.Socket, request), 1)
	return e, nil
}

// deliverTo makes what brings the run to the store. attempt counts how often
// its command was begun.
func (e *execution) deliverTo(open func(context.Context) (*control.Run, error), attempt uint64) {
	e.spool = spool.Open("exec-"+e.o.ID+".ndjson", spoolDirs(e.app)...)
	e.recorder = output.NewRecorder(e.app.clock, e.spool.Append)
	if attempt > 1 {
		e.recorder.Again(attempt)
	}
	e.delivery = newDelivery(open, e.facts.call(), e.o.Safety, e.spool)
	e.delivery.keyField = e.recorder.KeyField()
}

// spoolDirs are the places for the spool, the best first.
func spoolDirs(a *app) []string {
	var dirs []string
	if state := a.getenv("XDG_STATE_HOME"); state != "" {
		dirs = append(dirs, filepath.Join(state, "durafs", "spool"))
	}
	return append(dirs, os.TempDir())
}

// printID writes the run's id to a file, for whoever started us.
func printID(file, id string) error {
	if file == "" {
		return nil
	}
	f, err := os.OpenFile(file, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o666)
	if err != nil {
		return fmt.Errorf("--print-id: %w", err)
	}
	_, err = f.WriteString(id + "\n")
	return errors.Join(err, f.Close())
}

// begin starts the delivery. Where the daemon answers at once, the run is
// durable before its command starts; where it does not, the command does not
// wait. A refusal that no waiting would change is an error: the command line
// asks for something impossible.
func (e *execution) begin(ctx context.Context) error {
	e.delivery.begin(ctx)
	select {
	case <-e.delivery.begun:
	case <-e.app.after(startWait):
	}
	return e.delivery.refused()
}

// command runs the command to its end and returns the code to exit with.
func (e *execution) command() (int, error) {
	c, err := child.Start(e.facts.Argv, e.environment())
	e.mark(c)
	if err != nil {
		e.facts.ended(e.app.clock.Now(), child.Exit{Code: child.StartExitCode(err)})
		e.facts.Error = err.Error()
		return e.facts.exit.Status(), err
	}
	e.delivery.interrupts = c.Signals()
	stop, killed := make(chan struct{}), make(chan bool, 1)
	go func() { killed <- e.obeyCancel(c, stop) }()
	var copying sync.WaitGroup
	var failed [2]error
	copying.Go(func() { failed[0] = e.copy(os.Stdout, c.Stdout, "stdout") })
	copying.Go(func() { failed[1] = e.copy(os.Stderr, c.Stderr, "stderr") })
	exit, err := c.Wait()
	close(stop)
	e.facts.killed = <-killed
	c.StopReading(heldWait)
	copying.Wait()
	if err != nil {
		return exitExec, err
	}
	e.facts.ended(e.app.clock.Now(), exit)
	for i, name := range []string{"standard output", "standard error"} {
		if err := failed[i]; err != nil && !errors.Is(err, child.ErrHeld) {
			e.app.note("exec: %s: %v", name, err)
		}
	}
	if err := errors.Join(failed[0], failed[1]); errors.Is(err, child.ErrHeld) {
		e.app.note("exec: %v; what it prints from now on is lost", child.ErrHeld)
	}
	return exit.Status(), nil
}

// copy passes one stream on and makes rows of it.
func (e *execution) copy(dst io.Writer, src *os.File, name string) error {
	s := e.recorder.Stream(name)
	defer s.Close()
	return child.Copy(dst, src, s)
}

// mark notes where the command runs, c, which is nil if it could not be started.
func (e *execution) mark(c *child.Child) {
	defer close(e.delivery.mark)
	if c == nil {
		return
	}
	if m, err := process.Note(0, c.PID()); err == nil { // it may have ended already
		e.delivery.mark <- m
	}
}

// environment is what the command gets: ours, and where to find its run. Tokens
// that we may have ourselves are not the command's.
func (e *execution) environment() []string {
	return append(withoutTokens(e.env), control.EnvRunID+"="+e.o.ID, control.EnvSocket+"="+agentSocket(e.o.Socket))
}

// obeyCancel ends the command when the owner cancels the run, and reports
// whether it had to be killed.
func (e *execution) obeyCancel(c *child.Child, stop <-chan struct{}) (killed bool) {
	select {
	case <-stop:
		return false
	case <-e.delivery.aborted:
	}
	c.Signal(syscall.SIGTERM)
	select {
	case <-stop:
		return false
	case <-e.app.after(killWait):
		c.Signal(syscall.SIGKILL)
		return true
	}
}

// finish delivers what is left and says what could not be.
func (e *execution) finish() {
	e.recorder.Close()
	e.spool.End()
	e.facts.Totals = e.recorder.Totals()
	err := e.delivery.finish(e.facts.ending(), e.o.Drain)
	rows := e.spool.Rows()
	path, closeErr := e.spool.Close()
	if closeErr != nil {
		e.app.note("exec: the spool: %v", closeErr)
	}
	switch {
	case err != nil:
		e.app.note("exec: run %s: %s", e.o.ID, undeliveredText(err, rows, path))
	case e.delivery.cancelled:
		e.app.note("exec: run %s was cancelled by its owner", e.o.ID)
	}
	if lost := e.facts.Totals.Lost; lost > 0 {
		e.app.note("exec: run %s: %s found no room in the spool and will be missing", e.o.ID, term.Count(lost, "row"))
	}
	if e.o.JSON {
		e.facts.print(e.app.stderr, e.o.ID, err == nil)
	}
}

func undeliveredText(err error, rows uint64, path string) string {
	text := fmt.Sprintf("the store has not been told how it ended: %s", oneLine(err))
	if isFull(err) {
		text = fmt.Sprintf("not all that it printed had room: %s", oneLine(err))
	}
	switch {
	case rows == 0:
	case path == "":
		text += fmt.Sprintf("; %s could not be delivered", term.Count(rows, "row"))
	default:
		text += fmt.Sprintf("; %s could not be delivered; see %s", term.Count(rows, "row"), path)
	}
	return text
}

// after is time.After, named for what it is used for here: bounded waits of a
// process that ends soon.
func (a *app) after(d time.Duration) <-chan time.Time { return time.After(d) }
