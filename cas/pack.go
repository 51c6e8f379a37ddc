package cas

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"sync"
	"sync/atomic"
)

// pack is what this process knows of one pack.
type pack struct {
	seq   uint32
	nonce uint64
	// frozen: no put takes a chunk of it for its own, since it is being swept.
	frozen atomic.Bool

	// The sealer owns write, Open before there is one; after the pack is sealed
	// the indexer.
	write struct {
		step      sealStep
		bytes     int64
		b3        ID
		recovered bool // it is of an earlier process: see recover.go
		known     bool // its records are in the table
	}

	// mu guards the rest.
	mu      sync.Mutex
	name    string // path; it changes once, when the pack is sealed
	entries []entry
	written int64 // end of the last record whose write returned
	durable int64 // what lies below is behind a barrier
	syncing bool
	failed  error         // why nothing more becomes durable; the file is not written again
	changed chan struct{} // closed, and made anew, when durable, syncing or failed change
	sealed  bool
	missing bool // the ledger knows it, the directory does not
}

func newPack(p Pack, name string) *pack {
	return &pack{seq: p.Seq, nonce: p.Nonce, name: name, changed: make(chan struct{})}
}

func (p *pack) ledger() Pack { return Pack{Seq: p.seq, Nonce: p.nonce} }

func (p *pack) path() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.name
}

func (p *pack) listed() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.sealed
}

func activeName(dir string, seq uint32) string {
	return filepath.Join(dir, fmt.Sprintf("active-%010d.pack", seq))
}

func sealedName(dir string, b3 ID) string {
	return filepath.Join(dir, b3.String()+".pack")
}

// notify wakes those who wait for a change. The caller holds mu.
func (p *pack) notify() {
	close(p.changed)
	p.changed = make(chan struct{})
}

// fail says that a write to the pack failed.
func (p *pack) fail(err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.failed == nil {
		p.failed = err
		p.notify()
	}
}

// holds reports whether a record that ends at end is, or can still become,
// durable.
func (p *pack) holds(end int64) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return !p.missing && (p.failed == nil || end <= p.durable)
}

// settled waits until no sync runs and tells how far the pack is durable.
func (p *pack) settled() int64 {
	for {
		p.mu.Lock()
		durable, syncing, changed := p.durable, p.syncing, p.changed
		p.mu.Unlock()
		if !syncing {
			return durable
		}
		<-changed
	}
}

// flush returns when all of p below end is durable. Many callers share one
// fdatasync: while one runs, those whose records it does not cover wait for
// the next, which covers all of them.
func (s *Store) flush(ctx context.Context, p *pack, end int64) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	for {
		switch {
		case p.durable >= end:
			return nil
		case p.syncing:
			changed := p.changed
			p.mu.Unlock()
			select {
			case <-changed:
				p.mu.Lock()
			case <-ctx.Done():
				p.mu.Lock()
				return ctx.Err()
			}
		case p.failed != nil:
			return p.failed
		default:
			if err := s.Healthy(); err != nil {
				return err // nothing is acknowledged from then on
			}
			s.barrier(p)
		}
	}
}

// barrier makes durable what was written when it began. The caller holds
// p.mu, which is released while the sync runs.
func (s *Store) barrier(p *pack) {
	p.syncing = true
	covers := p.written
	p.mu.Unlock()
	err := s.syncFile(p)
	p.mu.Lock()
	p.syncing = false
	if err == nil {
		// From here on the records below covers survive a power cut.
		p.durable = max(p.durable, covers)
	} else if p.failed == nil || !errors.Is(p.failed, ErrPoisoned) {
		p.failed = err
	}
	p.notify()
}

// syncFile syncs a pack that this process writes. After a failure nothing is
// known of what was written, so the whole store is poisoned.
func (s *Store) syncFile(p *pack) error {
	h, err := s.files.acquire(p)
	if err != nil {
		return s.poison("open "+p.path()+" to sync it", err)
	}
	defer s.files.release(h)
	s.stats.syncs.Add(1)
	if err := h.f.Datasync(); err != nil {
		return s.poison("sync "+p.path(), err)
	}
	return nil
}
