package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"durafs/control"
)

func newRunCommand(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "run",
		Short: "Make a run by hand, step by step",
		Long: `Make a run by hand, step by step, from a shell or any program.

run start prints the run's id and its writer token. Every other step needs the
token, in $DURAFS_WRITER; the run's id may be left out where $DURAFS_RUN_ID
has it:

  export $(durafs run start --thread deploy)
  echo '{"type":"note","text":"begun"}' | durafs run log
  durafs run put report report.html
  durafs run settle --status success --summary "all well"

The token is a secret: whoever has it acts as the run's agent.`,
		GroupID: groupWrite,
		Args:    cobra.NoArgs,
		RunE:    func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newRunStartCommand(a), newRunLogCommand(a), newRunPutCommand(a), newRunSettleCommand(a), newRunAttachCommand(a))
	cmd.AddCommand(newRunCancelCommand(a), newRunAbortCommand(a), newRunPauseCommand(a), newRunResumeCommand(a), newRunCopyCommand(a), newRunRequestCommand(a), newRunRollbackCommand(a), newPinCommand(a, ""), newRunDeleteCommand(a))
	return cmd
}

// WriterOption is what the steps of a run have in common.
type WriterOption struct {
	SocketOption
}

// writer is a client that acts for the run that the environment names.
func (a *app) writer(o *WriterOption) (*control.Client, error) {
	token := a.getenv(control.EnvWriter)
	if token == "" {
		return nil, &codeError{
			code: exitUsage, err: fmt.Errorf("no writer token in $%s", control.EnvWriter),
			next: "durafs run start prints it: export $(durafs run start)",
		}
	}
	c, err := o.client()
	if err != nil {
		return nil, err
	}
	return c.WithWriter(token), nil
}

// runArgs puts the run's id from the environment in front of args when it was
// left out: when there are only n-1 of them.
func (a *app) runArgs(cmd *cobra.Command, args []string, n int) ([]string, error) {
	if len(args) == n {
		return args, nil
	}
	id := a.getenv(control.EnvRunID)
	if id == "" {
		return nil, badUsage(cmd, "which run? name it, or put it into $%s", control.EnvRunID)
	}
	return append([]string{id}, args...), nil
}

// stepArgs accepts n arguments, or one less where the run's id may come from
// the environment.
func stepArgs(n int) cobra.PositionalArgs { return cobra.RangeArgs(n-1, n) }
