package daemon

import (
	"context"
	"errors"
	"fmt"
	"net"

	"durafs/control/server"
	"durafs/fusefs"
	"durafs/store"
)

// life is what a daemon has open of one store. Its fields are set before it is
// anyone's to see, and do not change.
type life struct {
	d       *Daemon
	store   *store.Store
	server  *server.Server
	mount   *fusefs.Server // nil: none
	control *net.UnixListener
	agent   *net.UnixListener
	ending  chan struct{} // closed when the serving ends

	// undo holds what to close in the end, newest last. It belongs to whoever
	// opens the life, and then to Serve.
	undo []func() error
}

func (d *Daemon) newLife() *life { return &life{d: d, ending: make(chan struct{})} }

func (l *life) openStore(ctx context.Context) error {
	c := &l.d.config
	s, err := store.Open(ctx, c.Store, store.Options{
		Clock: l.d.clock, Log: l.d.log,
		UnsafeFilesystem: c.UnsafeFilesystem,
		LogPadBytes:      c.LogPadBytes,
		RunBytesMax:      c.RunBytesMax,
		StoreBytesMax:    c.StoreBytesMax,

		ProjectionTimeout: c.ProjectionTimeout,
		OnBarrier:         l.d.metrics.barrier,
		Sinks:             sinkNames(c.Sinks),
		SinkAttempts:      c.SinkAttempts,
	})
	if err != nil {
		return err
	}
	l.take(s)
	return nil
}

// take makes an open store this life's.
func (l *life) take(s *store.Store) {
	l.store = s
	l.undo = append(l.undo, func() error { return s.Close(context.Background()) })
}

func (l *life) makeServer(context.Context) error {
	l.server = server.New(server.Options{
		Runs:      l.store.Runs(),
		Status:    func() any { return l.status() },
		Healthy:   l.store.Healthy,
		Metrics:   l.d.metrics.handler(),
		Reset:     l.askReset,
		Compact:   l.compact,
		OwnerUIDs: l.d.config.OwnerUIDs,
		Log:       l.d.log,
	})
	return nil
}

// serve answers until ctx ends, and closes what is open; or until the store was
// reset, and returns the next life.
func (l *life) serve(ctx context.Context) (next *life, err error) {
	failed := make(chan error, 2)
	go func() { failed <- l.serveOn(l.control, server.Control) }()
	go func() { failed <- l.serveOn(l.agent, server.Agent) }()
	running := 2
	attended := l.attend()
	told := l.tellSinks()
	swept := l.sweeps()
	unmounted := l.mountDone()
	for waiting := true; waiting; {
		select {
		case <-ctx.Done():
			waiting = false
		case err = <-failed:
			running--
			waiting = false
		case ask := <-l.d.resets:
			var over bool
			if next, over, err = l.reset(ctx, ask, func() { attended(); told(); swept() }); over {
				return next, l.joined(err, failed, running)
			}
		case <-unmounted:
			l.d.log.Warn("the mount was taken away; the store is served on", "mount", l.d.config.Mount)
			l.d.mountDir.Store(new(string))
			unmounted = nil
		}
	}
	close(l.ending)
	err = errors.Join(err, l.stop())
	attended()
	told()
	swept()
	err = l.joined(err, failed, running)
	return nil, errors.Join(err, l.unwind())
}

// joined waits for the goroutines that serve, and adds their errors.
func (l *life) joined(err error, failed <-chan error, running int) error {
	for range running {
		err = errors.Join(err, <-failed)
	}
	return err
}

// attend begins to end leases and what else is due as time passes, and returns
// how to end that.
func (l *life) attend() (end func()) {
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() { defer close(ended); l.store.Runs().Attend(ctx) }()
	return func() { cancel(); <-ended }
}

func (l *life) serveOn(on net.Listener, kind server.Socket) error {
	if err := l.server.Serve(on, kind); err != nil {
		return fmt.Errorf("serving %s: %w", on.Addr(), err)
	}
	return nil
}

// stop ends the serving: nothing new is accepted, what is on its way is
// finished, as far as it does not take too long.
func (l *life) stop() error {
	ctx, cancel := context.WithTimeout(context.Background(), stopTimeout)
	defer cancel()
	l.store.Runs().Hurry()          // what waits for a projection is not to keep the server
	defer l.store.Runs().HurryNow() // nobody is there to bring one any more
	if err := l.server.Shutdown(ctx); err != nil && !errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	return nil
}

// unwind closes what was opened, newest first.
func (l *life) unwind() error {
	var errs []error
	for len(l.undo) > 0 {
		last := len(l.undo) - 1
		errs = append(errs, l.undo[last]())
		l.undo = l.undo[:last]
	}
	return errors.Join(errs...)
}
