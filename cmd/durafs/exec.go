package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/google/uuid"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"durafs/cmd/durafs/internal/child"
	"durafs/cmd/durafs/internal/output"
	"durafs/cmd/durafs/internal/spool"
	"durafs/control"
	"durafs/internal/term"
)

const (
	// leaseDefault is how long an exec run may be silent.
	leaseDefault = 45 * time.Second
	// drainDefault is how long to go on delivering when the command has ended.
	drainDefault = 10 * time.Second
	// heldWait is how long a command's output is read after its end, when
	// something that it left behind still holds it.
	heldWait = 2 * time.Second
	// killWait is how long a command has to end by itself after its run was
	// cancelled.
	killWait = 5 * time.Second
)

// ExecOptions says how a command becomes a run.
type ExecOptions struct {
	SocketOption
	StartOptions
	PrintID string
	Safety  string
	KeepEnv []string
	Drain   time.Duration
	JSON    bool
}

// AddFlags adds the flags of exec.
func (o *ExecOptions) AddFlags(f *pflag.FlagSet) {
	o.SocketOption.AddFlags(f)
	o.StartOptions.AddFlags(f, leaseDefault)
	f.StringVar(&o.PrintID, "print-id", "", "write the run's id to this file before the command starts")
	f.StringVar(&o.Safety, "safety", "unknown", "what running the command twice would do: read-only, idempotent, mutating or unknown")
	f.StringArrayVar(&o.KeepEnv, "keep-env", nil, "record this environment variable with the run (may be repeated; by default none is)")
	f.DurationVar(&o.Drain, "drain", drainDefault, "how long to go on delivering to the store when the command has ended")
	addJSONFlag(f, &o.JSON, "when the command has ended, print the run's id and how it ended on standard error, one JSON object")
}

func newExecCommand(a *app) *cobra.Command {
	var o ExecOptions
	cmd := &cobra.Command{
		Use:   "exec [flags] -- COMMAND [ARGUMENT...]",
		Short: "Run a command as a run: its output becomes rows, its exit the answer",
		Long: `Run a command as a run. Its standard output and error are passed through
unchanged, and each line becomes a row of the run's log as it comes; its exit
becomes the run's final answer. Its exit code is ours: 128+n when signal n
ended it.

The command never suffers from the store. It runs when no daemon is there, and
goes on when the daemon is killed: rows wait in a file (64 MiB at most, in
$XDG_STATE_HOME or $TMPDIR) and are delivered in order, each once, when the
daemon is back. What could not be delivered is said at the end.

The command finds the run's id in $DURAFS_RUN_ID and the agents' socket in
$DURAFS_SOCKET. It stays in our process group, so a terminal's keys and job
control reach it directly; signals sent to us are passed on. Its output goes
through pipes, so that programs which ask whether they write to a terminal will
find that they do not.

Recorded are the arguments and the working directory, and of the environment
only what --keep-env names: do not put secrets into arguments.`,
		GroupID: groupWrite,
		Example: `  durafs exec -- make test
  durafs exec --thread nightly --label host=$(hostname) --safety idempotent -- ./backup.sh`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if !slices.Contains(safeties, o.Safety) {
				return badUsage(cmd, "--safety %q is none of %s", o.Safety, strings.Join(safeties, ", "))
			}
			return runExec(cmd.Context(), a, o, args)
		},
	}
	o.AddFlags(cmd.Flags())
	cmd.Flags().SetInterspersed(false) // what follows the command's name is the command's
	return cmd
}

// safeties are the classes of replay safety, the best first.
var safeties = []string{"read-only", "idempotent", "mutating", "unknown"}

// execution is one command that is being run.
type execution struct {
	app   *app
	o     ExecOptions
	facts facts

	spool    *spool.Spool
	recorder *output.Recorder
	delivery *delivery
}

func runExec(ctx context.Context, a *app, o ExecOptions, argv []string) error {
	if _, err := exec.LookPath(argv[0]); err != nil {
		return &codeError{code: child.StartExitCode(err), err: err}
	}
	e, err := newExecution(a, o, argv)
	if err != nil {
		return &codeError{code: exitExec, err: err}
	}
	if err := e.begin(ctx); err != nil {
		e.spool.Close()
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

func newExecution(a *app, o ExecOptions, argv []string) (*execution, error) {
	if o.ID == "" {
		id, err := uuid.NewV7()
		if err != nil {
			return nil, err
		}
		o.ID = id.String()
	}
	e := &execution{app: a, o: o, facts: newFacts(a, o, argv)}
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
	e.spool = spool.Open("exec-"+o.ID+".ndjson", spoolDirs(a)...)
	e.recorder = output.NewRecorder(a.clock, e.spool.Append)
	e.delivery = newDelivery(o.Socket, request, e.spool)
	return e, nil
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
	if err != nil {
		e.facts.ended(e.app.clock.Now(), child.Exit{Code: child.StartExitCode(err)})
		e.facts.Error = err.Error()
		return e.facts.exit.Status(), err
	}
	e.delivery.interrupts = c.Signals()
	stop := make(chan struct{})
	go e.obeyCancel(c, stop)
	var copying sync.WaitGroup
	var held [2]error
	copying.Go(func() { held[0] = e.copy(os.Stdout, c.Stdout, "stdout") })
	copying.Go(func() { held[1] = e.copy(os.Stderr, c.Stderr, "stderr") })
	exit, err := c.Wait()
	close(stop)
	c.StopReading(heldWait)
	copying.Wait()
	if err != nil {
		return exitExec, err
	}
	e.facts.ended(e.app.clock.Now(), exit)
	if held := errors.Join(held[0], held[1]); errors.Is(held, child.ErrHeld) {
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

// environment is what the command gets: ours, and where to find its run. A
// writer token that we may have ourselves is not the command's.
func (e *execution) environment() []string {
	env := slices.DeleteFunc(os.Environ(), func(v string) bool {
		name, _, _ := strings.Cut(v, "=")
		return name == control.EnvWriter || name == control.EnvRunID || name == control.EnvSocket
	})
	return append(env, control.EnvRunID+"="+e.o.ID, control.EnvSocket+"="+agentSocket(e.o.Socket))
}

// obeyCancel ends the command when the owner cancels the run.
func (e *execution) obeyCancel(c *child.Child, stop <-chan struct{}) {
	select {
	case <-stop:
		return
	case <-e.delivery.aborted:
	}
	c.Signal(syscall.SIGTERM)
	select {
	case <-stop:
	case <-e.app.after(killWait):
		c.Signal(syscall.SIGKILL)
	}
}

// finish delivers what is left and says what could not be.
func (e *execution) finish() {
	e.recorder.Close()
	e.spool.End()
	e.facts.Totals = e.recorder.Totals()
	err := e.delivery.finish(e.facts.settlement(), e.o.Drain)
	rows := e.spool.Rows()
	path, closeErr := e.spool.Close()
	if closeErr != nil {
		e.app.note("exec: the spool: %v", closeErr)
	}
	if err != nil {
		e.app.note("exec: run %s: %s", e.o.ID, undeliveredText(err, rows, path))
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
