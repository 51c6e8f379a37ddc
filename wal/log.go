package wal

import (
	"fmt"
	"log/slog"
	"path/filepath"
	"sync"
	"sync/atomic"

	"durafs/internal/vfs"
	"durafs/segment"
)

// Log is an open log. Its methods may be called concurrently.
type Log struct {
	opts  Options
	fs    vfs.FS
	dir   string
	dirf  vfs.Dir // open since before any change of names
	log   *slog.Logger
	state State // set by Start
	man   *manifest
	files *files

	// durable is the highest LSN that is durable and published. accepted
	// counts batches; the writer watches it grow.
	durable  atomic.Uint64
	accepted atomic.Uint64

	// mu is the accept lock. It guards what follows.
	mu sync.Mutex
	// work wakes the committer: a group, a ready segment, poison, close. The
	// writer goroutine and a leader may both wait on it.
	work *sync.Cond
	// idle is true while the writer goroutine waits on work for a group, and
	// leading while a caller of Do commits in its place.
	idle, leading bool
	// next is the LSN of the next batch.
	next uint64
	// queue holds the groups that are accepted and not published, in the
	// order of LSNs. The writer may have the first one.
	queue         []*group
	queuedBytes   int64
	queuedBatches int
	// urgent counts the groups in the queue for which somebody is in a hurry.
	urgent int
	// ready is the next segment, listed and without a frame; nil while the
	// keeper makes it.
	ready *active
	// short says why the next segment could not be made.
	short error
	// poison is why the log takes no changes any more.
	poison  error
	started bool
	closing bool
	// toSeal are segments that will not grow, for the sealer, in the order of
	// their ids; sealingOver is set when none of them will be sealed.
	toSeal      []*segFile
	sealingOver bool
	spare       [][]*Batch // emptied slices of former groups

	// writer is owned by the committer.
	writer writer
	stats  counters

	// unvouched is set by the committer when something became durable that the
	// manifest does not know of, and cleared by the keeper.
	unvouched atomic.Bool
	space     reserve
	// dropping is held by Drop: one at a time.
	dropping sync.Mutex
	// pool holds dropped segments to be used again; it has its own lock.
	pool pool

	keeperKick chan struct{} // something may be to do for the keeper
	ending     chan struct{} // closed when Close begins
	stop       chan struct{} // closed by Close: keeper and sealer end
	writerDone chan struct{}
	sealerKick chan struct{}
	tendDone   sync.WaitGroup // keeper and sealer

	// The keeper owns these: the highest id that a file was ever given.
	lastID uint32
	// made counts the segments that this process made; the keeper writes it.
	made atomic.Int32
}

// active is a segment that this process may write.
type active struct {
	*segFile
	f vfs.File
}

// Start says who owns the values, and lets Submit begin. It is called once.
func (l *Log) Start(state State) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.started {
		panic("wal: Start called twice")
	}
	l.started, l.state = true, state
	if l.opts.ReadOnly != nil {
		close(l.writerDone) // nobody will write
		return
	}
	go func() { defer close(l.writerDone); l.write() }()
	l.tendDone.Go(l.keep)
	l.tendDone.Go(l.sealer)
}

// Durable is the highest LSN known durable and published.
func (l *Log) Durable() uint64 { return l.durable.Load() }

// Healthy is nil, or why the log takes no changes any more.
func (l *Log) Healthy() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.poison
}

// ReadOnly is nil, or why the log was opened to be read only.
func (l *Log) ReadOnly() error {
	if l.opts.ReadOnly == nil {
		return nil
	}
	return l.Healthy()
}

// fail poisons the log: the writer will answer everyone, and end.
func (l *Log) fail(cause error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.failLocked(cause)
}

func (l *Log) failLocked(cause error) {
	if l.poison != nil {
		return
	}
	l.poison = fmt.Errorf("%w: %w", ErrPoisoned, cause)
	l.log.Error("the log takes no changes any more", "cause", cause)
	l.work.Broadcast()
}

func (l *Log) path(name string) string { return filepath.Join(l.dir, name) }

// header is the header block of a new segment.
func (l *Log) header(e segEntry, recycled bool) []byte {
	h := segment.Header{Kind: segment.LogFile, StoreID: l.opts.StoreID, ID: e.ID, Salt: e.Salt, Recycled: recycled}
	return h.Marshal()
}
