package main

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"durafs/control"
	"durafs/internal/term"
)

// ScopesOptions are the flags of scopes.
type ScopesOptions struct {
	SocketOption
	JSON bool
}

func newScopesCommand(a *app) *cobra.Command {
	var o ScopesOptions
	cmd := &cobra.Command{
		Use:   "scopes",
		Short: "List, grant and revoke scopes: what runs are allowed to be bound to",
		Long: `List the scopes that owners have granted. A run that is bound to a scope goes
on, after a pause or a loss, only while exactly that scope is granted; runs that
wait for one are offered when it is.`,
		GroupID: groupStore,
		Example: "  durafs scopes grant mail.read",
		Args:    cobra.NoArgs,
		RunE:    func(cmd *cobra.Command, _ []string) error { return runScopes(cmd.Context(), a, o) },
	}
	o.SocketOption.AddFlags(cmd.Flags())
	addJSONFlag(cmd.Flags(), &o.JSON, "print one JSON object for each scope")
	cmd.AddCommand(
		newScopeCommand(a, "grant", "Grant a scope; runs that wait for it are offered", (*control.Client).GrantScope),
		newScopeCommand(a, "revoke", "Take the grant of a scope back", (*control.Client).RevokeScope))
	return cmd
}

func runScopes(ctx context.Context, a *app, o ScopesOptions) error {
	c, err := o.client()
	if err != nil {
		return err
	}
	scopes, err := c.Scopes(ctx)
	if err != nil {
		return err
	}
	for _, s := range scopes {
		if o.JSON {
			err = a.printJSON(s)
		} else {
			_, err = fmt.Fprintf(a.stdout, "%s  by uid %d\n", term.Safe(s.Scope), *s.ByUID)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func newScopeCommand(a *app, verb, short string, do func(*control.Client, context.Context, string) (control.Scope, error)) *cobra.Command {
	var o ScopesOptions
	cmd := &cobra.Command{
		Use:   verb + " SCOPE",
		Short: short,
		Args:  cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := o.client()
			if err != nil {
				return err
			}
			s, err := do(c, cmd.Context(), args[0])
			if err != nil {
				return err
			}
			if o.JSON {
				return a.printJSON(s)
			}
			if s.Replayed {
				a.note("there was nothing to change")
			}
			return nil
		},
	}
	o.SocketOption.AddFlags(cmd.Flags())
	addJSONFlag(cmd.Flags(), &o.JSON, "print the scope, one JSON object")
	return cmd
}
