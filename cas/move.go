package cas

import (
	"context"
	"errors"
	"fmt"

	"durafs/internal/gentle"
	"durafs/internal/mutant"
)

// moveBytes are written at a time.
const moveBytes = 1 << 20

// mover copies records into packs of its own: nothing else is appended to them,
// and no put finds what is in them before they are sealed.
type mover struct {
	s     *Store
	ctx   context.Context
	moved map[ID]bool // what has been copied, since a record may stand in several victims

	out full   // the pack that is written, if out.p is not nil
	buf []byte // of out, not written yet
	rec []byte // the record that is looked at

	gentle gentle.Pace

	records, bytes, packBytes int64
}

// take copies what is live of a victim. A *DamageError says that something of it
// is not what was stored, and then nothing was copied: all is looked at first.
func (m *mover) take(p *pack, live *survey) error {
	h, err := m.s.files.acquire(p)
	if err != nil {
		return &DamageError{File: p.path(), Reason: "the pack cannot be opened", Err: err}
	}
	defer m.s.files.release(h)
	for _, do := range []func([]byte, recordHeader) error{func([]byte, recordHeader) error { return nil }, m.write} {
		for _, i := range live.of(p.seq) {
			if r := &live.records[i]; r.reached {
				if err := m.each(p, h, r, do); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// each reads a record, and hands it to do if what it says is true.
func (m *mover) each(p *pack, h *handle, r *surveyed, do func([]byte, recordHeader) error) error {
	if err := m.gentle.Did(m.ctx, int(r.bytes)); err != nil {
		return err
	}
	f := found{file: p.path(), off: int64(r.off)}
	if r.bytes < recordHeaderBytes || r.bytes > recordHeaderBytes+recordBodyMax {
		return f.damage(ID{}, "no record can be here", nil)
	}
	m.rec = append(m.rec[:0], make([]byte, r.bytes)...)
	if n, err := h.f.ReadAt(m.rec, f.off); n < len(m.rec) {
		return f.damage(ID{}, "the record cannot be read", err)
	}
	hdr, err := parseRecordHeader(m.rec, p.nonce, f.off)
	if err != nil || hdr.bytes() != int64(len(m.rec)) {
		return f.damage(hdr.ID, "the record's header is wrong", err)
	}
	f.hdr, f.body = hdr, m.rec[recordHeaderBytes:][:hdr.Stored]
	if m.moved[hdr.ID] && hdr.Kind != kindRoot { // two roots have nodes of their own
		return nil
	}
	if err := m.s.check(f); err != nil {
		return err
	}
	return do(m.rec, hdr)
}

// check verifies a record against what it says it is. The id of a manifest's root
// is that of the payload, which only its chunks can tell: they are verified when
// they are copied, and when they are read.
func (s *Store) check(f found) error {
	id := f.hdr.ID
	if checksum(f.body) != f.hdr.CRC {
		return f.damage(id, "the body's checksum is wrong", nil)
	}
	if f.hdr.Kind == kindChunk {
		w := s.getWorkspace()
		defer s.putWorkspace(w)
		dst := w.back[:0]
		return s.verifyChunk(f, id, int(f.hdr.Raw), &dst)
	}
	_, sum, err := parseNode(f.body)
	if err != nil || f.hdr.Kind == kindNode && sum != id {
		return f.damage(id, "the manifest is wrong", err)
	}
	return nil
}

// write puts a record into the pack that is written, or a new one.
func (m *mover) write(rec []byte, hdr recordHeader) error {
	if p := m.out.p; p != nil && p.end()+int64(len(m.buf)+len(rec))+footerBytes(p.records()+1) > m.s.opts.PackBytesMax {
		if err := m.seal(); err != nil {
			return err
		}
	}
	if m.out.p == nil {
		if err := m.begin(); err != nil {
			return err
		}
	}
	p := m.out.p
	off := p.end() + int64(len(m.buf))
	hdr.put(rec, p.nonce, off)
	m.buf = append(m.buf, rec...)
	p.mu.Lock()
	p.entries = append(p.entries, entry{ID: hdr.ID, Offset: uint32(off), End: uint32(off) + uint32(len(rec))})
	p.mu.Unlock()
	m.moved[hdr.ID] = true
	m.records++
	m.bytes += int64(len(rec))
	if len(m.buf) < moveBytes {
		return nil
	}
	return m.flush()
}

// flush writes what is gathered.
func (m *mover) flush() error {
	if len(m.buf) == 0 {
		return nil
	}
	p, off := m.out.p, m.out.p.end()
	if _, err := m.out.h.f.WriteAt(m.buf, off); err != nil {
		err = noSpace(m.s.fs, m.s.dir, fmt.Errorf("cas: write: %w", err))
		p.fail(err)
		return err
	}
	_ = m.out.h.f.WriteBehind(off, int64(len(m.buf)))
	p.mu.Lock()
	p.written += int64(len(m.buf))
	p.mu.Unlock()
	m.buf = m.buf[:0]
	return nil
}

// begin makes a pack. Numbers are listed in their order, so nobody may make
// another one meanwhile. The active pack ends first: an open cuts the packs that
// lie behind the last sealed one, and keeps all of one before it.
func (m *mover) begin() error {
	s := m.s
	s.app.mu.Lock()
	defer s.app.mu.Unlock()
	if s.app.closed {
		return ErrClosed
	}
	if p := s.app.active; p != nil && p.end() > packHeaderBytes {
		s.retire()
	}
	if next := s.app.next; next != nil {
		next <- <-next // it is made, or could not be
	}
	s.app.lastSeq++
	made := s.createPack(s.app.lastSeq)
	if made.err != nil {
		return noSpace(s.fs, s.dir, made.err)
	}
	made.p.write.known = false // its records are in the table once it is sealed
	m.out = full{made.p, made.h}
	s.mu.Lock()
	s.packs[made.p.seq] = made.p
	s.mu.Unlock()
	return nil
}

// seal makes the pack that is written a sealed one, after reading it back from
// the disk.
func (m *mover) seal() error {
	p := m.out.p
	if p == nil {
		return nil
	}
	if err := m.flush(); err != nil {
		return err
	}
	if mutant.On(mutant.SweepNotSealed) {
		m.packBytes += p.end()
		m.out = full{}
		return nil
	}
	if err := m.s.endPack(m.out); err != nil {
		return err
	}
	if m.s.writeFailed(p) {
		p.mu.Lock()
		defer p.mu.Unlock()
		return p.failed
	}
	if err := m.readBack(p); err != nil {
		return err
	}
	if err := m.s.sealPack(m.out); err != nil {
		return err
	}
	m.packBytes += p.write.bytes
	m.out.release(m.s.files)
	m.out = full{}
	m.s.indexer.wasSealed(p)
	return nil
}

// readBack compares the pack on the disk with what was written to it.
func (m *mover) readBack(p *pack) error {
	want := p.records()
	var bad, stopped error
	walkPack(uncached{m.out.h.f}, p.nonce, p.write.bytes, func(w walked) {
		want--
		if w.err != nil && bad == nil {
			bad = w.err
		}
		if stopped == nil {
			stopped = m.gentle.Did(m.ctx, int(w.hdr.bytes()))
		}
	})
	if stopped != nil {
		return stopped
	}
	if bad != nil || want != 0 {
		return errors.Join(fmt.Errorf("cas: pack %d is not what was written to it: %d records differ", p.seq, want), bad)
	}
	return nil
}

// abandon drops the pack that is written, after an error: nothing needs it.
func (m *mover) abandon() {
	if p := m.out.p; p != nil {
		m.out.release(m.s.files)
		m.s.dropPack(p)
	}
}
