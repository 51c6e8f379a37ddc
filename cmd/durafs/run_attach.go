package main

import (
	"context"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"durafs/control"
)

// RunAttachOptions says how a run is taken back.
type RunAttachOptions struct {
	WriterOption
	JSON bool
}

// AddFlags adds the flags of run attach.
func (o *RunAttachOptions) AddFlags(f *pflag.FlagSet) {
	o.WriterOption.AddFlags(f)
	addJSONFlag(f, &o.JSON, "print the whole answer, one JSON object")
}

func newRunAttachCommand(a *app) *cobra.Command {
	var o RunAttachOptions
	cmd := &cobra.Command{
		Use:   "attach [RUN]",
		Short: "Take a run back that outlived its daemon, or was silent for too long",
		Args:  stepArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			args, err := a.runArgs(cmd, args, 1)
			if err != nil {
				return err
			}
			return runRunAttach(cmd.Context(), a, o, args[0])
		},
	}
	o.AddFlags(cmd.Flags())
	return cmd
}

func runRunAttach(ctx context.Context, a *app, o RunAttachOptions, id string) error {
	c, err := a.writer(&o.WriterOption)
	if err != nil {
		return err
	}
	s, err := c.Attach(ctx, id, control.AttachRequest{})
	if err != nil {
		return err
	}
	if o.JSON {
		return a.printJSON(s)
	}
	return nil
}
