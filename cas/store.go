package cas

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"

	"durafs/internal/ballast"
	"durafs/internal/vfs"
)

// Store is an open chunk store. Its methods may be called concurrently.
type Store struct {
	opts      Options
	fs        vfs.FS
	dir       string
	dirHandle vfs.Dir // open since before any change of a name
	log       *slog.Logger
	codec     *bodyCodec
	single    sync.Pool // of *block for one chunk
	several   sync.Pool // of *block for blockChunks
	spaces    sync.Pool // of *workspace
	files     *fileCache
	ballast   *ballast.Ballast
	cache     *chunkCache
	table     *table
	workers   *workers
	spare     chan struct{} // a token for each block that is in use beyond a put's first
	behind    behind
	making    sync.WaitGroup // the goroutine that makes a pack ahead
	sealer    sealer
	indexer   indexer
	tail      atomic.Uint64 // end of the latest record in table, as a slot's place
	stats     counters
	holds     holds
	sweeping  sync.Mutex // held during a Sweep

	// app.mu guards appender; held during a write, never during a flush.
	app struct {
		mu sync.Mutex
		appender
	}

	// mu guards these.
	mu       sync.RWMutex
	packs    map[uint32]*pack
	poisoned error
	closed   bool
	users    sync.WaitGroup // calls that may use workers
}

// Open opens the chunk store in Options.Dir: it ends the packs of earlier
// processes and takes new payloads. What it found is told in Recovery; damage
// does not keep it from opening.
func Open(ctx context.Context, opts Options) (*Store, Recovery, error) {
	opts, err := opts.withDefaults()
	if err != nil {
		return nil, Recovery{}, err
	}
	codec, err := newBodyCodec(opts.encode)
	if err != nil {
		return nil, Recovery{}, err
	}
	s := &Store{
		opts: opts, fs: opts.FS, dir: opts.Dir, log: opts.Log, codec: codec,
		files: newFileCache(opts.FS, openFilesMax),
		cache: newChunkCache(cacheBytesMax),
		table: newTable(tableChunksMax),
		spare: make(chan struct{}, spareBlocksMax),
		packs: make(map[uint32]*pack),
	}
	s.startPools()
	if s.dirHandle, err = s.fs.OpenDir(s.dir); err != nil {
		codec.close()
		return nil, Recovery{}, fmt.Errorf("cas: %w", err)
	}
	s.ballast = ballast.New(s.fs, s.dir, opts.BallastBytes)
	rec, indexes, err := s.recover(ctx)
	if err != nil {
		s.files.close()
		codec.close()
		s.dirHandle.Close()
		return nil, rec, err
	}
	s.tail.Store(uint64(s.app.lastSeq+1) << 32) // all that follows lies behind
	s.workers = startWorkers()
	s.startBehind()
	s.startIndexer(indexes)
	s.startSealer()
	return s, rec, nil
}

func (s *Store) startPools() {
	s.single.New = func() any { return newBlock(1) }
	s.several.New = func() any { return newBlock(blockChunks) }
	s.spaces.New = func() any { return new(workspace) }
}

// enter begins a call that close waits for.
func (s *Store) enter() (leave func(), err error) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if s.closed {
		return nil, ErrClosed
	}
	s.users.Add(1)
	return s.users.Done, nil
}

// Close seals what was written and closes the store. Puts that still read
// their payload fail with ErrClosed; Close waits for them. It returns why the
// store was not healthy, if so; what could not be sealed is by the next Open.
func (s *Store) Close() error {
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return ErrClosed
	}
	s.closed = true
	s.mu.Unlock()

	s.app.mu.Lock()
	s.app.closed = true
	s.retire()
	s.dropNext()
	s.app.mu.Unlock()

	s.users.Wait()
	s.behind.close()
	s.making.Wait()
	close(s.sealer.queue)
	<-s.sealer.done
	s.indexer.close()
	s.workers.close()
	s.files.close()
	s.codec.close()
	return errors.Join(s.Healthy(), s.dirHandle.Close())
}

// Healthy returns why the store takes no payloads any more: an error that is
// ErrPoisoned and what caused it. It says nothing about a full disk.
func (s *Store) Healthy() error {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.poisoned
}

// poison ends all writing after a failed sync.
func (s *Store) poison(what string, err error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.poisoned == nil {
		s.poisoned = fmt.Errorf("%w: %s: %w", ErrPoisoned, what, err)
		s.log.Error("the chunk store takes no more payloads", "what", what, "err", err)
	}
	return s.poisoned
}

func (s *Store) pack(seq uint32) *pack {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.packs[seq]
}
