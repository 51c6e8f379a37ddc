package store

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"path/filepath"
	"time"

	"durafs/cas"
	"durafs/internal/ballast"
	"durafs/internal/clock"
	"durafs/internal/dirlock"
	"durafs/internal/vfs"
	"durafs/runs"
	"durafs/wal"
)

func (o Options) withDefaults() Options {
	if o.FS == nil {
		o.FS = vfs.OS
	}
	if o.Clock == nil {
		o.Clock = clock.System
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Lock == nil {
		o.Lock = flock
	}
	return o
}

func flock(path string) (io.Closer, error) {
	l, err := dirlock.Acquire(path)
	if err != nil {
		return nil, err // not l, which would be a Closer that is nil
	}
	return l, nil
}

// Open opens the store in dir, and makes one where there is none: dir may be
// missing or empty. It returns *HeldError when another process has it open,
// *ForeignError when dir holds something else, *FutureError, *ConfigError,
// *FilesystemError, or an error of the operating system.
//
// Damage does not keep a store from opening. Where it is known whose data it
// was, those runs are damaged, and everything else works. Where nobody can
// know, and where the disk is full, the store is open for reading only: see
// Healthy.
func Open(ctx context.Context, dir string, opt Options) (*Store, error) {
	opt = opt.withDefaults()
	begin := opt.Clock.Boot()
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil, err
	}
	exists, err := checkRoot(opt.FS, dir)
	if err != nil {
		return nil, err // before anything is made or locked in somebody's directory
	}
	if !exists {
		if err := makeRoot(opt.FS, dir); err != nil {
			return nil, err
		}
	}
	if err := checkFilesystem(opt.FS, dir); err != nil && !opt.UnsafeFilesystem {
		return nil, err
	}
	lock, err := opt.Lock(filepath.Join(dir, lockName))
	if err != nil {
		return nil, err
	}
	return openLocked(ctx, dir, opt, lock, begin)
}

// openLocked opens the store whose lock is held, and gives the lock back when
// that fails.
func openLocked(ctx context.Context, dir string, opt Options, lock io.Closer, begin time.Duration) (*Store, error) {
	s := &Store{dir: dir, fs: opt.FS, clock: opt.Clock, lock: lock, options: opt}
	err := s.open(ctx, opt)
	if s.canBeRead(err) {
		err = s.openReadOnly(ctx, opt, err)
	}
	if err != nil {
		return nil, errors.Join(err, s.Close(context.WithoutCancel(ctx)))
	}
	s.recovery.TookMS = (opt.Clock.Boot() - begin).Milliseconds()
	return s, nil
}

// open does what needs the lock.
func (s *Store) open(ctx context.Context, opt Options) error {
	exists, err := checkRoot(s.fs, s.dir)
	if err != nil {
		return err
	}
	if exists {
		// It syncs the directory too. A reset whose own sync failed may have left
		// either store.json: what is read after a sync that did not fail is there
		// to stay.
		if err = ensureDirectories(s.fs, s.dir); err == nil {
			s.config, err = readConfig(s.fs, s.dir, configName)
		}
	} else {
		s.config, err = beginCreation(s.fs, s.dir, s.clock)
	}
	if err != nil {
		return err
	}
	s.recovery.Created = !exists || s.config.emptying()
	if s.config.emptying() {
		if err := empty(s.fs, s.dir); err != nil {
			return err
		}
	}
	if err := emptyTmp(s.fs, s.dir); err != nil {
		return err
	}
	s.runs = runs.New(runs.Options{
		Clock: s.clock, StoreKey: s.config.Key, Log: opt.Log, ProjectionTimeout: opt.ProjectionTimeout,
		RunBytesMax: opt.RunBytesMax, StoreBytesMax: opt.StoreBytesMax, Sinks: opt.Sinks, SinkAttempts: opt.SinkAttempts,
	})
	if err := s.openLog(ctx, opt); err != nil {
		return err
	}
	if err := s.openChunks(ctx, opt); err != nil {
		return err
	}
	s.nameLost()
	before := s.runs.Counts()
	s.recovery.Interrupted = before[runs.Running.String()]
	s.recovery.Settled = before[runs.Settling.String()]
	return s.runs.Boot(ctx, s.log, s.chunks)
}

// openLog replays the log into the domain.
func (s *Store) openLog(ctx context.Context, opt Options) error {
	log, found, err := wal.Open(ctx, wal.Options{
		FS: s.fs, Dir: filepath.Join(s.dir, walName), StoreID: s.config.Store,
		Clock: s.clock, Log: opt.Log, OnBarrier: s.onBarrier(opt.OnBarrier), Existing: !s.recovery.Created, Begin: s.config.began(),
		LazyMax: opt.BeatWait, PadBytes: opt.LogPadBytes, BallastBytes: opt.BallastBytes,
		SegmentBytesMax: opt.SegmentBytesMax, SpaceRetryMax: opt.SpaceRetryMax, Derived: s.runs,
		Damaged: s.lost, ReadOnly: s.readOnly,
	}, s.runs.Replay)
	if err != nil {
		return err
	}
	s.log = log
	s.recovery.addLog(found)
	switch {
	case s.config.emptying():
		return s.endReset()
	case s.recovery.Created:
		return endCreation(s.fs, s.dir)
	}
	return nil
}

// openChunks tells the chunk store what the log refers to, so that an earlier
// process's pack is cut behind it.
func (s *Store) openChunks(ctx context.Context, opt Options) error {
	chunks, found, err := cas.Open(ctx, cas.Options{
		FS: s.fs, Dir: filepath.Join(s.dir, casName), StoreID: s.config.Store,
		Ledger: ledger{s.log}, Log: opt.Log, Used: s.runs.UsedPacks(), SeqAfter: s.log.HighWater().Pack,
		Others: s.log.Durable, BallastBytes: s.chunkBallast(opt.BallastBytes),
		PackBytesMax: opt.PackBytesMax,
		KeepAll:      s.runs.KeepPacks(),
	})
	if err != nil {
		return err
	}
	s.chunks = chunks
	s.recovery.addChunks(found)
	s.sweep.unclosed = found.Sealed
	return nil
}

func (s *Store) chunkBallast(bytes int64) int64 {
	if bytes != 0 {
		return bytes
	}
	u, err := s.fs.Usage(s.dir)
	if err != nil {
		return 0
	}
	return ballast.BytesOn(u.SizeBytes)
}

// onBarrier tells the domain, and whoever else asks, of each barrier.
func (s *Store) onBarrier(fn func(Barrier)) func(time.Duration, int, int) {
	return func(took time.Duration, batches, bytes int) {
		s.runs.NoteBarrier(took)
		if fn != nil {
			fn(Barrier{took, batches, bytes})
		}
	}
}

// Close ends the boot: it seals what is open and gives the lock back. What
// could not be closed is reported; the lock is given back all the same, except
// when ctx ended while the log was still being written: another process would
// read what this one goes on writing, so the lock stays until this one ends.
func (s *Store) Close(ctx context.Context) error {
	err := s.closeParts(ctx)
	if err != nil && ctx.Err() != nil && errors.Is(err, ctx.Err()) {
		return err
	}
	return errors.Join(err, s.lock.Close())
}

func (s *Store) closeParts(ctx context.Context) error {
	var errs []error
	s.endSweeps()
	if s.chunks != nil { // first: its last pack is noted in the log's MANIFEST
		errs = append(errs, s.chunks.Close())
	}
	if s.log != nil {
		errs = append(errs, s.log.Close(ctx))
	}
	return errors.Join(errs...)
}
