package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"durafs/bench"
	"durafs/internal/term"
)

// BenchOptions says what to measure, and where.
type BenchOptions struct {
	Quick bool
	Dir   string
	JSON  bool
}

// AddFlags adds the flags of bench.
func (o *BenchOptions) AddFlags(f *pflag.FlagSet) {
	f.BoolVar(&o.Quick, "quick", false, "measure what needs no other store beside, in under a minute (required)")
	f.StringVar(&o.Dir, "dir", ".", "a directory on the disk to measure; nothing is left in it")
	addJSONFlag(f, &o.JSON, "print one JSON object for each measurement, as it is done")
}

func newBenchCommand(a *app) *cobra.Command {
	var o BenchOptions
	cmd := &cobra.Command{
		Use:   "bench --quick",
		Short: "Measure this machine's store against what its disk allows",
		Long: `Measure this machine's store against what its disk allows. Every figure is a
ratio of two things that were measured in turn: what durafs does, and the bare
system calls that its promise cannot do without. A goal that is missed is
printed as missed; that is no failure of the command.`,
		GroupID: groupStore,
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if !o.Quick {
				return badUsage(cmd, "say which measurements: --quick")
			}
			return runBench(cmd.Context(), a, o)
		},
	}
	o.AddFlags(cmd.Flags())
	return cmd
}

func runBench(ctx context.Context, a *app, o BenchOptions) error {
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
	defer stop()
	progress := term.NewProgress(a.stderr, a.clock)
	opt := bench.Options{Dir: o.Dir, Progress: func(what string) { progress.Printf("measuring: %s", what) }}
	if o.JSON {
		opt.OnRow = func(r bench.Row) {
			progress.Clear()
			a.printJSON(r)
		}
	}
	rows, err := bench.Quick(ctx, opt)
	progress.Clear()
	if err != nil {
		return err
	}
	if o.JSON {
		return nil
	}
	return bench.WriteText(a.stdout, rows)
}
