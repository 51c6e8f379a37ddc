package main

import (
	"context"
	"strconv"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"durafs/control"
	"durafs/internal/term"
)

// whatWidth is the width of the last column where no terminal bounds it.
const whatWidth = 80

// pageRuns is how many records are asked for at a time.
const pageRuns = 200

// LsOptions says which runs to list, and how.
type LsOptions struct {
	SocketOption
	Phase  string
	Thread string
	Parent string
	Labels labelFlag
	Text   string
	Limit  int
	JSON   bool
}

// AddFlags adds the flags of ls.
func (o *LsOptions) AddFlags(f *pflag.FlagSet) {
	o.SocketOption.AddFlags(f)
	f.StringVar(&o.Phase, "phase", "", "only runs in this phase (running, terminal, paused-interruption, …)")
	f.StringVar(&o.Thread, "thread", "", "only runs of this thread")
	f.StringVar(&o.Parent, "parent", "", "only runs that this run delegated to")
	f.Var(&o.Labels, "label", "only runs with this label, KEY=VALUE (may be repeated)")
	f.StringVarP(&o.Text, "query", "q", "", "only runs whose preview contains this text")
	f.IntVarP(&o.Limit, "limit", "n", 50, "list at most this many runs, 0 for all")
	addJSONFlag(f, &o.JSON, "print one public record a line")
}

func newLsCommand(a *app) *cobra.Command {
	var o LsOptions
	cmd := &cobra.Command{
		Use:     "ls",
		Short:   "List runs, newest first",
		GroupID: groupRead,
		Example: "  durafs ls --phase running\n  durafs ls --label task_id=42 --json | jq -r .id",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if o.Limit < 0 {
				return badUsage(cmd, "--limit %d is negative; 0 lists all", o.Limit)
			}
			return runLs(cmd.Context(), a, o)
		},
	}
	o.AddFlags(cmd.Flags())
	return cmd
}

func runLs(ctx context.Context, a *app, o LsOptions) error {
	print, flush := a.lsText()
	if o.JSON {
		print, flush = func(r *control.Record) error { return a.printJSON(r) }, func() error { return nil }
	}
	if err := eachRun(ctx, o, print); err != nil {
		return err
	}
	return flush()
}

// eachRun calls fn for the runs that o selects.
func eachRun(ctx context.Context, o LsOptions, fn func(*control.Record) error) error {
	q := control.ListQuery{Thread: o.Thread, Phase: o.Phase, Parent: o.Parent, Labels: o.Labels, Text: o.Text, Limit: pageRuns}
	if o.Limit > 0 {
		q.Limit = min(o.Limit, pageRuns)
	}
	c, err := o.client()
	if err != nil {
		return err
	}
	listed := 0
	for r, err := range c.All(ctx, q) {
		if err != nil {
			return err
		}
		if err := fn(r); err != nil {
			return err
		}
		if listed++; listed == o.Limit {
			break
		}
	}
	return nil
}

// lsText prints records as a table.
func (a *app) lsText() (print func(*control.Record) error, flush func() error) {
	now, width := a.clock.Now(), whatWidth
	if term.IsTerminal(a.stdout) {
		width = max(term.Width(a.stdout)-90, 24) // what the other columns leave
	}
	t := term.NewTable(a.stdout, "RUN", "PHASE", "AGE", "ROWS", "THREAD", "WHAT")
	print = func(r *control.Record) error {
		t.Row(r.ID, phaseText(r), term.Age(now.Sub(r.StartedAt)), strconv.FormatUint(r.Log.Rows, 10),
			orDash(r.Labels["thread"]), term.Cut(term.Safe(whatText(r)), width))
		return nil
	}
	return print, t.Flush
}

// phaseText is the phase, and for a finished run how it ended.
func phaseText(r *control.Record) string {
	if r.Terminal != nil {
		return r.Terminal.Status
	}
	return r.Phase
}

// whatText is the best that a record has to say in one line.
func whatText(r *control.Record) string {
	if r.Preview != "" {
		return r.Preview
	}
	if r.Terminal != nil {
		return r.Terminal.Summary
	}
	return ""
}

func orDash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}

// timeText writes a moment for people, in their own zone.
func timeText(t time.Time) string {
	if t.IsZero() {
		return "-"
	}
	return t.Local().Format("2006-01-02 15:04:05.000 -0700")
}
