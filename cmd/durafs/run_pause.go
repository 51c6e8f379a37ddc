package main

import (
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"durafs/control"
)

// RunPauseOptions says why a run waits.
type RunPauseOptions struct {
	WriterOption
	BindingOption
	Reason string
	Detail string
	JSON   bool
}

// AddFlags adds the flags of run pause.
func (o *RunPauseOptions) AddFlags(f *pflag.FlagSet) {
	o.WriterOption.AddFlags(f)
	o.BindingOption.AddFlags(f, "the run is bound to, or that is on offer")
	f.StringVar(&o.Reason, "reason", "", "permission (its scope is not granted) or provider-change (required)")
	f.StringVar(&o.Detail, "detail", "", "a sentence for the owner")
	addJSONFlag(f, &o.JSON, "print the record, one JSON object")
}

func newRunPauseCommand(a *app) *cobra.Command {
	var o RunPauseOptions
	cmd := &cobra.Command{
		Use:     "pause [RUN] --reason REASON",
		Short:   "Let a run wait for a grant, or for another provider to be accepted",
		Example: "  durafs run pause --reason permission --provider p --model m --scope mail.read",
		Args:    stepArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if o.Reason == "" {
				return badUsage(cmd, "--reason is missing")
			}
			args, err := a.runArgs(cmd, args, 1)
			if err != nil {
				return err
			}
			b, err := o.binding()
			if err != nil {
				return usageError(cmd, err)
			}
			c, err := a.writer(&o.WriterOption)
			if err != nil {
				return err
			}
			rec, err := c.Pause(cmd.Context(), args[0], control.PauseRequest{Reason: o.Reason, Binding: b, Detail: o.Detail})
			return a.printRecord(rec, o.JSON, err)
		},
	}
	o.AddFlags(cmd.Flags())
	return cmd
}
