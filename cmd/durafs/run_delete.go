package main

import (
	"fmt"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// RunDeleteOptions says whose payload goes.
type RunDeleteOptions struct {
	SocketOption
	JSON bool
}

// AddFlags adds the flags of run delete.
func (o *RunDeleteOptions) AddFlags(f *pflag.FlagSet) {
	o.SocketOption.AddFlags(f)
	addJSONFlag(f, &o.JSON, "print the whole answer, one JSON object")
}

func newRunDeleteCommand(a *app) *cobra.Command {
	var o RunDeleteOptions
	cmd := &cobra.Command{
		Use:   "delete RUN NAME",
		Short: "Delete a payload of a run, for ever; print its BLAKE3",
		Long: `Delete a payload that the run's agent has put. The run's log tells of it from
then on (the file late, where the run is over); its name is not given again.
What a model was shown, rows and the final answer cannot be deleted.`,
		Args: cobra.ExactArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := o.client()
			if err != nil {
				return err
			}
			d, err := c.DeletePayload(cmd.Context(), args[0], args[1])
			if err != nil {
				return fmt.Errorf("payload %s: %w", args[1], err)
			}
			if o.JSON {
				return a.printJSON(d)
			}
			if d.Replayed {
				a.note("it had been deleted before")
			}
			_, err = fmt.Fprintf(a.stdout, "%s  %s\n", d.B3, d.Name)
			return err
		},
	}
	o.AddFlags(cmd.Flags())
	return cmd
}
