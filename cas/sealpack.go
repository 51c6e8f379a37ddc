package cas

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"

	"github.com/zeebo/blake3"
)

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
	if p.end() == packHeaderBytes {
		s.dropPack(p)
		return nil
	}
	if p.write.step == sealRename {
		b3, err := hashFile(s.resting(f.h.f), p.write.bytes)
		if err != nil {
			return err
		}
		p.write.b3 = b3
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

// endPack makes the records of a full pack durable and writes its footer: the
// first two steps of sealPack, which do nothing to a pack that they were done
// to, or that a write failed on.
func (s *Store) endPack(f full) error {
	p := f.p
	if p.write.recovered || p.write.step != sealFooter || s.writeFailed(p) {
		return nil
	}
	if err := s.Healthy(); err != nil {
		return err
	}
	end := p.end()
	if err := s.flush(context.Background(), p, end); err != nil || end == packHeaderBytes {
		return err
	}
	if err := s.writeFooter(f); err != nil || s.writeFailed(p) {
		return err
	}
	p.write.step = sealRename
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
	write := func() error { _, err := f.h.f.WriteAt(foot, end); return err }
	if err := s.must(write); err != nil {
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
		rename := func() error { return s.fs.Rename(p.name, name) }
		if err = s.must(rename); err == nil || s.isAt(name, p.name) {
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
		b3, err := hashFile(s.resting(f.h.f), end)
		if err != nil {
			return err
		}
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

// resting reads r at the pace of work that nobody waits for.
func (s *Store) resting(r io.ReaderAt) io.ReaderAt {
	pace := s.gently()
	return readerFunc(func(b []byte, off int64) (int, error) {
		n, err := r.ReadAt(b, off)
		_ = pace.Did(context.Background(), n)
		return n, err
	})
}

// hashFile is the BLAKE3 of the first n bytes of r.
func hashFile(r io.ReaderAt, n int64) (ID, error) {
	h := blake3.New()
	if got, err := io.CopyBuffer(h, io.NewSectionReader(r, 0, n), make([]byte, hashReadBytes)); err != nil || got != n {
		return ID{}, errors.Join(fmt.Errorf("cas: read back %d of %d bytes", got, n), err)
	}
	return ID(h.Sum(nil)), nil
}
