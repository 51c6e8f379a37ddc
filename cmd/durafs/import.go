package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"durafs/internal/term"
)

// originalName is the payload that holds the file's own bytes.
const originalName = "original"

// labelBytesMax is what a label's value can hold.
const labelBytesMax = 256

// ImportOptions says how session files become runs.
type ImportOptions struct {
	SocketOption
	Thread string
	Labels labelFlag
	JSON   bool
}

// AddFlags adds the flags of import.
func (o *ImportOptions) AddFlags(f *pflag.FlagSet) {
	o.SocketOption.AddFlags(f)
	f.StringVar(&o.Thread, "thread", "", "the thread that the runs belong to")
	f.Var(&o.Labels, "label", "a label of the runs, KEY=VALUE (may be repeated)")
	addJSONFlag(f, &o.JSON, "print one JSON object for each file")
}

func newImportCommand(a *app) *cobra.Command {
	var o ImportOptions
	cmd := &cobra.Command{
		Use:   "import FILE...",
		Short: "Make runs of agents' own session files",
		Long: `Make a run of each session file: JSONL sessions of coding agents, dialogues in
chat-completion form, trajectories in one JSON document. Its rows are the
file's, in order; the file itself is kept, byte for byte, as the payload
"original".

What cannot be read is told line by line on standard error, and the import goes
on behind it. A file with the same bytes is imported once: importing it again
names the run that is there, and finishes what was interrupted.

Exits 1 when a file could not be read at all, or not brought into the store.`,
		GroupID: groupWrite,
		Args:    cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return runImport(cmd.Context(), a, o, args)
		},
	}
	o.AddFlags(cmd.Flags())
	return cmd
}

// imported is what became of one file.
type imported struct {
	File     string `json:"file"`
	Run      string `json:"run,omitempty"`
	Already  bool   `json:"already,omitempty"` // a former import had done it
	Format   string `json:"format,omitempty"`
	B3       string `json:"b3,omitempty"`
	Bytes    int64  `json:"bytes"`
	Lines    int    `json:"lines"`
	Rows     int    `json:"rows"`
	NotRead  int    `json:"not_read"`
	Problems int    `json:"problems"`
	Error    string `json:"error,omitempty"`
}

func runImport(ctx context.Context, a *app, o ImportOptions, files []string) error {
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
	defer stop()
	failures := 0
	client, err := o.client()
	if err != nil {
		return err
	}
	for _, file := range files {
		i := &importing{app: a, o: o, client: client, result: imported{File: file}, progress: term.NewProgress(a.stderr, a.clock)}
		err := i.file(ctx)
		i.progress.Clear()
		if away(err) {
			return err // it is the same for the others
		}
		if err != nil {
			failures++
			i.result.Error = oneLine(err)
			fmt.Fprintf(a.stderr, "%s: %s\n", term.Safe(file), oneLine(err))
		}
		if err := i.print(); err != nil {
			return err
		}
		if ctx.Err() != nil {
			return failed(errors.New("interrupted"), "importing the same files again goes on where it stopped")
		}
	}
	if failures > 0 {
		return exitWith(exitFailed)
	}
	return nil
}

func away(err error) bool { return err != nil && exitCode(err) == exitAway }
