package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"durafs/control"
	"durafs/internal/clock"
)

// app is what a command works with.
type app struct {
	stdin          io.Reader
	stdout, stderr io.Writer
	clock          clock.Clock
	getenv         func(string) string
}

// run carries out one command line and returns the code to exit with.
func run(args []string) int {
	a := &app{stdin: os.Stdin, stdout: os.Stdout, stderr: os.Stderr, clock: clock.System, getenv: os.Getenv}
	root := newRootCommand(a)
	root.SetArgs(args)
	cmd, err := root.ExecuteC()
	return a.finish(cmd, err)
}

func newRootCommand(a *app) *cobra.Command {
	root := &cobra.Command{
		Use:   "durafs",
		Short: "Keep the runs of agents: append-only, crash-safe, browsable as files",
		Long: `durafs keeps what agents do. One daemon owns a store; agents write rows and
payloads to it through a socket; people browse it with ls, cat, grep and tail
in a read-only mount. What was acknowledged survives a crash at any instant.

The first minutes:

  durafs serve --store ./.durafs --mount ./runs &
  durafs status --wait 10s
  durafs exec -- make test          any command becomes a run
  durafs ls
  durafs logs RUN

Commands that talk to the daemon find its socket by --socket, then
$DURAFS_SOCKET, then .durafs/control.sock in the working directory or above,
then $XDG_RUNTIME_DIR/durafs/control.sock.

` + exitCodesHelp,
		SilenceUsage:  true,
		SilenceErrors: true,
		Args:          cobra.NoArgs,
		RunE:          func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	root.SetIn(a.stdin)
	root.SetOut(a.stdout)
	root.SetErr(a.stderr)
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error { return usageError(cmd, err) })
	root.CompletionOptions.HiddenDefaultCmd = false
	root.AddGroup(
		&cobra.Group{ID: groupStore, Title: "The store:"},
		&cobra.Group{ID: groupWrite, Title: "Making runs:"},
		&cobra.Group{ID: groupRead, Title: "Reading runs:"},
	)
	root.SetHelpCommandGroupID(groupStore)
	root.SetCompletionCommandGroupID(groupStore)
	for _, c := range []*cobra.Command{
		newServeCommand(a), newSuperviseCommand(a), newStatusCommand(a), newVerifyCommand(a), newBenchCommand(a), newVersionCommand(a),
		newExecCommand(a), newRunCommand(a), newImportCommand(a), newScopesCommand(a), newPolicyCommand(a), newOutboxCommand(a), newCompactCommand(a), newResetCommand(a), newPinCommand(a, groupStore),
		newLsCommand(a), newResumableCommand(a), newWatchCommand(a), newShowCommand(a), newLogsCommand(a), newThreadsCommand(a), newJournalCommand(a), newTargetsCommand(a), newHistoryCommand(a),
	} {
		root.AddCommand(c)
	}
	wrapArgs(root)
	return root
}

// The groups of the help text.
const (
	groupStore = "store"
	groupWrite = "write"
	groupRead  = "read"
)

// wrapArgs makes every complaint about the number of arguments a usage error.
func wrapArgs(cmd *cobra.Command) {
	if check := cmd.Args; check != nil {
		cmd.Args = func(cmd *cobra.Command, args []string) error {
			if err := check(cmd, args); err != nil {
				return usageError(cmd, err)
			}
			return nil
		}
	}
	for _, c := range cmd.Commands() {
		wrapArgs(c)
	}
}

// SocketOption names the daemon's socket.
type SocketOption struct{ Socket string }

// AddFlags adds --socket.
func (o *SocketOption) AddFlags(f *pflag.FlagSet) {
	f.StringVar(&o.Socket, "socket", "", "the daemon's socket (default: see durafs --help)")
}

// path is the socket that o names, or that can be found.
func (o *SocketOption) path() (string, error) {
	return (&control.Client{Socket: o.Socket}).SocketPath()
}

// client is a client for the daemon that o names. Somebody listens there: a
// command that a person waits for says at once when nobody does, and waits
// only for a daemon that goes away later.
func (o *SocketOption) client() (*control.Client, error) {
	c := &control.Client{Socket: o.Socket}
	path, err := c.SocketPath()
	if err != nil {
		return nil, err
	}
	if err := probe(path); err != nil {
		return nil, fmt.Errorf("%w: %w", control.ErrAway, err)
	}
	return c, nil
}

// addJSONFlag adds --json, with what it prints.
func addJSONFlag(f *pflag.FlagSet, to *bool, usage string) {
	f.BoolVar(to, "json", false, usage)
}

// printJSON prints v on one line.
func (a *app) printJSON(v any) error {
	enc := json.NewEncoder(a.stdout)
	enc.SetEscapeHTML(false)
	return enc.Encode(v)
}

// note says something on standard error that is no result.
func (a *app) note(format string, args ...any) {
	fmt.Fprintf(a.stderr, "durafs: "+format+"\n", args...)
}
