package main

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"durafs/control"
)

// SuperviseOptions are the flags of supervise.
type SuperviseOptions struct {
	SocketOption
	JSON bool
}

func newSuperviseCommand(a *app) *cobra.Command {
	var o SuperviseOptions
	cmd := &cobra.Command{
		Use:   "supervise",
		Short: "Run commands again that were interrupted, where that does no harm",
		Long: `Run the commands of durafs exec again that a crash has interrupted: those that
our own user started, and whose --safety is read-only or idempotent. All others
wait for their owner: durafs exec --resume RUN.

For a lease after its loss a run waits for its own exec to come back; it is
dispatched at once where the processes of both exec and command are known to be
gone, and not at all while one of them lives. A command is begun at most five
times without its owner.

durafs serve does the same, unless it has --no-supervise. What was dispatched
goes on when the supervisor ends.`,
		GroupID: groupStore,
		Args:    cobra.NoArgs,
		RunE:    func(cmd *cobra.Command, _ []string) error { return runSupervise(cmd.Context(), a, o) },
	}
	o.SocketOption.AddFlags(cmd.Flags())
	addJSONFlag(cmd.Flags(), &o.JSON, "say what is done as JSON objects on standard error")
	return cmd
}

func runSupervise(ctx context.Context, a *app, o SuperviseOptions) error {
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
	defer stop()
	c, err := o.client()
	if err != nil {
		return err
	}
	if _, err := c.Resumable(ctx); err != nil { // as somebody who may
		return err
	}
	path, err := o.path()
	if err != nil {
		return err
	}
	var h slog.Handler = slog.NewTextHandler(a.stderr, nil)
	if o.JSON {
		h = slog.NewJSONHandler(a.stderr, nil)
	}
	return newSupervisor(a, path, slog.New(h)).run(ctx)
}

const (
	// superviseEvery is how often the supervisor looks for runs, superviseSoon
	// how often while one of them waits for its time.
	superviseEvery = 2 * time.Second
	superviseSoon  = 250 * time.Millisecond
	// dispatchedMax bounds the commands that one supervisor runs at the same
	// time.
	dispatchedMax = 16
	// commandRunsMax is how often a command is begun without its owner.
	commandRunsMax = 5
	// dispatchTimeout bounds the requests that one dispatch takes.
	dispatchTimeout = 20 * time.Second
)

// supervisor dispatches runs of exec. Its fields belong to the goroutine of run.
type supervisor struct {
	app    *app
	client *control.Client
	socket string // absolute
	log    *slog.Logger
	uid    uint32

	// requests are the resume requests that were read, nil for a run that is not
	// dispatched by itself. What is not offered any more is forgotten.
	requests map[string]*execRequest
	// running are the runs that were dispatched and whose exec has not ended.
	running map[string]bool
	ended   chan string // has room for all of them
}

func newSupervisor(a *app, socket string, log *slog.Logger) *supervisor {
	return &supervisor{
		app: a, client: &control.Client{Socket: socket}, socket: socket, log: log, uid: uint32(os.Getuid()),
		requests: map[string]*execRequest{}, running: map[string]bool{}, ended: make(chan string, dispatchedMax),
	}
}

// run looks after runs until ctx ends.
func (s *supervisor) run(ctx context.Context) error {
	defer s.client.CloseIdle()
	for {
		every := superviseEvery
		soon, err := s.look(ctx)
		switch {
		case ctx.Err() != nil:
			return nil
		case err != nil && !errors.Is(err, control.ErrAway):
			s.log.Warn("supervise: the runs that may be resumed are not known", "err", err)
		case soon:
			every = superviseSoon
		}
		select {
		case id := <-s.ended:
			delete(s.running, id)
		case <-s.app.after(every):
		case <-ctx.Done():
			return nil
		}
	}
}

// look dispatches what can be dispatched. soon says that something waits for
// its time.
func (s *supervisor) look(ctx context.Context) (soon bool, err error) {
	offers, err := s.client.Resumable(ctx)
	if err != nil {
		return false, err
	}
	known := s.requests
	s.requests = map[string]*execRequest{}
	for _, f := range offers {
		if f.UID != s.uid || !f.Available {
			continue
		}
		r, ok := known[f.ID]
		if !ok {
			if r, ok = s.request(ctx, f.ID); !ok {
				continue // it is tried again
			}
		}
		s.requests[f.ID] = r
		if r == nil || s.running[f.ID] || len(s.running) >= dispatchedMax {
			continue
		}
		done, err := s.consider(ctx, f)
		if err != nil && ctx.Err() == nil {
			s.log.Warn("supervise: not dispatched", "run", f.ID, "err", err)
		}
		soon = soon || !done
	}
	return soon, nil
}

// request reads what a run was started with; nil where it is not to be
// dispatched without its owner. A run whose command is not known to stand being
// run twice may have begun it before its claim was recorded.
func (s *supervisor) request(ctx context.Context, id string) (r *execRequest, ok bool) {
	got, err := readExecRequest(ctx, s.client, id, "")
	switch {
	case errors.Is(err, errNotExec):
		return nil, true
	case err != nil:
		return nil, false
	case got.Safety != control.ReadOnly && got.Safety != control.Idempotent:
		s.log.Info("supervise: its owner decides whether the command runs again: durafs exec --resume", "run", id, "safety", got.Safety)
		return nil, true
	}
	return &got, true
}
