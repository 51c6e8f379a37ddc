package cas

import (
	"crypto/rand"
	"encoding/binary"
	"fmt"

	"durafs/internal/mutant"
)

// makeShare: the next pack is made when this part of the active one is full.
// Early, because what makes it waits for the disk: a file system with a journal
// writes back the data of other files too before a new name is durable.
const makeShare = 8

// made is a pack that is ready to be written to, or why there is none.
type made struct {
	p   *pack
	h   *handle
	err error
}

// makeNext has the pack after the active one made, in a goroutine of its own,
// unless that is done or under way. The caller holds app.mu.
func (s *Store) makeNext() {
	if s.app.next != nil {
		return
	}
	s.app.lastSeq++
	seq, next := s.app.lastSeq, make(chan made, 1)
	s.app.next = next
	s.making.Go(func() { next <- s.createPack(seq) })
}

// nextPack takes the pack that was made ahead, or makes one. Where it could not
// be made ahead it is tried again: there may be space by now. The caller holds
// app.mu.
func (s *Store) nextPack() (made, error) {
	if next := s.app.next; next != nil {
		s.app.next = nil
		if m := <-next; m.err == nil {
			return m, nil
		}
	}
	s.app.lastSeq++
	m := s.createPack(s.app.lastSeq)
	return m, m.err
}

// dropNext gives back the pack that was made ahead, for Close. The caller holds
// app.mu.
func (s *Store) dropNext() {
	if next := s.app.next; next != nil {
		s.app.next = nil
		if m := <-next; m.err == nil {
			s.mu.Lock()
			s.packs[m.p.seq] = m.p
			s.mu.Unlock()
			s.sealer.give(m.p, m.h)
		}
	}
}

// createPack makes a pack that records can be written to. In this order:
//
//	create, write header, fdatasync   the file says who it is
//	fsync directory                   and has its name
//	AddPack                           and the log's MANIFEST lists it
//
// Only then the first record is written, so that no record that anyone could
// refer to lies in a file that a power cut can take away.
func (s *Store) createPack(seq uint32) made {
	known := Pack{Seq: seq, Nonce: randomNonce()}
	p := newPack(known, activeName(s.dir, seq))
	f, err := s.fs.Create(p.name)
	if err != nil {
		return made{err: fmt.Errorf("cas: make a pack: %w", err)}
	}
	fail := func(err error) made {
		f.Close()
		if rerr := s.fs.Remove(p.name); rerr != nil {
			s.log.Warn("an empty pack is left behind", "file", p.name, "err", rerr)
		}
		return made{err: err}
	}
	head := fileHeader{StoreID: s.opts.StoreID, Seq: p.seq, Nonce: p.nonce}.marshal()
	if _, err := f.WriteAt(head, 0); err != nil {
		return fail(fmt.Errorf("cas: make a pack: %w", err))
	}
	if err := f.Datasync(); err != nil {
		return fail(s.poison("sync a new pack", err))
	}
	if mutant.On(mutant.NoDirSyncAfterCreate) {
		s.log.Debug("the directory of a new pack is not synced")
	} else if err := s.dirHandle.Sync(); err != nil {
		return fail(s.poison("sync the directory of a new pack", err))
	}
	if err := s.opts.Ledger.AddPack(known); err != nil {
		// The ledger may know it or not: without a file and without a
		// reference the next Open forgets it.
		return fail(fmt.Errorf("cas: list a new pack: %w", err))
	}
	p.written, p.durable = packHeaderBytes, packHeaderBytes
	p.write.known = true
	h, err := s.files.use(seq, &handle{p: p, f: f})
	return made{p, h, err}
}

func randomNonce() uint64 {
	var b [8]byte
	rand.Read(b[:]) // never fails
	return binary.LittleEndian.Uint64(b[:])
}
