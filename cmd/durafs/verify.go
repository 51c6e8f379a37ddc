package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"durafs/control"
	"durafs/internal/daemon"
	"durafs/internal/term"
	"durafs/store"
)

// VerifyOptions says which store to verify, and how thoroughly.
type VerifyOptions struct {
	SocketOption
	Store string
	Deep  bool
	JSON  bool
}

// AddFlags adds the flags of verify.
func (o *VerifyOptions) AddFlags(f *pflag.FlagSet) {
	o.SocketOption.AddFlags(f)
	f.StringVar(&o.Store, "store", "", "the store's directory (default: that of the daemon, else of its socket)")
	f.BoolVar(&o.Deep, "deep", false, "decode every chunk too, and compare it with its id; work footers out again")
	addJSONFlag(f, &o.JSON, "print each piece of damage, and then the sum, as JSON objects")
}

func newVerifyCommand(a *app) *cobra.Command {
	var o VerifyOptions
	cmd := &cobra.Command{
		Use:   "verify",
		Short: "Check every byte of a store, with or without its daemon",
		Long: `Check every byte of a store: each header, frame, record and footer, and the
hashes of what is sealed. It writes nothing, and may run beside a daemon that
has the store open.

Exits 0 when the store is sound, 1 when there is damage (each piece is a line:
file, offset, what), 2 when it could not be checked.`,
		GroupID: groupStore,
		Args:    cobra.NoArgs,
		RunE:    func(cmd *cobra.Command, _ []string) error { return runVerify(cmd.Context(), a, o) },
	}
	o.AddFlags(cmd.Flags())
	return cmd
}

func runVerify(ctx context.Context, a *app, o VerifyOptions) error {
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
	defer stop()
	dir, err := o.storeDir(ctx)
	if err != nil {
		return notChecked(err)
	}
	progress := term.NewProgress(a.stderr, a.clock)
	found := func(f store.Finding) {
		progress.Clear()
		if o.JSON {
			a.printJSON(f)
		} else {
			fmt.Fprintln(a.stdout, term.Safe(f.String()))
		}
	}
	sum, err := store.Verify(ctx, dir, store.VerifyOptions{
		Deep:     o.Deep,
		Progress: func(what string) { progress.Printf("verifying %s: %s", dir, what) },
	}, found)
	progress.Clear()
	if err != nil {
		return notChecked(err)
	}
	if err := a.printVerified(o, dir, sum); err != nil {
		return err
	}
	if sum.Findings > 0 {
		return exitWith(exitFailed)
	}
	return nil
}

// notChecked is the error of a store of which nothing can be said.
func notChecked(err error) error {
	next := "name the store: --store DIR"
	switch {
	case errors.Is(err, context.Canceled):
		err, next = errors.New("interrupted"), "what was not looked at may be damaged: run it again to its end"
	case errors.Is(err, fs.ErrPermission):
		next = "run it as the user that runs the daemon, or as root"
	}
	return &codeError{code: exitUsage, err: fmt.Errorf("could not be checked: %w", err), next: next}
}

// storeDir is the store that is meant: the one named, or the one of the daemon
// that the commands would talk to, running or not.
func (o *VerifyOptions) storeDir(ctx context.Context) (string, error) {
	if o.Store != "" {
		return filepath.Abs(o.Store)
	}
	socket, err := o.path()
	if err != nil {
		if _, statErr := os.Stat(filepath.Join(storeDefault, "store.json")); statErr == nil {
			return filepath.Abs(storeDefault)
		}
		return "", err
	}
	c, err := o.client()
	if err == nil {
		// A daemon that hangs is no reason to hang too.
		ctx, cancel := context.WithTimeout(ctx, probeTimeout)
		defer cancel()
		var s daemon.Status
		raw, err := c.Status(ctx)
		if err == nil && json.Unmarshal(raw, &s) == nil && s.Store != "" {
			return s.Store, nil
		}
	} else if !errors.Is(err, control.ErrAway) {
		return "", err
	}
	if to, err := os.Readlink(socket); err == nil {
		socket = to // the link that a daemon leaves is absolute
	}
	return filepath.Abs(filepath.Dir(socket))
}

func (a *app) printVerified(o VerifyOptions, dir string, sum store.Verified) error {
	if o.JSON {
		return a.printJSON(struct {
			Store string `json:"store"`
			Sound bool   `json:"sound"`
			store.Verified
		}{dir, sum.Findings == 0, sum})
	}
	verdict := "is sound"
	if sum.Findings > 0 {
		verdict = fmt.Sprintf("is damaged in %s", term.Count(sum.Findings, "place"))
	}
	_, err := fmt.Fprintf(a.stdout, "%s %s: looked at %s, %d batches, %s, %s, %s\n", dir, verdict,
		term.Count(sum.Segments, "segment"), sum.Batches, term.Count(sum.Packs, "pack"),
		term.Count(sum.Records, "chunk"), term.Bytes(sum.Bytes))
	if err == nil && sum.UnreferencedRecords > 0 {
		_, err = fmt.Fprintf(a.stdout, "nothing refers to %s of them, %s\n",
			term.Count(sum.UnreferencedRecords, "chunk"), term.Bytes(sum.UnreferencedBytes))
	}
	return err
}
