package cas

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"sync"

	"github.com/zeebo/blake3"
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

	// The goroutine owns waiting: packs whose sealing failed, for now.
	waiting []full

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
	for {
		select {
		case f := <-s.sealer.ahead:
			if f.p.write.step == sealFooter { // else it was sealed meanwhile
				_ = s.hashAhead(f, f.p.end()) // an error comes again at the seal
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
	n, err := io.Copy(w.hash, io.NewSectionReader(f.h.f, w.hashed, end-w.hashed))
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

// sealPack ends a pack. In this order:
//
//	fdatasync          all records are durable
//	footer, fdatasync  the file is complete
//	rename, fsync dir  and has its last name
//	SealPack           and the log's MANIFEST says so
//
// A power cut between any two leaves a file that Open finishes: under its old
// name or the new one, listed as not sealed.
func (s *Store) sealPack(f full) error {
	p := f.p
	if err := s.Healthy(); err != nil {
		return err
	}
	if p.write.recovered {
		return s.sealRecovered(p)
	}
	if s.writeFailed(p) {
		return s.endBroken(f)
	}
	if p.write.step == sealFooter {
		if err := s.flush(context.Background(), p, p.end()); err != nil {
			return err
		}
		if p.end() == packHeaderBytes {
			s.dropPack(p)
			return nil
		}
		if err := s.writeFooter(f); err != nil {
			return err
		}
		if s.writeFailed(p) {
			return s.endBroken(f)
		}
		p.write.step = sealRename
	}
	if p.write.step == sealRename {
		if err := s.hashAhead(f, p.write.bytes); err != nil {
			return err
		}
		p.write.hash.Sum(p.write.b3[:0])
		if err := s.renameSealed(p); err != nil {
			return err
		}
		p.write.step = sealLedger
	}
	if p.write.step == sealLedger {
		if err := s.listSealed(p); err != nil {
			return err
		}
		p.write.step = sealDone
	}
	return nil
}

func (s *Store) writeFailed(p *pack) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.failed != nil
}

func (s *Store) writeFooter(f full) error {
	p := f.p
	p.mu.Lock()
	entries, end := slices.Clone(p.entries), p.written
	p.mu.Unlock()
	foot := marshalFooter(p.ledger(), end, entries)
	if err := checkFooter(foot, end); err != nil {
		return err
	}
	if _, err := f.h.f.WriteAt(foot, end); err != nil {
		p.fail(noSpace(s.fs, s.dir, fmt.Errorf("cas: write a footer: %w", err)))
		return nil
	}
	if err := s.syncFile(p); err != nil {
		return err
	}
	p.write.bytes = end + int64(len(foot))
	return nil
}

// renameSealed gives the file its last name and makes that durable. Readers
// that open the file meanwhile wait.
func (s *Store) renameSealed(p *pack) error {
	p.mu.Lock()
	name := sealedName(s.dir, p.write.b3)
	var err error
	if p.name != name {
		// An error may be a lie: what counts is where the file is.
		if err = s.fs.Rename(p.name, name); err == nil || s.isAt(name, p.name) {
			p.name, err = name, nil
		}
	}
	p.mu.Unlock()
	if err != nil {
		return fmt.Errorf("cas: rename a pack: %w", err)
	}
	if err := s.dirHandle.Sync(); err != nil {
		return s.poison("sync the directory of packs", err)
	}
	return nil
}

func (s *Store) isAt(name, old string) bool {
	_, err := s.fs.Stat(name)
	_, oldErr := s.fs.Stat(old)
	return err == nil && errors.Is(oldErr, fs.ErrNotExist)
}

func (s *Store) listSealed(p *pack) error {
	l := p.ledger()
	l.Sealed, l.Bytes, l.B3 = true, p.write.bytes, p.write.b3
	if err := s.opts.Ledger.SealPack(l); err != nil {
		return fmt.Errorf("cas: list a sealed pack: %w", err)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.sealed, p.entries = true, nil
	p.written = p.write.bytes
	p.durable = p.write.bytes
	p.notify()
	return nil
}

// endBroken ends a pack that a write failed on, where it is durable. The
// ledger says so first; what lies behind is then cut off. It gets no footer,
// since nothing is written to it again.
func (s *Store) endBroken(f full) error {
	p := f.p
	end := p.settled()
	if end <= packHeaderBytes {
		s.dropPack(p)
		return nil
	}
	if p.write.step != sealCut {
		if end < p.write.hashed { // more was hashed than is kept
			p.write.hash, p.write.hashed = blake3.New(), 0
		}
		if err := s.hashAhead(f, end); err != nil {
			return err
		}
		var b3 ID
		p.write.hash.Sum(b3[:0])
		p.write.bytes, p.write.b3 = end, b3
		if err := s.listSealed(p); err != nil {
			return err
		}
		p.write.step = sealCut
	}
	if err := f.h.f.Truncate(end); err != nil {
		return fmt.Errorf("cas: cut a pack: %w", err)
	}
	if err := s.syncFile(p); err != nil {
		return err
	}
	return s.renameSealed(p)
}

// dropPack forgets a pack that nothing refers to: first the ledger, then the
// name. What fails here is done by the next Open.
func (s *Store) dropPack(p *pack) {
	l := p.ledger()
	l.Sealed = true
	err := s.opts.Ledger.SealPack(l)
	s.mu.Lock()
	delete(s.packs, p.seq)
	s.mu.Unlock()
	s.files.drop(p)
	if err == nil {
		err = s.fs.Remove(p.path())
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		s.log.Warn("a dropped pack is left behind", "file", p.path(), "err", err)
	}
}

// hashFile is the BLAKE3 of the first n bytes of r.
func hashFile(r io.ReaderAt, n int64) (ID, error) {
	h := blake3.New()
	if got, err := io.Copy(h, io.NewSectionReader(r, 0, n)); err != nil || got != n {
		return ID{}, errors.Join(fmt.Errorf("cas: read back %d of %d bytes", got, n), err)
	}
	var id ID
	h.Sum(id[:0])
	return id, nil
}
