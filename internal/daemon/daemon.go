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
// What a daemon has open is a life. Mostly there is one; a reset ends it and
// begins the next, on the same sockets and under the same lock.
//
// Goroutines, in Serve: one per socket that is served, one that does what runs
// are due as time passes, one that finds what sinks are to be told and one for
// each that is being told; during a reset, one that ends the former serving; the
// packages below list their own.
package daemon

import (
	"context"
	"errors"
	"log/slog"
	"path/filepath"
	"sync/atomic"
	"time"

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
	// ProjectionTimeout is how long an outcome that was received waits for its
	// projection, 0 for the domain's default.
	ProjectionTimeout time.Duration
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
	metrics *metrics
	// mountDir is where the mount is now, for the status: that is asked for
	// through the mount too, from when it is there, before Mount has returned
	// its resolved name. "" for no mount, and when it was taken away.
	mountDir atomic.Pointer[string]
	group    int           // of the sockets; noGroup for none
	link     string        // "" for none
	opened   time.Duration // boot time
	started  time.Time

	// life is what is open; a reset replaces it.
	life   atomic.Pointer[life]
	resets chan resetAsk
}

// Open opens the store and makes sockets and mount. When it fails, nothing is
// left behind but the store. Errors that a user can do something about say
// what.
func Open(ctx context.Context, c Config) (*Daemon, error) {
	d := &Daemon{config: c, log: c.Log, clock: c.Clock, resets: make(chan resetAsk)}
	if d.log == nil {
		d.log = slog.New(slog.DiscardHandler)
	}
	if d.clock == nil {
		d.clock = clock.System
	}
	d.opened, d.started = d.clock.Boot(), d.clock.Now()
	d.metrics = newMetrics(d)
	if err := d.resolve(); err != nil {
		return nil, err
	}
	l := d.newLife()
	for _, step := range []func(context.Context) error{l.openStore, l.makeServer, l.openMount, l.listen} {
		if err := step(ctx); err != nil {
			return nil, errors.Join(err, l.unwind())
		}
	}
	d.life.Store(l)
	d.makeLink()
	return d, nil
}

// now is what is open now.
func (d *Daemon) now() *life { return d.life.Load() }

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

// Config is the configuration, with what was filled in.
func (d *Daemon) Config() Config { return d.config }

// Log is where the daemon says what it does.
func (d *Daemon) Log() *slog.Logger { return d.log }

// Store is the open store. A reset of it makes it another one.
func (d *Daemon) Store() *store.Store { return d.now().store }

// Serve answers until ctx ends; then it finishes what is on its way, unmounts,
// and closes the store. It returns nil when all of that went well, and the
// store's error when it was failing before. When the store is reset, it serves
// the next one in its place.
func (d *Daemon) Serve(ctx context.Context) error {
	for {
		next, err := d.now().serve(ctx)
		if next == nil {
			return errors.Join(d.unlink(), err)
		}
	}
}
