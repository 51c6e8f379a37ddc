package main

import (
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"durafs/control"
)

// PinOptions says whether a run is kept.
type PinOptions struct {
	SocketOption
	Off     bool
	IfMatch string
	JSON    bool
}

// AddFlags adds the flags of pin.
func (o *PinOptions) AddFlags(f *pflag.FlagSet) {
	o.SocketOption.AddFlags(f)
	f.BoolVar(&o.Off, "off", false, "let retention have it again")
	f.StringVar(&o.IfMatch, "if-match", "", "only if the run still has this ETag")
	addJSONFlag(f, &o.JSON, "print the whole answer, one JSON object")
}

// newPinCommand is durafs pin, and durafs run pin.
func newPinCommand(a *app, group string) *cobra.Command {
	var o PinOptions
	cmd := &cobra.Command{
		Use:     "pin RUN",
		Short:   "Keep a run's log, whatever retention says",
		GroupID: group,
		Example: "  durafs pin RUN\n  durafs pin RUN --off",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := o.client()
			if err != nil {
				return err
			}
			got, err := c.Pin(cmd.Context(), args[0], control.PinRequest{Pinned: !o.Off, IfMatch: o.IfMatch})
			if err != nil {
				return err
			}
			if o.JSON {
				return a.printJSON(got)
			}
			if got.Replayed {
				a.note("there was nothing to change")
			}
			return nil
		},
	}
	o.AddFlags(cmd.Flags())
	return cmd
}
