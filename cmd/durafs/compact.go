package main

import (
	"context"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"durafs/control"
	"durafs/internal/term"
)

// CompactOptions are those of compact.
type CompactOptions struct {
	SocketOption
	JSON bool
}

// AddFlags adds the flags of compact.
func (o *CompactOptions) AddFlags(f *pflag.FlagSet) {
	o.SocketOption.AddFlags(f)
	addJSONFlag(f, &o.JSON, "print the answer, one JSON object")
}

func newCompactCommand(a *app) *cobra.Command {
	var o CompactOptions
	cmd := &cobra.Command{
		Use:   "compact",
		Short: "Give back the room of payloads that nothing refers to",
		Long: `Give back the room of what nothing refers to in the packs of payloads: what came
of requests that were cut, of outcomes that a crash or a full disk kept from being
committed, and payloads that were deleted. What is referred to is moved out of
packs that have such, and these are removed.

Everything else goes on meanwhile. When it is given up, or fails, all that there
was is there.`,
		GroupID: groupStore,
		Args:    cobra.NoArgs,
		RunE:    func(cmd *cobra.Command, _ []string) error { return runCompact(cmd.Context(), a, o) },
	}
	o.AddFlags(cmd.Flags())
	return cmd
}

func runCompact(ctx context.Context, a *app, o CompactOptions) error {
	c, err := o.client()
	if err != nil {
		return err
	}
	done, err := c.Compact(ctx)
	if err != nil {
		return err
	}
	if o.JSON {
		return a.printJSON(done)
	}
	a.tellCompacted(done)
	return nil
}

func (a *app) tellCompacted(d control.CompactDone) {
	switch {
	case d.PacksFreed == 0:
		a.note("nothing was to be given back in %s", term.Count(d.Packs, "pack"))
	default:
		a.note("%d of %s were rewritten, which gave back %s", d.PacksFreed, term.Count(d.Packs, "pack"), term.Bytes(d.BytesFreed))
	}
	if d.PacksPinned > 0 {
		a.note("%s stayed, since something in them is damaged: durafs verify says what", term.Count(d.PacksPinned, "pack"))
	}
}
