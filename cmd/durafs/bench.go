package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"regexp"
	"strings"
	"syscall"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"durafs/bench"
	"durafs/internal/term"
)

// BenchOptions says what to measure and where, or what to generate.
type BenchOptions struct {
	Quick  bool
	Only   string
	Dir    string
	Report string
	JSON   bool

	// Generate is the directory of a store to make instead.
	Generate string
	Store    bench.GenerateOptions
}

// AddFlags adds the flags of bench.
func (o *BenchOptions) AddFlags(f *pflag.FlagSet) {
	f.BoolVar(&o.Quick, "quick", false, "measure only what needs no large store, in under a minute")
	f.StringVar(&o.Only, "only", "", "measure only the groups whose names match this regular expression")
	f.StringVar(&o.Dir, "dir", ".", "a directory on the disk to measure; nothing is left in it")
	f.StringVar(&o.Report, "report", "", "also write a page with the figures and the machine to this file, and the same as JSON beside it; groups that are not measured stay in it")
	addJSONFlag(f, &o.JSON, "print one JSON object for each measurement, as it is done")

	f.StringVar(&o.Generate, "generate", "", "measure nothing, but make a store in this directory, with:")
	f.IntVar(&o.Store.Runs, "runs", 1000, "so many runs")
	f.IntVar(&o.Store.Rows, "rows", 10_000, "so many rows in all")
	f.IntVar(&o.Store.RowBytes, "row-bytes", 0, "so many bytes in a row (default 100)")
	f.IntVar(&o.Store.GroupRows, "group-rows", 0, "so many rows in a request (default 10)")
	f.IntVar(&o.Store.Interleave, "interleave", 0, "so many runs written at the same time (default 256)")
	f.IntVar(&o.Store.PayloadBytes, "payload-bytes", 0, "an answer of so many bytes for each run (default none)")
	f.BoolVar(&o.Store.Labels, "labels", false, "a thread and labels for each run")
	f.Uint64Var(&o.Store.Seed, "seed", 0, "the seed of ids, texts and outcomes")
}

func newBenchCommand(a *app) *cobra.Command {
	var o BenchOptions
	cmd := &cobra.Command{
		Use:   "bench [--quick] [--only REGEXP] [--dir DIR]",
		Short: "Measure this machine's store against what its disk allows",
		Long: `Measure this machine's store against what its disk allows. Every figure is a
ratio of two things that were measured in turn: what durafs does, and the bare
system calls that its promise cannot do without. A goal that is missed is
printed as missed; that is no failure of the command.

Without --quick it takes many minutes, and some 20 GiB of the disk. The groups
that --only selects are: ` + strings.Join(bench.Groups(), ", ") + `.

With --generate it makes a store of any size instead, through the same code as
every other store, to measure or try other things on.`,
		GroupID: groupStore,
		Example: `  durafs bench --quick
  durafs bench --only 'replay|open' --dir /var/tmp
  durafs bench --generate ./large --runs 100000 --rows 1000000`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if o.Generate != "" {
				return runGenerate(cmd.Context(), a, o)
			}
			only, err := regexp.Compile(o.Only)
			if err != nil {
				return badUsage(cmd, "--only: %v", err)
			}
			return runBench(cmd.Context(), a, o, only)
		},
	}
	o.AddFlags(cmd.Flags())
	return cmd
}

func runBench(ctx context.Context, a *app, o BenchOptions, only *regexp.Regexp) error {
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
	defer stop()
	self, err := os.Executable()
	if err != nil {
		return err
	}
	progress := term.NewProgress(a.stderr, a.clock)
	opt := bench.Options{
		Quick: o.Quick, Only: only, Dir: o.Dir,
		Serve: func(store, mount string) *exec.Cmd {
			return exec.Command(self, "serve", "--log-level", "error", "--store", store, "--mount", mount)
		},
		Progress: func(what string) { progress.Printf("measuring: %s", what) },
	}
	if o.JSON {
		opt.OnRow = func(r bench.Row) {
			progress.Clear()
			a.printJSON(r)
		}
	}
	rows, err := bench.Run(ctx, opt)
	progress.Clear()
	if err != nil {
		return err
	}
	if o.Report != "" {
		v := readVersion()
		if err := bench.WriteReport(o.Report, bench.NewReport(o.Dir, v.Revision, v.Modified, a.clock.Now(), rows)); err != nil {
			return err
		}
	}
	if o.JSON {
		return nil
	}
	return bench.WriteText(a.stdout, rows)
}

func runGenerate(ctx context.Context, a *app, o BenchOptions) error {
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
	defer stop()
	progress := term.NewProgress(a.stderr, a.clock)
	o.Store.Progress = func(done int) { progress.Printf("%d of %d runs", done, o.Store.Runs) }
	made, err := bench.Generate(ctx, o.Generate, o.Store)
	progress.Clear()
	if err != nil {
		return err
	}
	if o.JSON {
		return a.printJSON(made)
	}
	_, err = fmt.Fprintf(a.stdout, "%s: %d runs, %d rows\n", o.Generate, made.Runs, made.Rows)
	return err
}
