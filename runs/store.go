package runs

import (
	"context"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"durafs/cas"
	"durafs/internal/clock"
	"durafs/wal"
)

// Options of a store. Zero fields have defaults, but for StoreKey.
type Options struct {
	Clock clock.Clock // default clock.System
	// StoreKey is the secret that writer tokens are made with.
	StoreKey []byte
	Log      *slog.Logger // default discards
	// ProjectionTimeout is how long an outcome waits for its projection: default
	// ProjectionTimeout, at most ProjectionTimeoutMax.
	ProjectionTimeout time.Duration
	// RunBytesMax and StoreBytesMax bound what a run, and what all runs together
	// may count for (see quota.go), in bytes; 0 for no bound.
	RunBytesMax, StoreBytesMax int64
	// Sinks are the names of those who are told of each run's end, as CheckSinks
	// takes them; SinkAttempts is how often one that fails is tried before the
	// delivery is parked: default SinkAttemptsDefault, at most SinkAttemptsMax.
	Sinks        []string
	SinkAttempts int
}

// Store is the open domain. Its methods may be called concurrently once Boot
// has returned.
//
// It is a wal.State: Publish and Reset are the log's to call.
type Store struct {
	clock  clock.Clock
	key    []byte
	logger *slog.Logger
	quota  quota

	// Set by Boot, before anything is served.
	log    *wal.Log
	cas    *cas.Store
	bootID string
	listen func([]Change) // set by Listen

	// mu guards the index (published values) and acc (accepted ones). Accept
	// steps and Publish hold it for the time of a batch; readers copy what
	// they need and leave. It is taken inside the log's accept lock, never
	// the other way round.
	mu        sync.RWMutex
	index     index
	acc       accepted
	published uint64            // LSN
	packs     map[uint32]uint32 // what replay saw referred to; nil once booted
	losses    int               // how often ReplayLost was called
	replaying batch             // the batch that Replay is at; empty once booted

	// footers are those of the log. tables are the run tables in them that
	// count; sealing is what was derived last, until its segment is sealed. The
	// two are written while the log is opened, and by its sealer.
	footers    footers
	tables     []tableRef
	sealing    *derived
	sealedRuns sealedCache
	// sealedWhole is what the sealed segments leave of the whole store; it is
	// the sealer's, once restored says that it was set.
	sealedWhole whole
	restored    bool
	// left is what tables and threads have left out, while the log is opened.
	left []leftOut

	// rotten are payloads that readers found damaged, at most DamagePayloadsMax,
	// as run/name; mu guards it.
	rotten map[string]bool

	// numbers is the highest run number given, published or not.
	numbers atomic.Uint32

	// over is set when nothing is accepted any more; mu guards it.
	over bool

	waiting waiting
	duty    duty
	feed    feed
	locks   locks // mu guards them
	outbox  outbox

	copies   chan struct{}      // holds a value for each copy under way
	copyStep func([]*wal.Batch) // told each step of copies; a test's, else nil

	projectings       projectings
	projectionTimeout time.Duration
}

// New makes a store without content: Replay gives it its past, Boot its life.
func New(o Options) *Store {
	if o.Clock == nil {
		o.Clock = clock.System
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.ProjectionTimeout <= 0 {
		o.ProjectionTimeout = ProjectionTimeout
	}
	return &Store{
		clock: o.Clock, key: o.StoreKey, logger: o.Log, quota: quota{o.RunBytesMax, o.StoreBytesMax},
		index: newIndex(), acc: newAccepted(), locks: locks{}, packs: map[uint32]uint32{},
		rotten:            map[string]bool{},
		outbox:            newOutbox(o.Sinks, o.SinkAttempts),
		copies:            make(chan struct{}, copiesMax),
		projectings:       projectings{hurry: make(chan struct{}), now: make(chan struct{})},
		projectionTimeout: min(o.ProjectionTimeout, ProjectionTimeoutMax),
	}
}

// footers gives the sections of sealed segments; it is the log.
type footers interface {
	Sections(seg uint32) (wal.Sections, bool)
}

// Replay applies a batch that was read back; it is the callback of opening the
// log. A batch that does not apply is an error, and the store is not usable.
func (s *Store) Replay(f wal.Frame) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.endRestore()
	b := &s.replaying
	if err := b.decode(f.Payload); err != nil {
		return err
	}
	if _, err := s.index.apply(b, f.LSN, f.Pos); err != nil {
		return err
	}
	s.published = f.LSN
	s.feed.replay(f.LSN, feedOf(b, f.LSN, func(n int) place { return makePlace(f.Pos, n) }))
	return s.noteHints(b)
}

// noteHints collects where packs must be kept.
func (s *Store) noteHints(b *batch) error {
	for _, e := range b.entries {
		if e.kind != kindPayload {
			continue
		}
		p, err := parsePayload(e)
		if err != nil {
			return err
		}
		if h := p.ref.Hint; h != (cas.Hint{}) {
			s.packs[h.Pack] = max(s.packs[h.Pack], h.End)
		}
	}
	return nil
}

// UsedPacks tells, after replay, up to which offset each pack is referred to
// by something durable: what lies behind was never acknowledged.
func (s *Store) UsedPacks() map[uint32]uint32 { return s.packs }

// KeepPacks reports whether UsedPacks is not all that is referred to, since
// something of the log is lost.
func (s *Store) KeepPacks() bool { return s.losses > 0 }

// BootID names this life of the store: random, new at each Boot.
func (s *Store) BootID() string { return s.bootID }

// Counts tells how many runs there are in each phase that has any.
func (s *Store) Counts() map[string]int {
	s.mu.RLock()
	defer s.mu.RUnlock()
	counts := map[string]int{}
	for p, n := range s.index.counts {
		if n > 0 {
			counts[Phase(p).String()] = n
		}
	}
	return counts
}

// readBatch reads the batch at pos from the log.
func (s *Store) readBatch(pos wal.Position) (*batch, error) {
	f, _, err := s.log.ReadBatch(pos, nil)
	if err != nil {
		return nil, err
	}
	return decodeBatch(f.Payload)
}

// readRecord reads the record entry at p.
func (s *Store) readRecord(p place) (*record, error) {
	b, err := s.readBatch(p.pos())
	if err != nil {
		return nil, err
	}
	if int(p.entry) >= len(b.entries) || b.entries[p.entry].kind != kindRecord {
		return nil, badBatch("it has no record where the index says")
	}
	return parseRecord(b.entries[p.entry], unixTime(b.stamp.at))
}

// readEntry reads the entry at p, which must be of kind k.
func (s *Store) readEntry(p place, k kind) (*batch, entry, error) {
	b, err := s.readBatch(p.pos())
	if err != nil {
		return nil, entry{}, err
	}
	if int(p.entry) >= len(b.entries) || b.entries[p.entry].kind != k {
		return nil, entry{}, badBatch("it has no entry of kind %d where the index says", k)
	}
	return b, b.entries[p.entry], nil
}

// current is a run's newest accepted record, to make the next revision of. That
// there is no such run any more (its start was refused, or undone) is an
// UnknownRun, and that it is damaged RunDamaged. Whether it still is the newest,
// the accept step checks by its revision.
func (s *Store) current(num uint32) (*record, error) {
	s.mu.RLock()
	l := s.view(num)
	switch {
	case l == nil:
		s.mu.RUnlock()
		return nil, goneRun()
	case s.index.isDamaged(num): // there is no next one, and nobody knows which this is
		defer s.mu.RUnlock()
		return nil, s.refuseDamaged(num)
	case l.rec != nil:
		defer s.mu.RUnlock()
		return l.rec, nil
	}
	c, i := s.index.at(num)
	at := c.record[i]
	s.mu.RUnlock()
	rec, err := s.readRecord(at)
	s.foundDamage(num, err)
	return rec, err
}

// attemptsMax bounds how often a step is prepared anew because the run changed
// while it was prepared.
const attemptsMax = 100

// retry runs try until it says done. What a request prepares outside of the
// accept step (the next record, which rows are new) can be overtaken by
// another request of the same run; then it is prepared again.
func retry(ctx context.Context, try func() (done bool, err error)) error {
	for range attemptsMax {
		if done, err := try(); done || err != nil {
			return err
		}
		if err := ctx.Err(); err != nil {
			return err
		}
	}
	return wal.ErrBusy
}
