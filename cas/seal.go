package cas

import (
	"fmt"
	"io"
	"sync"
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
// It also hashes the active pack while that grows, from what was written and
// not from what was to be written.
type sealer struct {
	queue chan full
	ahead chan full // an active pack with more to hash; holds at most one
	done  chan struct{}

	// The goroutine owns waiting: packs whose sealing failed, for now, and
	// buf, through which packs are hashed.
	waiting []full
	buf     []byte

	// mu guards err: why more than sealQueueMax packs wait.
	mu  sync.Mutex
	err error
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
	s.sealer.ahead = make(chan full, 1)
	s.sealer.done = make(chan struct{})
	go s.runSealer()
}

func (s *Store) runSealer() {
	defer close(s.sealer.done)
	s.refill()
	for {
		select {
		case f := <-s.sealer.ahead:
			if f.p.write.step == sealFooter { // else it was sealed meanwhile
				_ = s.hashAhead(f, f.p.end()&^(hashReadBytes-1)) // an error comes again at the seal
			}
			f.release(s.files)
		case f, ok := <-s.sealer.queue:
			if !ok {
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
	select {
	case f := <-s.sealer.ahead:
		f.release(s.files)
	default:
	}
}

// hashAhead takes the file's bytes up to end into its hash.
func (s *Store) hashAhead(f full, end int64) error {
	w := &f.p.write
	if end <= w.hashed {
		return nil
	}
	if s.sealer.buf == nil {
		s.sealer.buf = make([]byte, hashReadBytes)
	}
	n, err := io.CopyBuffer(w.hash, io.NewSectionReader(f.h.f, w.hashed, end-w.hashed), s.sealer.buf)
	w.hashed += n
	if err == nil && w.hashed < end {
		err = io.ErrUnexpectedEOF
	}
	if err != nil {
		return fmt.Errorf("cas: read a pack back: %w", err)
	}
	return nil
}

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
	var err error
	for len(s.sealer.waiting) > 0 && err == nil {
		f := s.sealer.waiting[0]
		if err = s.sealPack(f); err == nil {
			f.release(s.files)
			s.sealer.waiting = s.sealer.waiting[1:]
			if f.p.listed() {
				s.indexer.wasSealed(f.p)
			}
		}
	}
	if err != nil {
		s.log.Warn("a pack could not be sealed yet", "pack", s.sealer.waiting[0].p.seq, "err", err)
	}
	s.sealer.mu.Lock()
	defer s.sealer.mu.Unlock()
	s.sealer.err = nil
	if err != nil && len(s.sealer.waiting) > sealQueueMax {
		s.sealer.err = noSpace(s.fs, s.dir, fmt.Errorf("cas: packs cannot be sealed: %w", err))
	}
}
