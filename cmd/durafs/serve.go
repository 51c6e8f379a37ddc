package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"durafs/internal/daemon"
	"durafs/runs"
	"durafs/store"
	"durafs/wal"
)

// storeDefault is the store's directory; clients look for its socket there.
const storeDefault = ".durafs"

// ServeOptions says what the daemon serves, and where.
type ServeOptions struct {
	Store            string
	Mount            string
	NoMount          bool
	Socket           string
	SocketGroup      string
	OwnerUIDs        []uint
	UnsafeFilesystem bool
	PadBytes         int64
	RunBytesMax      int64
	StoreBytesMax    int64
	NoSupervise      bool
	OnTerminal       []string
	SinkTimeout      time.Duration
	SinkAttempts     int
	LogLevel         slog.Level
}

// AddFlags adds the flags of serve.
func (o *ServeOptions) AddFlags(f *pflag.FlagSet) {
	f.StringVar(&o.Store, "store", storeDefault, "the store's directory; it is made if it is missing")
	f.StringVar(&o.Mount, "mount", "", "the directory to show the runs in, read-only; it is made if it is missing")
	f.BoolVar(&o.NoMount, "no-mount", false, "serve without a mount, which is also the default")
	f.StringVar(&o.Socket, "socket", "", "the control socket's path (default: control.sock in the store)")
	f.StringVar(&o.SocketGroup, "socket-group", "", "a `group` whose members may connect too; needs --socket outside the store, in a directory 0710 of that group")
	f.UintSliceVar(&o.OwnerUIDs, "owner-uid", nil, "a further uid that may do everything, besides root and our own (may be repeated)")
	f.BoolVar(&o.UnsafeFilesystem, "unsafe-filesystem", false, "take a store on a network or other file system whose locks and syncs cannot be trusted")
	f.Int64Var(&o.PadBytes, "pad", 0, "begin each write of the log on a block of so many `bytes` of its own (512 to 4096): for disks that can lose a block while it is rewritten")
	f.Int64Var(&o.RunBytesMax, "run-bytes-max", 0, "let a run hold at most so many `bytes`, 0 for no bound; see docs/api.md")
	f.Int64Var(&o.StoreBytesMax, "store-bytes-max", 0, "let all runs together hold at most so many `bytes`, 0 for no bound")
	f.BoolVar(&o.NoSupervise, "no-supervise", false, "do not run interrupted commands of durafs exec again; see durafs supervise")
	f.StringArrayVar(&o.OnTerminal, "on-terminal", nil, "a `command`, or name=command, that is run at the end of every run, with what became of it on standard input; until it exits 0 (may be repeated)")
	f.DurationVar(&o.SinkTimeout, "sink-timeout", daemon.SinkTimeoutDefault, "how long a command of --on-terminal may take")
	f.IntVar(&o.SinkAttempts, "sink-attempts", runs.SinkAttemptsDefault, "how often a command of --on-terminal that fails is tried, with growing pauses, before that is left to durafs outbox")
	f.TextVar(&o.LogLevel, "log-level", slog.LevelInfo, "debug, info, warn or error")
}

func newServeCommand(a *app) *cobra.Command {
	var o ServeOptions
	cmd := &cobra.Command{
		Use:   "serve [--store DIR] [--mount DIR | --no-mount] [--socket PATH]",
		Short: "Serve a store: the daemon",
		Long: `Serve a store: the daemon. It stays in the foreground, says on standard error
what it serves and what it found, and is ready when durafs status exits 0.

SIGTERM or SIGINT stop it: it finishes what is on its way, unmounts, seals the
log and exits 0, or 1 when the disk had failed it. SIGKILL harms nothing that
was acknowledged.

The owner's socket is control.sock in the store, the one for agents agent.sock
beside it; a link to the first is left in $XDG_RUNTIME_DIR/durafs. The mount
needs /dev/fuse, and for users other than root the program fusermount3.`,
		GroupID: groupStore,
		Example: "  durafs serve --store /var/lib/durafs --mount /mnt/runs",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if o.Mount != "" && o.NoMount {
				return badUsage(cmd, "--mount and --no-mount exclude each other")
			}
			if o.Store == "" {
				return badUsage(cmd, "--store is empty")
			}
			if o.RunBytesMax < 0 || o.StoreBytesMax < 0 {
				return badUsage(cmd, "--run-bytes-max and --store-bytes-max are not below 0")
			}
			if _, err := daemon.ParseSinks(o.OnTerminal); err != nil {
				return badUsage(cmd, "--on-terminal: %v", err)
			}
			if o.SinkTimeout <= 0 || o.SinkAttempts < 1 || o.SinkAttempts > runs.SinkAttemptsMax {
				return badUsage(cmd, "--sink-timeout is above 0, and --sink-attempts from 1 to %d", runs.SinkAttemptsMax)
			}
			return runServe(cmd.Context(), a, o)
		},
	}
	o.AddFlags(cmd.Flags())
	return cmd
}

func runServe(ctx context.Context, a *app, o ServeOptions) error {
	// From here on: a signal while the store is being opened stops it too.
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
	defer stop()
	d, err := daemon.Open(ctx, o.config(a))
	if err != nil {
		if ctx.Err() != nil && errors.Is(err, context.Canceled) {
			return nil // asked to stop before it had begun
		}
		return openError(err)
	}
	a.greet(d)
	asked := context.AfterFunc(ctx, func() {
		a.note("serve: stopping")
		stop() // a second signal ends us at once
	})
	defer asked() // before stop: an end by itself was not asked for
	if !o.NoSupervise {
		defer a.supervise(ctx, d)()
	}
	if err := d.Serve(ctx); err != nil {
		return fmt.Errorf("stopped: %w", err)
	}
	a.note("serve: stopped")
	return nil
}

// supervise begins to look after interrupted commands, and returns how to end
// that.
func (a *app) supervise(ctx context.Context, d *daemon.Daemon) (end func()) {
	ctx, cancel := context.WithCancel(ctx)
	ended := make(chan struct{})
	s := newSupervisor(a, d.Config().Socket, d.Log())
	go func() { defer close(ended); s.run(ctx) }()
	return func() { cancel(); <-ended }
}

// openError says what to do about a store that cannot be served. Most errors
// say it themselves.
func openError(err error) error {
	var held *store.HeldError
	var damage *wal.DamageError
	switch {
	case errors.As(err, &held):
		return failed(err, "a daemon serves this store already: use that one (durafs status), or stop it first")
	case errors.As(err, &damage):
		return failed(err, "durafs verify --store DIR names everything that is damaged")
	case errors.Is(err, syscall.EROFS):
		return failed(err, "a store needs to be written to; mount its file system read-write")
	case errors.Is(err, syscall.ENOSPC):
		return failed(err, "free some space on the store's file system")
	}
	return err
}

func (o *ServeOptions) config(a *app) daemon.Config {
	c := daemon.Config{
		Store: o.Store, Mount: o.Mount, Socket: o.Socket, SocketGroup: o.SocketGroup,
		UnsafeFilesystem: o.UnsafeFilesystem,
		LogPadBytes:      o.PadBytes,
		RunBytesMax:      o.RunBytesMax,
		StoreBytesMax:    o.StoreBytesMax,
		RuntimeDir:       a.getenv("XDG_RUNTIME_DIR"),
		Version:          readVersion().Version,
		Log:              slog.New(slog.NewTextHandler(a.stderr, &slog.HandlerOptions{Level: o.LogLevel})),
		Clock:            a.clock,
	}
	c.Sinks, _ = daemon.ParseSinks(o.OnTerminal) // it was checked
	c.SinkTimeout, c.SinkAttempts = o.SinkTimeout, o.SinkAttempts
	for _, uid := range o.OwnerUIDs {
		c.OwnerUIDs = append(c.OwnerUIDs, uint32(uid))
	}
	return c
}

// greet says what is served. Scripts may wait for the last line, but better
// for durafs status.
func (a *app) greet(d *daemon.Daemon) {
	s := d.Status()
	mount := s.Mount
	if mount == "" {
		mount = "none"
	}
	a.note("store    %s (%s)", s.Store, s.StoreID)
	a.note("recovery %s", daemon.RecoveryText(s.Recovery))
	a.note("sockets  %s, for agents %s", s.Socket, s.Agents)
	a.note("mount    %s", mount)
	a.note("policy   %s", daemon.PolicyText(s.Policy))
	if !s.Well() {
		a.note("health   %s", s.Health)
	}
	a.note("ready")
}
