package main

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"durafs/control"
	"durafs/internal/term"
)

// RunCancelOptions says how a run is cancelled.
type RunCancelOptions struct {
	SocketOption
	Children bool
	IfMatch  string
	Wait     time.Duration
	JSON     bool
}

// AddFlags adds the flags of run cancel.
func (o *RunCancelOptions) AddFlags(f *pflag.FlagSet) {
	o.SocketOption.AddFlags(f)
	f.BoolVar(&o.Children, "children", false, "cancel the runs too that descend from this one")
	f.StringVar(&o.IfMatch, "if-match", "", "cancel only if the run still has this ETag")
	f.DurationVar(&o.Wait, "wait", 0, "wait so long for the agent to have stopped; exit 1 if it has not")
	addJSONFlag(f, &o.JSON, "print the whole answer, one JSON object")
}

func newRunCancelCommand(a *app) *cobra.Command {
	var o RunCancelOptions
	cmd := &cobra.Command{
		Use:   "cancel RUN",
		Short: "Cancel a run: the owner's word, whatever its agent says",
		Long: `Cancel a run. From here on it ends as cancelled, whatever its agent says. An
agent that lives is asked to stop, twice, for five seconds each; durafs exec
ends its command with SIGTERM, and with SIGKILL where that is of no use. How it
went stands in the record.`,
		Example: "  durafs run cancel RUN --wait 15s",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return runRunCancel(cmd.Context(), a, o, args[0])
		},
	}
	o.AddFlags(cmd.Flags())
	return cmd
}

func runRunCancel(ctx context.Context, a *app, o RunCancelOptions, id string) error {
	c, err := o.client()
	if err != nil {
		return err
	}
	got, err := c.Cancel(ctx, id, control.CancelRequest{Children: o.Children, IfMatch: o.IfMatch})
	if err != nil {
		return err
	}
	if o.Wait > 0 {
		if got.Record, err = a.awaitSealed(ctx, c, got.Record, o.Wait); err != nil {
			return err
		}
	}
	if o.JSON {
		if err := a.printJSON(got); err != nil {
			return err
		}
		return notCancelled(got)
	}
	if got.Record.Sealed() {
		a.note("run %s is cancelled (%s)", id, got.Record.Cancel.Abort)
	} else {
		a.note("run %s: its agent is asked to stop", id)
	}
	if n := len(got.Children); n > 0 {
		a.note("and %s that it had begun", term.Count(uint64(n), "run"))
	}
	return notCancelled(got)
}

// notCancelled is the error of a cancel that did not reach every descendant.
func notCancelled(got control.Cancelled) error {
	if len(got.NotCancelled) == 0 {
		return nil
	}
	first := got.NotCancelled[0]
	return failed(fmt.Errorf("%s of those that it had begun could not be cancelled: %s: %s", term.Count(uint64(len(got.NotCancelled)), "run"), first.ID, first.Detail),
		"the others are; --json lists all of them")
}

// awaitEvery is how often a run that is to end is looked at.
const awaitEvery = 50 * time.Millisecond

// awaitSealed waits until a run has ended.
func (a *app) awaitSealed(ctx context.Context, c *control.Client, rec *control.Record, wait time.Duration) (*control.Record, error) {
	over := a.after(wait)
	for !rec.Sealed() {
		select {
		case <-a.after(awaitEvery):
		case <-over:
			return nil, failed(fmt.Errorf("run %s is %s after %v", rec.ID, rec.Phase, wait), "durafs show %s tells more", rec.ID)
		case <-ctx.Done():
			return nil, ctx.Err()
		}
		var err error
		if rec, _, err = c.Get(ctx, rec.ID); err != nil {
			return nil, err
		}
	}
	return rec, nil
}

// RunAbortOptions says how an agent has stopped.
type RunAbortOptions struct {
	WriterOption
	How  string
	JSON bool
}

// AddFlags adds the flags of run abort.
func (o *RunAbortOptions) AddFlags(f *pflag.FlagSet) {
	o.WriterOption.AddFlags(f)
	f.StringVar(&o.How, "how", control.AbortAcknowledged, "acknowledged; of a process: exited or killed")
	addJSONFlag(f, &o.JSON, "print the record, one JSON object")
}

func newRunAbortCommand(a *app) *cobra.Command {
	var o RunAbortOptions
	cmd := &cobra.Command{
		Use:   "abort [RUN]",
		Short: "Say that the agent has stopped, since the run was cancelled",
		Args:  stepArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			args, err := a.runArgs(cmd, args, 1)
			if err != nil {
				return err
			}
			c, err := a.writer(&o.WriterOption)
			if err != nil {
				return err
			}
			rec, err := c.Abort(cmd.Context(), args[0], o.How)
			return a.printRecord(rec, o.JSON, err)
		},
	}
	o.AddFlags(cmd.Flags())
	return cmd
}

// printRecord prints a record where that is asked for.
func (a *app) printRecord(rec *control.Record, asJSON bool, err error) error {
	if err == nil && asJSON {
		return a.printJSON(rec)
	}
	return err
}

// RunRollbackOptions are the flags of run rollback.
type RunRollbackOptions struct {
	WriterOption
	JSON bool
}

func newRunRollbackCommand(a *app) *cobra.Command {
	var o RunRollbackOptions
	cmd := &cobra.Command{
		Use:   "rollback [RUN]",
		Short: "Undo a start whose first write found no space: the run was never there",
		Args:  stepArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			args, err := a.runArgs(cmd, args, 1)
			if err != nil {
				return err
			}
			c, err := a.writer(&o.WriterOption)
			if err != nil {
				return err
			}
			err = c.Rollback(cmd.Context(), args[0])
			if err == nil && o.JSON {
				return a.printJSON(control.RolledBack{Removed: args[0]})
			}
			return err
		},
	}
	o.WriterOption.AddFlags(cmd.Flags())
	addJSONFlag(cmd.Flags(), &o.JSON, "print the id that is free again, one JSON object")
	return cmd
}
