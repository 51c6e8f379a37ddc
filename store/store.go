// Package store opens one store: the directory that holds a log, a chunk
// store and the domain above them, under one lock.
//
// # The idea
//
// A store is a directory that exists from the moment its store.json does:
// everything else is made before it, and a directory without one is either
// empty of anything of ours or is left alone. Opening takes the lock, replays
// the log into the domain, tells the chunk store what the log still refers to,
// and then begins a new boot. The packages below know nothing of each other;
// what one needs of another (the list of packs stands in the log's MANIFEST)
// is handed over here.
package store

import (
	"errors"
	"io"
	"log/slog"
	"time"

	"durafs/cas"
	"durafs/internal/clock"
	"durafs/internal/vfs"
	"durafs/runs"
	"durafs/wal"
)

// Options of Open. The zero value opens a store of the operating system.
type Options struct {
	FS    vfs.FS       // nil: vfs.OS
	Clock clock.Clock  // nil: clock.System
	Log   *slog.Logger // nil: discards
	// UnsafeFilesystem opens a store on a file system whose locks or syncs
	// cannot be trusted.
	UnsafeFilesystem bool
	// OnBarrier is told of every barrier of the log; nil: nobody is.
	OnBarrier func(b Barrier)
	// BeatWait is how long a heartbeat may wait for other writes to share a
	// barrier with; 0 is a second.
	BeatWait time.Duration
	// ProjectionTimeout is how long an outcome waits for its projection; 0 is
	// runs.ProjectionTimeout.
	ProjectionTimeout time.Duration
	// RunBytesMax and StoreBytesMax bound what a run, and all runs together, may
	// count for, in bytes: see runs.Options. 0 for no bound.
	RunBytesMax, StoreBytesMax int64
	// Sinks are the names of those who are told of each run's end, and
	// SinkAttempts how often one that fails is tried: see runs.Options.
	Sinks        []string
	SinkAttempts int
	// LogPadBytes lets each write of the log begin on a block of that size of
	// its own: a power of two up to 4096, 0 for none.
	LogPadBytes int64
	// BallastBytes is the size of the file in wal/ and in cas/ that is given up when the
	// disk is full; 0 is 4 MiB or less on a small file system, below 0 none.
	BallastBytes int64

	// What follows is for stores on a file system that is not the operating
	// system's, as a simulated disk is. SegmentBytesMax and PackBytesMax make
	// files small; 0 is the usual. SpaceRetryMax bounds how long lies between two
	// looks for space; 0 is a second. Lock takes the store's lock; nil is flock.
	SegmentBytesMax, PackBytesMax int64
	SpaceRetryMax                 time.Duration
	Lock                          func(path string) (io.Closer, error)
}

// Store is an open store. Its methods may be called concurrently.
type Store struct {
	dir      string
	config   config
	fs       vfs.FS
	clock    clock.Clock
	runs     *runs.Store
	log      *wal.Log
	chunks   *cas.Store
	recovery Recovery
	readOnly error // why the store is open for reading only, nil if it is not
	lock     io.Closer
	options  Options // that it was opened with
	sweep    sweep
}

// Dir is the store's directory, absolute.
func (s *Store) Dir() string { return s.dir }

// ID is the store's uuid. A reset gives it another one.
func (s *Store) ID() string { return s.config.Store.String() }

// Runs is the domain.
func (s *Store) Runs() *runs.Store { return s.runs }

// Log is the log under the domain; benchmarks append to it directly.
func (s *Store) Log() *wal.Log { return s.log }

// Chunks is the chunk store under the domain.
func (s *Store) Chunks() *cas.Store { return s.chunks }

// Recovery tells what Open found and did.
func (s *Store) Recovery() Recovery { return s.recovery }

// Healthy is nil, or why the store takes no more writes.
func (s *Store) Healthy() error {
	return errors.Join(s.log.Healthy(), s.chunks.Healthy())
}
