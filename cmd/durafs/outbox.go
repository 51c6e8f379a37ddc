package main

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"durafs/control"
	"durafs/internal/term"
)

// OutboxOptions are the flags of outbox.
type OutboxOptions struct {
	SocketOption
	JSON bool
}

func newOutboxCommand(a *app) *cobra.Command {
	var o OutboxOptions
	list := func(cmd *cobra.Command, _ []string) error { return runOutbox(cmd.Context(), a, o) }
	cmd := &cobra.Command{
		Use:   "outbox",
		Short: "List what is still to be told to sinks; try it again, or give it up",
		Long: `List the deliveries that there are: ends of runs that a sink, a command of
serve --on-terminal, has not taken yet. What it has taken is not in the list.

A delivery is waiting, delivering, or parked: its sink has failed too often, or
is not configured any more.`,
		GroupID: groupStore,
		Example: "  durafs outbox retry exec_build.5f0c1d2e3a4b5c6d",
		Args:    cobra.NoArgs,
		RunE:    list,
	}
	o.SocketOption.AddFlags(cmd.PersistentFlags())
	addJSONFlag(cmd.PersistentFlags(), &o.JSON, "print one JSON object for each delivery")
	cmd.AddCommand(
		&cobra.Command{Use: "list", Short: "List the deliveries, as outbox does", Args: cobra.NoArgs, RunE: list},
		newDeliveryCommand(a, &o, "retry", "Let a sink be told at once, as if it had never failed", (*control.Client).RetryDelivery),
		newDeliveryCommand(a, &o, "drop", "Give a delivery up: its sink is not told", (*control.Client).DropDelivery))
	return cmd
}

func runOutbox(ctx context.Context, a *app, o OutboxOptions) error {
	c, err := o.client()
	if err != nil {
		return err
	}
	deliveries, err := c.Outbox(ctx)
	if err != nil {
		return err
	}
	for _, d := range deliveries {
		if err := a.printDelivery(o, d); err != nil {
			return err
		}
	}
	return nil
}

func (a *app) printDelivery(o OutboxOptions, d control.Delivery) error {
	if o.JSON {
		return a.printJSON(d)
	}
	state := d.State
	switch {
	case d.Damaged:
		state += " (its run is damaged)"
	case !d.Configured:
		state += " (its sink is not configured)"
	}
	failed := ""
	if d.Attempts > 0 {
		failed = fmt.Sprintf("  failed %d times, %s ago: %s", d.Attempts, term.Age(a.clock.Now().Sub(d.At).Truncate(time.Second)), d.Error)
	}
	_, err := fmt.Fprintf(a.stdout, "%s  %s  %s%s\n", term.Safe(d.ID), state, term.Safe(d.Sink), term.Safe(failed))
	return err
}

func newDeliveryCommand(a *app, o *OutboxOptions, verb, short string, do func(*control.Client, context.Context, string) (control.Delivery, error)) *cobra.Command {
	return &cobra.Command{
		Use:   verb + " DELIVERY...",
		Short: short,
		Args:  cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := o.client()
			if err != nil {
				return err
			}
			for _, id := range args {
				d, err := do(c, cmd.Context(), id)
				if err != nil {
					return err
				}
				if err := a.printDelivery(*o, d); err != nil {
					return err
				}
			}
			return nil
		},
	}
}
