package main

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"durafs/control"
	"durafs/internal/term"
)

// TargetsOptions are the flags of targets.
type TargetsOptions struct {
	SocketOption
	JSON bool
}

func newTargetsCommand(a *app) *cobra.Command {
	var o TargetsOptions
	cmd := &cobra.Command{
		Use:   "targets",
		Short: "List, enrol and disenrol targets: where journals are kept",
		Long: `List the targets that were ever enrolled: agent:NAME, background:NAME or
site:ORIGIN. A run may only name one that is enrolled; disenrolling one keeps
what its journal has.`,
		GroupID: groupStore,
		Example: "  durafs targets enrol site:https://example.org",
		Args:    cobra.NoArgs,
		RunE:    func(cmd *cobra.Command, _ []string) error { return runTargets(cmd.Context(), a, o) },
	}
	o.SocketOption.AddFlags(cmd.Flags())
	addJSONFlag(cmd.Flags(), &o.JSON, "print one JSON object for each target")
	cmd.AddCommand(
		newTargetCommand(a, "enrol", "Enrol a target", (*control.Client).Enrol),
		newTargetCommand(a, "disenrol", "Take the enrolment of a target back", (*control.Client).Disenrol))
	return cmd
}

func runTargets(ctx context.Context, a *app, o TargetsOptions) error {
	c, err := o.client()
	if err != nil {
		return err
	}
	targets, err := c.Targets(ctx)
	if err != nil {
		return err
	}
	for _, t := range targets {
		if err := a.printTarget(o, t); err != nil {
			return err
		}
	}
	return nil
}

func (a *app) printTarget(o TargetsOptions, t control.Target) error {
	if o.JSON {
		return a.printJSON(t)
	}
	state := "enrolled"
	if !t.Enrolled {
		state = "not enrolled"
	}
	_, err := fmt.Fprintf(a.stdout, "%s  %s\n", term.Safe(t.Name), state)
	return err
}

func newTargetCommand(a *app, verb, short string, change func(*control.Client, context.Context, string) (control.Target, error)) *cobra.Command {
	var o TargetsOptions
	cmd := &cobra.Command{
		Use:   verb + " TARGET",
		Short: short,
		Args:  cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := o.client()
			if err != nil {
				return err
			}
			t, err := change(c, cmd.Context(), args[0])
			if err != nil {
				return err
			}
			return a.printTarget(o, t)
		},
	}
	o.SocketOption.AddFlags(cmd.Flags())
	addJSONFlag(cmd.Flags(), &o.JSON, "print the target as JSON")
	return cmd
}
