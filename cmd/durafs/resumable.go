package main

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"durafs/control"
)

// ResumableOptions are the flags of resumable.
type ResumableOptions struct {
	SocketOption
	JSON bool
}

func newResumableCommand(a *app) *cobra.Command {
	var o ResumableOptions
	cmd := &cobra.Command{
		Use:     "resumable",
		Short:   "List the runs that may be resumed without anyone's decision",
		GroupID: groupRead,
		Args:    cobra.NoArgs,
		RunE:    func(cmd *cobra.Command, _ []string) error { return runResumable(cmd.Context(), a, o) },
	}
	o.SocketOption.AddFlags(cmd.Flags())
	addJSONFlag(cmd.Flags(), &o.JSON, "print one JSON object for each run")
	return cmd
}

func runResumable(ctx context.Context, a *app, o ResumableOptions) error {
	c, err := o.client()
	if err != nil {
		return err
	}
	offers, err := c.Resumable(ctx)
	if err != nil {
		return err
	}
	for _, f := range offers {
		if o.JSON {
			err = a.printJSON(f)
		} else {
			_, err = fmt.Fprintf(a.stdout, "%s  %s  %s\n", f.ID, f.Phase, whenText(f))
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func whenText(f control.Offer) string {
	if f.Ready {
		return "now"
	}
	left := (time.Duration(f.InMS) * time.Millisecond).Round(time.Second)
	return fmt.Sprintf("in %v, if its agent does not come back", left)
}
