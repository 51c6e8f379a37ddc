package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"durafs/control"
	"durafs/internal/daemon"
	"durafs/internal/term"
)

// ResetOptions says that a store is to be emptied, and that one is sure.
type ResetOptions struct {
	SocketOption
	Yes   bool
	Force bool
	JSON  bool
}

// AddFlags adds the flags of reset.
func (o *ResetOptions) AddFlags(f *pflag.FlagSet) {
	o.SocketOption.AddFlags(f)
	f.BoolVar(&o.Yes, "yes", false, "do not ask whether one is sure")
	f.BoolVar(&o.Force, "force", false, "also while runs are active; their agents find them gone")
	addJSONFlag(f, &o.JSON, "print the answer, one JSON object")
}

func newResetCommand(a *app) *cobra.Command {
	var o ResetOptions
	cmd := &cobra.Command{
		Use:   "reset",
		Short: "Empty the store: every run, payload, thread, journal and setting goes",
		Long: `Empty the store that the daemon serves, for good: every run with its log and
payloads, threads, journals, scopes, targets and the policy. The daemon goes on,
with a new store id and key, so that every token is void. It is refused while a
run is active, unless --force.

On a terminal it asks for the first word of the store's id; elsewhere it needs
--yes.`,
		GroupID: groupStore,
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if !o.Yes && !term.IsTerminal(a.stderr) {
				return badUsage(cmd, "this empties the store, for good: say --yes")
			}
			return runReset(cmd.Context(), a, o)
		},
	}
	o.AddFlags(cmd.Flags())
	return cmd
}

func runReset(ctx context.Context, a *app, o ResetOptions) error {
	c, err := o.client()
	if err != nil {
		return err
	}
	raw, err := c.Status(ctx)
	if err != nil {
		return err
	}
	var s daemon.Status
	if err := json.Unmarshal(raw, &s); err != nil {
		return fmt.Errorf("the daemon's status cannot be read: %w", err)
	}
	if !o.Yes {
		if err := a.confirmReset(&s); err != nil {
			return err
		}
	}
	done, err := c.Reset(ctx, control.ResetRequest{Store: s.StoreID, Force: o.Force})
	if err != nil {
		return err
	}
	if o.JSON {
		return a.printJSON(done)
	}
	a.note("the store is empty; %s, and its id is %s now", gone(done), done.Store)
	return nil
}

func gone(d control.ResetDone) string {
	switch {
	case d.Runs == 1:
		return "1 run is gone"
	case d.Active > 0:
		return fmt.Sprintf("%d runs are gone, %d of them active", d.Runs, d.Active)
	}
	return fmt.Sprintf("%d runs are gone", d.Runs)
}

// confirmReset asks whoever sits at the terminal for a word that says which store
// is meant.
func (a *app) confirmReset(s *daemon.Status) error {
	word, _, _ := strings.Cut(s.StoreID, "-")
	total := 0
	for _, n := range s.Runs {
		total += n
	}
	fmt.Fprintf(a.stderr, "All %s in %s will be gone. Type %s to go on: ", term.Count(total, "run"), term.Safe(s.Status.Store), word)
	line, err := bufio.NewReader(io.LimitReader(a.stdin, 1000)).ReadString('\n')
	if err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	if strings.TrimSpace(line) != word {
		return errors.New("nothing was done")
	}
	return nil
}
