package cas

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
)

// sealStep says how far the sealing of a pack has come; each step is done
// once, so that sealing can go on after an error.
type sealStep uint8

const (
	sealFooter sealStep = iota
	sealRename
	sealLedger
	sealCut // only of a pack that a write failed on
	sealDone
)

// sealer is the goroutine that seals packs, in the order of their numbers: a
// manifest refers to records of its own pack and of earlier ones, so that at
// open all packs that may be cut are at the end of the list, behind no sealed
// one that could still refer to them.
//
// A full pack gets its footer at once. Its hash is put off while payloads come
// in, which need the processors: it is in nobody's way but the next Open's, so
// that at most unhashedMax packs wait for it. They are read, and found, like
// the active one.
type sealer struct {
	queue chan full
	quiet chan struct{} // no put runs; holds at most one
	done  chan struct{}

	puts atomic.Int64 // that run

	// The goroutine owns waiting, packs that are full and not sealed, and
	// failed: the latest attempt to seal one did.
	waiting []full
	failed  bool

	// mu guards err: why more than unhashedMax packs wait; and turn, which is
	// closed, and made anew, when what waited was tried.
	mu   sync.Mutex
	err  error
	turn chan struct{}
}

// full is a pack that is not appended to any more, and its file.
type full struct {
	p *pack
	h *handle // nil for a pack of an earlier process
}

func (f full) release(c *fileCache) {
	if f.h != nil {
		c.release(f.h)
	}
}

func (s *Store) startSealer() {
	s.sealer.queue = make(chan full, sealQueueMax)
	s.sealer.quiet = make(chan struct{}, 1)
	s.sealer.turn = make(chan struct{})
	s.sealer.done = make(chan struct{})
	go s.runSealer()
}

func (s *Store) runSealer() {
	defer close(s.sealer.done)
	s.refill()
	for {
		select {
		case <-s.sealer.quiet:
			if !s.sealer.failed { // else it is tried again with the next pack
				s.sealWaiting()
			}
		case f, ok := <-s.sealer.queue:
			if !ok {
				s.sealWaiting()
				s.leaveWaiting()
				return
			}
			if f.p != nil {
				s.sealer.waiting = append(s.sealer.waiting, f)
			}
			s.sealWaiting()
			s.refill()
		}
	}
}

// leaveWaiting gives up what could not be sealed; the next Open does it.
func (s *Store) leaveWaiting() {
	for _, f := range s.sealer.waiting {
		f.release(s.files)
	}
}

// putBegins and putEnds tell the sealer when it is in nobody's way.
func (q *sealer) putBegins() { q.puts.Add(1) }

func (q *sealer) putEnds() {
	if q.puts.Add(-1) > 0 {
		return
	}
	select {
	case q.quiet <- struct{}{}:
	default:
	}
}

// mayHash reports whether it is time to hash a pack.
func (q *sealer) mayHash() bool { return q.puts.Load() == 0 || len(q.waiting) > unhashedMax }

// give takes over a pack. It blocks while sealing is behind.
func (q *sealer) give(p *pack, h *handle) { q.queue <- full{p, h} }

// behind returns why sealing does not come forward, and has it tried again.
func (q *sealer) behind() error {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.err != nil {
		select {
		case q.queue <- full{}:
		default:
		}
	}
	return q.err
}

func (s *Store) sealWaiting() {
	err := s.endWaiting()
	for len(s.sealer.waiting) > 0 && err == nil && s.sealer.mayHash() {
		f := s.sealer.waiting[0]
		if err = s.sealPack(f); err == nil {
			f.release(s.files)
			s.sealer.waiting = s.sealer.waiting[1:]
			if f.p.listed() {
				s.indexer.wasSealed(f.p)
			}
		}
	}
	s.sealer.failed = err != nil
	if err != nil {
		s.log.Warn("a pack could not be sealed yet", "pack", s.sealer.waiting[0].p.seq, "err", err)
	}
	s.sealer.mu.Lock()
	defer s.sealer.mu.Unlock()
	close(s.sealer.turn)
	s.sealer.turn = make(chan struct{})
	s.sealer.err = nil
	if err != nil && len(s.sealer.waiting) > unhashedMax {
		s.sealer.err = noSpace(s.fs, s.dir, fmt.Errorf("cas: packs cannot be sealed: %w", err))
	}
}

// sealActive has the active pack sealed, with those that wait for it, if there is
// anything in it. While payloads come in, or where something is in the way, it
// may be sealed later.
func (s *Store) sealActive(ctx context.Context) error {
	s.app.mu.Lock()
	if p := s.app.active; !s.app.closed && p != nil && p.end() > packHeaderBytes {
		s.retire()
	}
	s.app.mu.Unlock()
	for range 2 { // a turn may have begun before the pack was given
		turn := s.sealer.nextTurn()
		s.sealer.queue <- full{}
		select {
		case <-turn:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

func (q *sealer) nextTurn() <-chan struct{} {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.turn
}

// endWaiting writes the footers that are not written yet.
func (s *Store) endWaiting() error {
	for _, f := range s.sealer.waiting {
		if err := s.endPack(f); err != nil {
			return err
		}
	}
	return nil
}
