package cas

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"fmt"
	"slices"

	"github.com/zeebo/blake3"
)

// place is a stored record. What refers to it counts only once p is durable up
// to hint.End.
type place struct {
	p    *pack
	hint Hint
}

// appender is what Store.app.mu guards: the one place that writes records.
type appender struct {
	active  *pack // nil: a new one is made when it is needed
	handle  *handle
	behind  int64 // active is being written back up to here
	lastSeq uint32
	closed  bool
}

// append writes rec, whose buf holds room for the header, the body and zeros
// up to the alignment, to the active pack. It is not durable yet. A chunk that
// someone else stored in the meantime is not stored again.
func (s *Store) append(ctx context.Context, hdr recordHeader, buf []byte) (place, error) {
	s.app.mu.Lock()
	defer s.app.mu.Unlock()
	if err := s.appendable(ctx); err != nil {
		return place{}, err
	}
	if hdr.Kind == kindChunk {
		if at, ok := s.recent(hdr.ID); ok {
			s.stats.hits.Add(1)
			return at, nil
		}
	}
	p, err := s.activePack(int64(len(buf)))
	if err != nil {
		return place{}, err
	}
	off := p.end()
	hdr.put(buf, p.nonce, off)
	if _, err := s.app.handle.f.WriteAt(buf, off); err != nil {
		// Any part of it may have been written: nothing is written to this
		// pack again. What was durable in it stays; the puts whose records
		// were not have failed, as has this one.
		err = noSpace(s.fs, s.dir, fmt.Errorf("cas: write: %w", err))
		p.fail(err)
		s.retire()
		return place{}, err
	}
	at := place{p, Hint{Pack: p.seq, Offset: uint32(off), End: uint32(off) + uint32(len(buf))}}
	s.appended(p, hdr, at.hint, buf)
	return at, nil
}

func (s *Store) appendable(ctx context.Context) error {
	if s.app.closed {
		return ErrClosed
	}
	if err := s.Healthy(); err != nil {
		return err
	}
	if err := s.sealer.behind(); err != nil {
		return err
	}
	return ctx.Err()
}

// appended notes a record that was written.
func (s *Store) appended(p *pack, hdr recordHeader, at Hint, buf []byte) {
	p.mu.Lock()
	p.entries = append(p.entries, entry{ID: hdr.ID, Offset: at.Offset, End: at.End})
	p.written = int64(at.End)
	p.mu.Unlock()
	if hdr.Kind == kindChunk {
		s.table.add(hdr.ID, p.seq, int64(at.Offset))
	}
	s.stats.records.Add(1)
	s.stats.stored.Add(int64(len(buf)))
	// Written back as it comes, the barrier has less to wait for, and so have
	// small puts beside a large one. Nothing depends on it.
	if n := int64(at.End) - s.app.behind; n >= writeBehindBytes && s.writeBack(p, n) {
		s.app.behind = int64(at.End)
		s.hashLater(p)
	}
}

// hashLater tells the sealer that there is more to hash, unless it knows.
func (s *Store) hashLater(p *pack) {
	h, err := s.files.acquire(p)
	if err != nil {
		return
	}
	select {
	case s.sealer.ahead <- full{p, h}:
	default:
		s.files.release(h)
	}
}

func (p *pack) end() int64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.written
}

// footerBytes is the size of the footer when more records have come.
func (p *pack) footerBytes(more int) int64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return int64(len(p.entries)+more)*footerEntryBytes + footerTrailerBytes
}

// activePack returns a pack with room for n bytes. A pack takes one record
// whatever its size.
func (s *Store) activePack(n int64) (*pack, error) {
	if p := s.app.active; p != nil {
		end := p.end()
		if end == packHeaderBytes || end+n+p.footerBytes(1) <= s.opts.PackBytesMax {
			return p, nil
		}
		s.retire()
	}
	p, h, err := s.createPack()
	if err != nil {
		return nil, noSpace(s.fs, s.dir, err)
	}
	s.app.active, s.app.handle = p, h
	s.mu.Lock()
	s.packs[p.seq] = p
	s.mu.Unlock()
	return p, nil
}

// retire gives the active pack to the sealer, if there is one.
func (s *Store) retire() {
	p, h := s.app.active, s.app.handle
	s.app.active, s.app.handle = nil, nil
	if p != nil {
		s.sealer.give(p, h)
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
func (s *Store) createPack() (*pack, *handle, error) {
	s.app.lastSeq++
	known := Pack{Seq: s.app.lastSeq, Nonce: randomNonce()}
	p := newPack(known, activeName(s.dir, known.Seq))
	f, err := s.fs.Create(p.name)
	if err != nil {
		return nil, nil, fmt.Errorf("cas: make a pack: %w", err)
	}
	head := fileHeader{StoreID: s.opts.StoreID, Seq: p.seq, Nonce: p.nonce}.marshal()
	fail := func(err error) (*pack, *handle, error) {
		f.Close()
		if rerr := s.fs.Remove(p.name); rerr != nil {
			s.log.Warn("an empty pack is left behind", "file", p.name, "err", rerr)
		}
		return nil, nil, err
	}
	if _, err := f.WriteAt(head, 0); err != nil {
		return fail(fmt.Errorf("cas: make a pack: %w", err))
	}
	if err := f.Datasync(); err != nil {
		return fail(s.poison("sync a new pack", err))
	}
	if err := s.dirHandle.Sync(); err != nil {
		return fail(s.poison("sync the directory of a new pack", err))
	}
	if err := s.opts.Ledger.AddPack(known); err != nil {
		// The ledger may know it or not: without a file and without a
		// reference the next Open forgets it.
		return fail(fmt.Errorf("cas: list a new pack: %w", err))
	}
	p.written, p.durable = packHeaderBytes, packHeaderBytes
	p.write.hash = blake3.New()
	s.app.behind = packHeaderBytes
	h, err := s.files.use(p.seq, &handle{p: p, f: f})
	return p, h, err
}

func randomNonce() uint64 {
	var b [8]byte
	rand.Read(b[:]) // never fails
	return binary.LittleEndian.Uint64(b[:])
}

// recent tells where this process stored the chunk id, by its record's header
// alone: it was decoded and compared before it was written.
func (s *Store) recent(id ID) (at place, ok bool) {
	s.table.find(id, func(seq uint32, off int64) bool {
		at, ok = s.headerAt(seq, off, id)
		return ok
	})
	return at, ok
}

// headerAt checks that a chunk's record of id starts at off in pack seq.
func (s *Store) headerAt(seq uint32, off int64, id ID) (place, bool) {
	p := s.pack(seq)
	if p == nil {
		return place{}, false
	}
	h, err := s.files.acquire(p)
	if err != nil {
		return place{}, false
	}
	defer s.files.release(h)
	var b [recordHeaderBytes]byte
	if _, err := h.f.ReadAt(b[:], off); err != nil {
		return place{}, false
	}
	hdr, err := parseRecordHeader(b[:], p.nonce, off)
	if err != nil || hdr.ID != id || hdr.Kind != kindChunk || !p.holds(off+hdr.bytes()) {
		return place{}, false
	}
	return place{p, Hint{Pack: seq, Offset: uint32(off), End: uint32(off + hdr.bytes())}}, true
}

// duplicate tells where this process stored raw, after reading it back: a
// record that does not give these bytes any more is no hit, and raw is stored
// again, so that a put heals what it finds damaged.
func (s *Store) duplicate(id ID, raw, scratch []byte) (at place, ok bool) {
	s.table.find(id, func(seq uint32, off int64) bool {
		if at, ok = s.headerAt(seq, off, id); ok {
			back, err := s.readChunk(at.hint, id, scratch[:0:len(raw)])
			ok = err == nil && slices.Equal(back, raw)
		}
		return ok
	})
	return at, ok
}
