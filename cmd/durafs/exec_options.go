package main

import (
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
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
	PrepareOptions
	Resume  string
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
	o.PrepareOptions.AddFlags(f)
	f.StringVar(&o.Resume, "resume", "", "run the command of this run again, which was interrupted, under its old id")
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
		Args: func(cmd *cobra.Command, args []string) error {
			if o.Resume != "" {
				return cobra.NoArgs(cmd, args)
			}
			return cobra.MinimumNArgs(1)(cmd, args)
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := checkResumeFlags(cmd, o.Resume != ""); err != nil {
				return err
			}
			if o.Resume != "" {
				return runExecResume(cmd.Context(), a, o)
			}
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

// checkResumeFlags refuses flags of a new run where one is resumed, and those of
// a resume where none is.
func checkResumeFlags(cmd *cobra.Command, resumes bool) error {
	wrong, why := []string{"decide", "force", "if-match"}, "goes with --resume"
	if resumes {
		wrong, why = []string{"id", "thread", "parent", "label", "lease", "safety", "keep-env"}, "is of a new run, and --resume takes up one that is there"
	}
	for _, name := range wrong {
		if cmd.Flags().Changed(name) {
			return badUsage(cmd, "--%s %s", name, why)
		}
	}
	return nil
}

// safeties are the classes of replay safety, the best first.
var safeties = []string{"read-only", "idempotent", "mutating", "unknown"}
