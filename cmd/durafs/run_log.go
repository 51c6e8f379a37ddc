package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"durafs/control"
	"durafs/internal/term"
)

// RunLogOptions says how rows are appended.
type RunLogOptions struct {
	WriterOption
	Key  string
	JSON bool
}

// AddFlags adds the flags of run log.
func (o *RunLogOptions) AddFlags(f *pflag.FlagSet) {
	o.WriterOption.AddFlags(f)
	f.StringVar(&o.Key, "key", "", "the field that tells each row from all others; a row that is sent again is then taken once")
	addJSONFlag(f, &o.JSON, "print the last acknowledgement, one JSON object")
}

func newRunLogCommand(a *app) *cobra.Command {
	var o RunLogOptions
	cmd := &cobra.Command{
		Use:   "log [RUN] < ROWS",
		Short: "Append rows from standard input: one JSON object a line",
		Long: `Append rows from standard input: one JSON object a line. It ends when all of
them are durable. Rows are durable as they come, so the input may be a pipe
that stays open.`,
		Example: `  echo '{"type":"note","text":"hello"}' | durafs run log
  my-agent --events | durafs run log --key event_id`,
		Args: stepArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			args, err := a.runArgs(cmd, args, 1)
			if err != nil {
				return err
			}
			return runRunLog(cmd.Context(), a, o, args[0])
		},
	}
	o.AddFlags(cmd.Flags())
	return cmd
}

func runRunLog(ctx context.Context, a *app, o RunLogOptions, id string) error {
	c, err := a.writer(&o.WriterOption)
	if err != nil {
		return err
	}
	ack, err := c.Stream(ctx, id, o.Key, a.stdin, nil)
	if err != nil {
		return rowsError(ack, err)
	}
	if o.JSON {
		return a.printJSON(ack)
	}
	return nil
}

// rowsError says how many rows are safe, which is what a caller has to know to
// go on.
func rowsError(ack control.Ack, err error) error {
	if p, ok := errors.AsType[*control.Problem](err); ok && p.Row == 0 && ack.Acked == 0 {
		return err
	}
	return fmt.Errorf("%s durable, then: %w", areDurable(ack.Acked), err)
}

func areDurable(n uint64) string {
	if n == 1 {
		return "1 row is"
	}
	return term.Count(n, "row") + " are"
}
