package main

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"durafs/control"
	"durafs/internal/term"
)

// WatchOptions says what to watch.
type WatchOptions struct {
	SocketOption
	Run    string
	Thread string
	After  uint64
	Once   bool
	JSON   bool

	hasAfter bool
}

// AddFlags adds the flags of watch.
func (o *WatchOptions) AddFlags(f *pflag.FlagSet) {
	o.SocketOption.AddFlags(f)
	f.StringVar(&o.Run, "run", "", "only this run")
	f.StringVar(&o.Thread, "thread", "", "only the runs of this thread")
	f.Uint64Var(&o.After, "after", 0, "go on behind this position, without a snapshot")
	f.BoolVar(&o.Once, "once", false, "end when what is there was told: no further change is waited for")
	addJSONFlag(f, &o.JSON, "print the events as they come, one JSON object a line")
}

func newWatchCommand(a *app) *cobra.Command {
	var o WatchOptions
	cmd := &cobra.Command{
		Use:   "watch",
		Short: "Watch runs change, as it becomes durable",
		Long: `Watch runs change: first those that are not finished as they are now, then every
revision of a record, once and in order, also when the daemon is restarted
meanwhile. With --run or --thread also what is finished is told of.`,
		GroupID: groupRead,
		Example: "  durafs watch\n  durafs watch --thread deploy --json | jq .record.phase",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if o.Run != "" && o.Thread != "" {
				return badUsage(cmd, "--run and --thread exclude each other")
			}
			o.hasAfter = cmd.Flags().Changed("after")
			if o.Once && o.hasAfter {
				return badUsage(cmd, "--once and --after exclude each other")
			}
			return runWatch(cmd.Context(), a, o)
		},
	}
	o.AddFlags(cmd.Flags())
	return cmd
}

func runWatch(ctx context.Context, a *app, o WatchOptions) error {
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
	defer stop()
	c, err := o.client()
	if err != nil {
		return err
	}
	q := control.WatchQuery{Run: o.Run, Thread: o.Thread}
	if o.hasAfter {
		q.After = &o.After
	}
	w, err := c.Watch(ctx, q)
	if err != nil {
		return err
	}
	defer w.Close()
	for {
		ev, err := w.Next()
		if ctx.Err() != nil {
			return nil // asked to end
		}
		if err != nil {
			return err
		}
		if err := a.printEvent(ev, o.JSON); err != nil {
			return err
		}
		if o.Once && ev.Kind == control.EventSnapshot && !ev.More {
			return nil
		}
	}
}

func (a *app) printEvent(ev control.Event, asJSON bool) error {
	if asJSON {
		return a.printJSON(ev)
	}
	var lines []string
	switch ev.Kind {
	case control.EventSnapshot:
		for _, rec := range ev.Records {
			lines = append(lines, recordLine(rec))
		}
	case control.EventRecord:
		lines = append(lines, recordLine(ev.Record))
	case control.EventRemoved:
		lines = append(lines, ev.ID+"  was never there: its start was undone")
	case control.EventAbort:
		lines = append(lines, ev.ID+"  its agent is asked to stop")
	case control.EventOffer:
		lines = append(lines, ev.ID+"  may be resumed")
	case control.EventResync:
		lines = append(lines, "-- changes were missed; as it is now:")
	default: // of a later daemon
		lines = append(lines, term.Safe(cmp.Or(ev.ID, "-")+"  "+ev.Kind))
	}
	for _, l := range lines {
		if _, err := fmt.Fprintln(a.stdout, l); err != nil {
			return err
		}
	}
	return nil
}

// recordLine tells of a revision in one line.
func recordLine(r *control.Record) string {
	return fmt.Sprintf("%s  %s  #%d  %s  %s", timeText(r.ChangedAt), r.ID, r.Revision, term.Safe(r.Phase), term.Cut(term.Safe(whatText(r)), 60))
}
