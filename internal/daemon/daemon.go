// Package daemon puts one durafs daemon together: a store, the two sockets
// that the control API is served on, and the mount.
//
// # The idea
//
// Everything belongs to a Daemon value and nothing to the process, so that a
// test can run several side by side. What is opened is closed in the opposite
// order: new requests end first, then those that are on their way, then the
// mount, and the store last, so that nobody sees a store that is half gone.
// The lock of the store is taken before anything else is touched: sockets, the
// link to them, and a mount that an earlier daemon left behind are only ever
// replaced by whoever holds it.
//
// Goroutines, in Serve: one per socket that is served, one that does what runs
// are due as time passes, one that finds what sinks are to be told and one for
// each that is being told; the packages below list their own.
package daemon

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"path/filepath"
	"sync/atomic"
	"time"

	"durafs/control/server"
	"durafs/fusefs"
	"durafs/internal/clock"
	"durafs/store"
)

// Config says what a daemon serves, and where.
type Config struct {
	// Store is the store's directory; it is made if it is missing.
	Store string
	// Mount is the directory to mount the runs on, "" for no mount.
	Mount string
	// Socket is the path of the control socket, "" for control.sock in the
	// store. The agents' socket stands beside it, see AgentSocket.
	Socket string
	// SocketGroup is a group, by name or number, whose members may connect to
	// both sockets, "" for none. It needs a Socket outside of the store, in a
	// directory of mode 0710 of that group.
	SocketGroup string
	// OwnerUIDs are owners besides root and the daemon's own uid.
	OwnerUIDs []uint32
	// UnsafeFilesystem takes a store on a file system whose locks or syncs
	// cannot be trusted.
	UnsafeFilesystem bool
	// LogPadBytes lets each write of the log begin on a block of its own, 0
	// for none.
	LogPadBytes int64
	// RunBytesMax and StoreBytesMax bound what a run, and all runs together, may
	// count for, in bytes, 0 for no bound.
	RunBytesMax, StoreBytesMax int64
	// RuntimeDir is where the link durafs/control.sock is left for clients,
	// "" for no link.
	RuntimeDir string
	// Sinks are told of each run's end.
	Sinks []Sink
	// SinkTimeout is how long one telling may take, 0 for SinkTimeoutDefault;
	// SinkAttempts how often one that fails is tried, 0 for the domain's default.
	SinkTimeout  time.Duration
	SinkAttempts int
	// Version is what the status tells of the program.
	Version string

	Log   *slog.Logger // nil: discards
	Clock clock.Clock  // nil: clock.System
}

// stopTimeout bounds how long a daemon that was asked to stop waits for
// requests that are on their way, and as long again for readers of the mount.
const stopTimeout = 5 * time.Second

// Daemon is an open daemon: its store is open, its sockets listen and its
// mount is there. Serve makes it answer.
type Daemon struct {
	config  Config
	log     *slog.Logger
	clock   clock.Clock
	store   *store.Store
	server  *server.Server
	metrics *metrics
	mount   *fusefs.Server // nil: none
	// mountDir is where the mount is now, for the status: that is asked for
	// through the mount too, from when it is there, before Mount has returned
	// its resolved name. "" for no mount, and when it was taken away.
	mountDir atomic.Pointer[string]
	control  *net.UnixListener
	agent    *net.UnixListener
	group    int           // of the sockets; noGroup for none
	link     string        // "" for none
	opened   time.Duration // boot time
	started  time.Time

	// undo holds what to close when opening fails half-way, newest last.
	undo []func() error
}

// Open opens the store and makes sockets and mount. When it fails, nothing is
// left behind but the store. Errors that a user can do something about say
// what.
func Open(ctx context.Context, c Config) (_ *Daemon, err error) {
	d := &Daemon{config: c, log: c.Log, clock: c.Clock}
	if d.log == nil {
		d.log = slog.New(slog.DiscardHandler)
	}
	if d.clock == nil {
		d.clock = clock.System
	}
	d.opened, d.started = d.clock.Boot(), d.clock.Now()
	d.metrics = newMetrics(d)
	defer func() {
		if err != nil {
			err = errors.Join(err, d.unwind())
		}
	}()
	if err := d.resolve(); err != nil {
		return nil, err
	}
	for _, step := range []func(context.Context) error{d.openStore, d.makeServer, d.openMount, d.listen, d.makeLink} {
		if err := step(ctx); err != nil {
			return nil, err
		}
	}
	return d, nil
}

// resolve makes the configured paths absolute: they are told to others, and
// must not depend on where this process runs.
func (d *Daemon) resolve() error {
	if d.config.Socket == "" {
		d.config.Socket = filepath.Join(d.config.Store, store.ControlName)
	}
	for _, p := range []*string{&d.config.Store, &d.config.Mount, &d.config.Socket} {
		if *p == "" {
			continue
		}
		abs, err := filepath.Abs(*p)
		if err != nil {
			return err
		}
		*p = abs
	}
	if err := d.resolveGroup(); err != nil {
		return err
	}
	mount := d.config.Mount
	d.mountDir.Store(&mount)
	if mount == "" {
		return nil
	}
	return checkOverlap(d.config.Store, d.config.Mount)
}

func (d *Daemon) openStore(ctx context.Context) error {
	s, err := store.Open(ctx, d.config.Store, store.Options{
		Clock: d.clock, Log: d.log,
		UnsafeFilesystem: d.config.UnsafeFilesystem,
		LogPadBytes:      d.config.LogPadBytes,
		RunBytesMax:      d.config.RunBytesMax,
		StoreBytesMax:    d.config.StoreBytesMax,
		OnBarrier:        d.metrics.barrier,
		Sinks:            sinkNames(d.config.Sinks),
		SinkAttempts:     d.config.SinkAttempts,
	})
	if err != nil {
		return err
	}
	d.store = s
	d.undo = append(d.undo, func() error { return s.Close(context.Background()) })
	return nil
}

func (d *Daemon) makeServer(context.Context) error {
	d.server = server.New(server.Options{
		Runs:      d.store.Runs(),
		Status:    func() any { return d.Status() },
		Healthy:   d.store.Healthy,
		Metrics:   d.metrics.handler(),
		OwnerUIDs: d.config.OwnerUIDs,
		Log:       d.log,
	})
	return nil
}

// Config is the configuration, with what was filled in.
func (d *Daemon) Config() Config { return d.config }

// Log is where the daemon says what it does.
func (d *Daemon) Log() *slog.Logger { return d.log }

// Store is the open store.
func (d *Daemon) Store() *store.Store { return d.store }

// Serve answers until ctx ends; then it finishes what is on its way, unmounts,
// and closes the store. It returns nil when all of that went well, and the
// store's error when it was failing before.
func (d *Daemon) Serve(ctx context.Context) error {
	failed := make(chan error, 2)
	go func() { failed <- d.serve(d.control, server.Control) }()
	go func() { failed <- d.serve(d.agent, server.Agent) }()
	var err error
	running := 2
	attended := d.attend()
	told := d.tellSinks()
	unmounted := d.mountDone()
	for waiting := true; waiting; {
		select {
		case <-ctx.Done():
			waiting = false
		case err = <-failed:
			running--
			waiting = false
		case <-unmounted:
			d.log.Warn("the mount was taken away; the store is served on", "mount", d.config.Mount)
			d.mountDir.Store(new(string))
			unmounted = nil
		}
	}
	err = errors.Join(err, d.stop())
	attended()
	told()
	for range running {
		err = errors.Join(err, <-failed)
	}
	return errors.Join(err, d.unwind())
}

// attend begins to end leases and what else is due as time passes, and returns
// how to end that.
func (d *Daemon) attend() (end func()) {
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() { defer close(ended); d.store.Runs().Attend(ctx) }()
	return func() { cancel(); <-ended }
}

func (d *Daemon) serve(l net.Listener, kind server.Socket) error {
	if err := d.server.Serve(l, kind); err != nil {
		return fmt.Errorf("serving %s: %w", l.Addr(), err)
	}
	return nil
}

// stop ends the serving: nothing new is accepted, what is on its way is
// finished, as far as it does not take too long.
func (d *Daemon) stop() error {
	ctx, cancel := context.WithTimeout(context.Background(), stopTimeout)
	defer cancel()
	d.store.Runs().Hurry() // what waits for a projection is not to keep the server
	if err := d.server.Shutdown(ctx); err != nil && !errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	return nil
}

// unwind closes what was opened, newest first.
func (d *Daemon) unwind() error {
	var errs []error
	for len(d.undo) > 0 {
		last := len(d.undo) - 1
		errs = append(errs, d.undo[last]())
		d.undo = d.undo[:last]
	}
	return errors.Join(errs...)
}
