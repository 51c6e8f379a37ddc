package main

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"durafs/internal/daemon"
)

// statusPoll is how often a daemon that is not ready is asked again.
const statusPoll = 50 * time.Millisecond

// statusWait is how long a daemon may take to answer that was not given a time:
// one that hangs is what status is there to tell.
const statusWait = 10 * time.Second

// StatusOptions says how to ask for the daemon's state.
type StatusOptions struct {
	SocketOption
	Wait time.Duration
	JSON bool
}

// AddFlags adds the flags of status.
func (o *StatusOptions) AddFlags(f *pflag.FlagSet) {
	o.SocketOption.AddFlags(f)
	f.DurationVar(&o.Wait, "wait", 0, "wait up to this long for the daemon to be ready")
	addJSONFlag(f, &o.JSON, "print the daemon's whole answer, one JSON object")
}

func newStatusCommand(a *app) *cobra.Command {
	var o StatusOptions
	cmd := &cobra.Command{
		Use:   "status",
		Short: "Tell whether the daemon is ready, and the state of its store",
		Long: `Tell whether the daemon is ready, and the state of its store.

Exits 0 when the daemon is ready and well, 1 when it answers but takes no
writes (the line "health" says why), 3 when no daemon could be reached.`,
		GroupID: groupStore,
		Example: "  durafs serve & durafs status --wait 10s",
		Args:    cobra.NoArgs,
		RunE:    func(cmd *cobra.Command, _ []string) error { return runStatus(cmd.Context(), a, o) },
	}
	o.AddFlags(cmd.Flags())
	return cmd
}

func runStatus(ctx context.Context, a *app, o StatusOptions) error {
	raw, err := o.ask(ctx)
	if err != nil {
		return err
	}
	var s daemon.Status
	if err := json.Unmarshal(raw, &s); err != nil {
		return fmt.Errorf("the daemon's answer is not what it should be: %w", err)
	}
	if o.JSON {
		err = a.printJSON(raw)
	} else {
		err = s.WriteText(a.stdout)
	}
	if err == nil && !s.Well() {
		return exitWith(exitFailed)
	}
	return err
}

// ask asks the daemon, until it is ready or o.Wait is over.
func (o *StatusOptions) ask(ctx context.Context) (json.RawMessage, error) {
	if o.Wait <= 0 {
		ctx, cancel := context.WithTimeout(ctx, statusWait)
		defer cancel()
		raw, err := o.askOnce(ctx)
		if ctx.Err() != nil {
			err = notReady(statusWait, err)
		}
		return raw, err
	}
	ctx, cancel := context.WithTimeout(ctx, o.Wait)
	defer cancel()
	tick := time.NewTicker(statusPoll)
	defer tick.Stop()
	var last error
	for {
		raw, err := o.askOnce(ctx)
		if err == nil || hopeless(err) { // a refusal will be the same later
			return raw, err
		}
		if last == nil || ctx.Err() == nil {
			last = err
		}
		select {
		case <-ctx.Done():
			return nil, notReady(o.Wait, last)
		case <-tick.C:
		}
	}
}

// notReady is the error of a daemon that gave no answer in time. One that takes
// the connection is there, and hangs or is busy.
func notReady(wait time.Duration, last error) error {
	e := &codeError{code: exitAway, err: fmt.Errorf("the daemon is not ready after %v: %w", wait, last)}
	if exitCode(last) != exitAway {
		e.next = "it takes connections, but does not answer: look at its log, and whether it is stopped or waits for the disk"
	}
	return e
}

// askOnce asks with a client of its own: where there was no socket to be found
// there may be one the next time.
func (o *StatusOptions) askOnce(ctx context.Context) (json.RawMessage, error) {
	c, err := o.client()
	if err != nil {
		return nil, err
	}
	defer c.CloseIdle()
	return c.Status(ctx)
}
