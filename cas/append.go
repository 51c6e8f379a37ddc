package cas

import (
	"context"
	"fmt"

	"durafs/internal/mutant"
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
	behind  int64     // active is being written back up to here
	next    chan made // the pack after active, or why there is none; nil: nobody makes one
	lastSeq uint32
	closed  bool
}

// append writes the records of b, whose chunks are encoded, to the active pack,
// and notes where they are. They are not durable yet. A chunk that someone else
// stored in the meantime is not stored again.
func (s *Store) append(ctx context.Context, b *block) error {
	s.app.mu.Lock()
	defer s.app.mu.Unlock()
	if err := s.appendable(ctx); err != nil {
		return err
	}
	for i := range b.chunk {
		if e := &b.chunk[i]; e.at.p == nil && e.hdr.Kind == kindChunk {
			if at, ok := s.since(e.seen, e.hdr.ID); ok {
				s.stats.hits.Add(1)
				e.at = at
				if mutant.On(mutant.DedupBeforeBarrier) {
					at.countsAtOnce()
				}
			}
		}
	}
	for i := 0; i < len(b.chunk); {
		var err error
		if i, err = s.appendRun(b, i); err != nil {
			return err
		}
	}
	return nil
}

// appendRun writes at once as many records of b, from i on, as fit into the
// active pack, and returns which is the next.
func (s *Store) appendRun(b *block, i int) (next int, err error) {
	for i < len(b.chunk) && s.placed(b, i) {
		i++
	}
	if i == len(b.chunk) {
		return i, nil
	}
	p, err := s.activePack(b.chunk[i].hdr.bytes())
	if err != nil {
		return i, err
	}
	p.mu.Lock()
	off, count := p.written, len(p.entries)
	p.mu.Unlock()
	fresh := make([]*encoded, 0, blockChunks)
	run, n := b.slots[i*slotBytes:], int64(0)
	for ; i < len(b.chunk); i++ {
		e := &b.chunk[i]
		if s.placed(b, i) {
			continue
		}
		size := e.hdr.bytes()
		if n > 0 && off+n+size+footerBytes(count+len(fresh)+1) > s.opts.PackBytesMax {
			break
		}
		rec := run[n : n+size]
		copy(rec, b.slot(i)) // to the left, if it moves at all
		e.hdr.put(rec, p.nonce, off+n)
		e.at = place{p, Hint{Pack: p.seq, Offset: uint32(off + n), End: uint32(off + n + size)}}
		n += size
		fresh = append(fresh, e)
	}
	if _, err := s.app.handle.f.WriteAt(run[:n], off); err != nil {
		// Any part of it may have been written: nothing is written to this
		// pack again. What was durable in it stays; the puts whose records
		// were not have failed, as has this one.
		err = noSpace(s.fs, s.dir, fmt.Errorf("cas: write: %w", err))
		p.fail(err)
		s.retire()
		return i, err
	}
	s.appended(p, fresh, n)
	return i, nil
}

// placed reports whether a chunk has its place: it was stored before, or stands
// in the block twice.
func (s *Store) placed(b *block, i int) bool {
	e := &b.chunk[i]
	for j := 0; j < i && e.at.p == nil && e.hdr.Kind == kindChunk; j++ {
		if b.chunk[j].hdr.ID == e.hdr.ID {
			s.stats.hits.Add(1)
			e.at = b.chunk[j].at
		}
	}
	return e.at.p != nil
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

// appended notes records that were written to p, n bytes together.
func (s *Store) appended(p *pack, fresh []*encoded, n int64) {
	p.mu.Lock()
	for _, e := range fresh {
		p.entries = append(p.entries, entry{ID: e.hdr.ID, Offset: e.at.hint.Offset, End: e.at.hint.End})
	}
	p.written += n
	end := p.written
	p.mu.Unlock()
	for _, e := range fresh {
		s.table.add(slotOf(e.hdr.ID, p.seq, int64(e.at.hint.Offset)))
	}
	s.tail.Store(slotOf(ID{}, p.seq, end).place)
	s.stats.records.Add(int64(len(fresh)))
	s.stats.stored.Add(n)
	if n := end - s.app.behind; n >= writeBehindBytes && s.writeBack(p, n) {
		s.app.behind = end
	}
	if end >= s.opts.PackBytesMax/makeShare {
		s.makeNext()
	}
}

func (p *pack) end() int64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.written
}

// footerBytes is the size of a footer of so many records.
func footerBytes(records int) int64 { return int64(records)*footerEntryBytes + footerTrailerBytes }

func (p *pack) records() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.entries)
}

// activePack returns a pack with room for n bytes. A pack takes one record
// whatever its size.
func (s *Store) activePack(n int64) (*pack, error) {
	if p := s.app.active; p != nil {
		end := p.end()
		if end == packHeaderBytes || end+n+footerBytes(p.records()+1) <= s.opts.PackBytesMax {
			return p, nil
		}
		s.retire()
	}
	m, err := s.nextPack()
	if err != nil {
		return nil, noSpace(s.fs, s.dir, err)
	}
	s.app.active, s.app.handle, s.app.behind = m.p, m.h, packHeaderBytes
	s.mu.Lock()
	s.packs[m.p.seq] = m.p
	s.mu.Unlock()
	return m.p, nil
}

// retire gives the active pack to the sealer, if there is one.
func (s *Store) retire() {
	p, h := s.app.active, s.app.handle
	s.app.active, s.app.handle = nil, nil
	if p != nil {
		s.sealer.give(p, h)
	}
}

// since tells where the chunk id was stored behind seen, by its record's header
// alone: it was decoded and compared before it was written. What lies before was
// read and compared when the chunk was encoded: it was no hit, or is damaged.
func (s *Store) since(seen uint64, id ID) (at place, ok bool) {
	s.table.find(id, func(seq uint32, off int64) bool {
		if slotOf(id, seq, off).place < seen {
			return false
		}
		r, found := s.recordAt(seq, off, id)
		at, ok = r.place, found && r.kind == kindChunk && !r.p.frozen.Load()
		return ok
	})
	return at, ok
}

// recordPlace is a place and what is there.
type recordPlace struct {
	place
	kind kind
}

// recordAt checks by its header that a record of id starts at off in pack seq.
func (s *Store) recordAt(seq uint32, off int64, id ID) (recordPlace, bool) {
	p := s.pack(seq)
	if p == nil {
		return recordPlace{}, false
	}
	h, err := s.files.acquire(p)
	if err != nil {
		return recordPlace{}, false
	}
	defer s.files.release(h)
	var b [recordHeaderBytes]byte
	if _, err := h.f.ReadAt(b[:], off); err != nil {
		return recordPlace{}, false
	}
	hdr, err := parseRecordHeader(b[:], p.nonce, off)
	if err != nil || hdr.ID != id || !p.holds(off+hdr.bytes()) {
		return recordPlace{}, false
	}
	at := place{p, Hint{Pack: seq, Offset: uint32(off), End: uint32(off + hdr.bytes())}}
	return recordPlace{at, hdr.Kind}, true
}
