package main

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"durafs/control"
	"durafs/internal/term"
)

// PolicyOptions says what to tell of the policy of retention, and what of it is
// to be different.
type PolicyOptions struct {
	SocketOption
	DryRun bool
	JSON   bool

	RetainAll, Bounded         bool
	ThreadRuns, Runs, LogBytes int64
	changed                    func(flag string) bool
}

// AddFlags adds the flags that say how to tell it.
func (o *PolicyOptions) AddFlags(f *pflag.FlagSet) {
	o.SocketOption.AddFlags(f)
	addJSONFlag(f, &o.JSON, "print the policy, one JSON object")
}

// AddChangeFlags adds the flags that change it.
func (o *PolicyOptions) AddChangeFlags(f *pflag.FlagSet) {
	f.BoolVar(&o.RetainAll, "retain-all", false, "keep every log")
	f.BoolVar(&o.Bounded, "bounded", false, "let the numbers count again")
	f.Int64Var(&o.ThreadRuns, "thread-runs", 0, "how many of a thread's newest runs keep their logs")
	f.Int64Var(&o.Runs, "runs", 0, "how many of the store's newest runs keep their logs")
	f.Int64Var(&o.LogBytes, "log-bytes", 0, "how many bytes these logs have together, at most")
	o.changed = f.Changed
}

func newPolicyCommand(a *app) *cobra.Command {
	var o PolicyOptions
	cmd := &cobra.Command{
		Use:   "policy",
		Short: "Tell or change which runs keep their logs",
		Long: `Tell the policy of retention: of how many runs the logs are kept. What is beyond
it are the oldest runs that are over and not pinned. --dry-run tells which these
are now. This version decides it and does not carry it out: no log gives way
yet, whatever the policy says.`,
		GroupID: groupStore,
		Example: "  durafs policy --dry-run\n  durafs policy set --runs 2000 --log-bytes 1073741824",
		Args:    cobra.NoArgs,
		RunE:    func(cmd *cobra.Command, _ []string) error { return runPolicy(cmd.Context(), a, o) },
	}
	o.AddFlags(cmd.Flags())
	cmd.Flags().BoolVar(&o.DryRun, "dry-run", false, "tell which logs are beyond the policy now")
	cmd.AddCommand(newPolicyGetCommand(a), newPolicySetCommand(a))
	return cmd
}

func newPolicyGetCommand(a *app) *cobra.Command {
	var o PolicyOptions
	cmd := &cobra.Command{
		Use:   "get",
		Short: "Tell the policy",
		Args:  cobra.NoArgs,
		RunE:  func(cmd *cobra.Command, _ []string) error { return runPolicy(cmd.Context(), a, o) },
	}
	o.AddFlags(cmd.Flags())
	return cmd
}

func newPolicySetCommand(a *app) *cobra.Command {
	var o PolicyOptions
	cmd := &cobra.Command{
		Use:   "set",
		Short: "Change the policy; what is not named stays as it is",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			ch := o.change()
			if ch == (control.PolicyChange{}) {
				return badUsage(cmd, "say what is to be different")
			}
			if o.RetainAll && o.Bounded {
				return badUsage(cmd, "--retain-all and --bounded exclude each other")
			}
			return runPolicySet(cmd.Context(), a, o, ch)
		},
	}
	o.AddFlags(cmd.Flags())
	o.AddChangeFlags(cmd.Flags())
	return cmd
}

// change is what the flags that are there say.
func (o *PolicyOptions) change() (ch control.PolicyChange) {
	if o.RetainAll || o.Bounded {
		ch.RetainAll = &o.RetainAll
	}
	for flag, f := range map[string]struct {
		to    **int64
		value *int64
	}{
		"thread-runs": {&ch.ThreadRuns, &o.ThreadRuns},
		"runs":        {&ch.Runs, &o.Runs},
		"log-bytes":   {&ch.LogBytes, &o.LogBytes},
	} {
		if o.changed(flag) {
			*f.to = f.value
		}
	}
	return ch
}

func runPolicy(ctx context.Context, a *app, o PolicyOptions) error {
	c, err := o.client()
	if err != nil {
		return err
	}
	p, err := c.Policy(ctx, o.DryRun)
	if err != nil {
		return err
	}
	return a.printPolicy(o, p)
}

func runPolicySet(ctx context.Context, a *app, o PolicyOptions, ch control.PolicyChange) error {
	c, err := o.client()
	if err != nil {
		return err
	}
	p, err := c.SetPolicy(ctx, ch)
	if err != nil {
		return err
	}
	if p.Replayed && !o.JSON {
		a.note("there was nothing to change")
	}
	return a.printPolicy(o, p)
}

func (a *app) printPolicy(o PolicyOptions, p control.PolicyState) error {
	if o.JSON {
		return a.printJSON(p)
	}
	from := "an owner said so"
	switch {
	case p.Default:
		from = "the default; nobody has said otherwise"
	case p.MigratedFrom != "":
		from = "said as " + p.MigratedFrom
	case p.ByUID != nil:
		from = fmt.Sprintf("said by uid %d", *p.ByUID)
	}
	lines := [][2]string{{"policy", p.Stamp + " (" + from + ")"}}
	if p.RetainAll {
		lines = append(lines, [2]string{"logs", "all are kept"})
	} else {
		lines = append(lines, [2]string{"logs", fmt.Sprintf("kept of the newest %s of a thread, of %s and %s in all",
			term.Count(p.ThreadRuns, "run"), term.Count(p.Runs, "run"), term.Bytes(p.LogBytes))})
	}
	for _, f := range p.FellBack {
		lines = append(lines, [2]string{"note", "what was said of " + f + " cannot be taken; the default counts"})
	}
	if d := p.Due; d != nil {
		lines = append(lines, [2]string{"due", fmt.Sprintf("the logs of %s, with %s and %s; none of them gives way yet",
			term.Count(d.Runs, "run"), term.Count(d.Rows, "row"), term.Bytes(d.Bytes))})
		for _, id := range d.Oldest {
			lines = append(lines, [2]string{"", id})
		}
	}
	for _, l := range lines {
		if _, err := fmt.Fprintf(a.stdout, "%-7s %s\n", l[0], term.Safe(l[1])); err != nil {
			return err
		}
	}
	return nil
}
