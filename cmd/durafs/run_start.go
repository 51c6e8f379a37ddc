package main

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"durafs/control"
)

// RunStartOptions describes a run to be made by hand.
type RunStartOptions struct {
	SocketOption
	StartOptions
	Task string
	Key  string
	JSON bool
}

// AddFlags adds the flags of run start.
func (o *RunStartOptions) AddFlags(f *pflag.FlagSet) {
	o.SocketOption.AddFlags(f)
	o.StartOptions.AddFlags(f, 0)
	f.StringVar(&o.Task, "task", "", "what the run is about; its beginning is shown in lists")
	f.StringVar(&o.Key, "idempotency-key", "", "repeating the command with the same key and options gives the same run")
	addJSONFlag(f, &o.JSON, "print the whole answer, one JSON object")
}

func newRunStartCommand(a *app) *cobra.Command {
	var o RunStartOptions
	cmd := &cobra.Command{
		Use:   "start",
		Short: "Start a run; print its id and its writer token",
		Long: `Start a run; print its id and its writer token, as two lines that a shell can
take into its environment:

  export $(durafs run start)

A run that is made by hand has no lease unless --lease gives it one: only a
restart of the daemon interrupts it, and durafs run attach takes it back.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return runRunStart(cmd.Context(), a, o) },
	}
	o.AddFlags(cmd.Flags())
	return cmd
}

func runRunStart(ctx context.Context, a *app, o RunStartOptions) error {
	r, err := o.request()
	if err != nil {
		return &codeError{code: exitUsage, err: err}
	}
	r.Task, r.IdempotencyKey = o.Task, o.Key
	c, err := o.client()
	if err != nil {
		return err
	}
	s, err := c.Start(ctx, r)
	if err != nil {
		return err
	}
	if o.JSON {
		return a.printJSON(s)
	}
	if s.Writer == "" {
		return failed(fmt.Errorf("run %s was started with this key before and has gone on since; its token is not given again", s.Record.ID),
			"start another run, with another key")
	}
	_, err = fmt.Fprintf(a.stdout, "%s=%s\n%s=%s\n", control.EnvRunID, s.Record.ID, control.EnvWriter, s.Writer)
	return err
}
