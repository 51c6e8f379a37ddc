package cas

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"sort"
)

// found is a record that was read, and where.
type found struct {
	hdr  recordHeader
	body []byte // as stored
	file string
	off  int64
	at   Hint
}

// damage names what is wrong with the record of id.
func (f found) damage(id ID, reason string, err error) error {
	return &DamageError{File: f.file, Offset: f.off, ID: id, Reason: reason, Err: err}
}

// visit reads the record of id and hands it to use, which verifies it. It
// begins where hint says. If that does not give the id, or use refuses it, table
// and indexes are asked, since the hint may be stale and there may be a sound
// copy, and at last the footers of all packs. The error is that of the hint.
func (s *Store) visit(id ID, hint Hint, buf []byte, use func(found) error) error {
	var first error
	if hint != (Hint{}) {
		if first = s.visitAt(id, hint, buf, use); first == nil {
			return nil
		}
	}
	if s.table != nil { // Verify has none
		done := false
		s.find(id, func(seq uint32, off int64) bool {
			if at, ok := s.recordAt(seq, off, id); ok && at.hint != hint {
				err := s.visitAt(id, at.hint, buf, use)
				done, first = err == nil, cmpOr(first, err)
			}
			return done
		})
		if done {
			return nil
		}
	}
	for _, p := range s.newestFirst() {
		places, err := s.placesIn(p, id)
		if err != nil {
			first = cmpOr(first, err)
			continue
		}
		for _, e := range places {
			at := Hint{Pack: p.seq, Offset: e.Offset, End: e.End}
			if at == hint {
				continue
			}
			err := s.visitAt(id, at, buf, use)
			if err == nil {
				return nil
			}
			first = cmpOr(first, err)
		}
	}
	if first == nil {
		return ErrNotFound
	}
	return first
}

func cmpOr(a, b error) error {
	if a != nil {
		return a
	}
	return b
}

func (s *Store) newestFirst() []*pack {
	s.mu.RLock()
	defer s.mu.RUnlock()
	seqs := slices.Sorted(maps.Keys(s.packs))
	packs := make([]*pack, 0, len(seqs))
	for _, seq := range slices.Backward(seqs) {
		packs = append(packs, s.packs[seq])
	}
	return packs
}

// visitAt reads the record at hint, which has to be that of id.
func (s *Store) visitAt(id ID, hint Hint, buf []byte, use func(found) error) error {
	p := s.pack(hint.Pack)
	f := found{file: s.dir, off: int64(hint.Offset), at: hint}
	if p == nil {
		return f.damage(id, fmt.Sprintf("pack %d is not in the store", hint.Pack), ErrNotFound)
	}
	f.file = p.path()
	n := int64(hint.End) - f.off
	if n < recordHeaderBytes || n > recordHeaderBytes+recordBodyMax || f.off < packHeaderBytes {
		return f.damage(id, "no record can be here", nil)
	}
	h, err := s.files.acquire(p)
	if errors.Is(err, ErrClosed) {
		return err
	}
	if err != nil {
		return f.damage(id, "the pack cannot be opened", err)
	}
	defer s.files.release(h)
	if int64(cap(buf)) < n {
		buf = make([]byte, n)
	}
	if got, err := h.f.ReadAt(buf[:n], f.off); int64(got) < n {
		if errors.Is(err, io.EOF) {
			return f.damage(id, "the file ends within the record", nil)
		}
		return f.damage(id, "the record cannot be read", err)
	}
	if err := f.parse(buf[:n], p.nonce, id); err != nil {
		return err
	}
	return use(f)
}

func (f *found) parse(b []byte, nonce uint64, id ID) error {
	var err error
	f.hdr, err = parseRecordHeader(b, nonce, f.off)
	switch {
	case err != nil:
		return f.damage(id, "the record's header is wrong", err)
	case f.hdr.ID != id:
		return f.damage(id, "another record is here", nil)
	case f.hdr.bytes() != int64(len(b)):
		return f.damage(id, "the record has another length", nil)
	}
	f.body = b[recordHeaderBytes:][:f.hdr.Stored]
	return nil
}

// placesIn tells where records of id lie in a pack.
func (s *Store) placesIn(p *pack, id ID) ([]entry, error) {
	p.mu.Lock()
	sealed, missing, name := p.sealed, p.missing, p.name
	var places []entry
	for _, e := range p.entries {
		if e.ID == id {
			places = append(places, e)
		}
	}
	p.mu.Unlock()
	if !sealed {
		return places, nil
	}
	if missing {
		return nil, &DamageError{File: name, ID: id, Reason: "the pack is missing"}
	}
	h, err := s.files.acquire(p)
	if err != nil {
		return nil, &DamageError{File: name, ID: id, Reason: "the pack cannot be opened", Err: err}
	}
	defer s.files.release(h)
	return h.find(id)
}

// find looks id up in the footer of a sealed pack.
func (h *handle) find(id ID) ([]entry, error) {
	h.index.Do(h.loadIndex)
	if h.walk != nil {
		i, _ := slices.BinarySearchFunc(h.walk, entry{ID: id}, compareEntries)
		var places []entry
		for ; i < len(h.walk) && h.walk[i].ID == id; i++ {
			places = append(places, h.walk[i])
		}
		return places, nil
	}
	return h.search(id)
}

// search is a binary search by pread; the entries' checksum was right when the
// file was opened, and what they point at is verified.
func (h *handle) search(id ID) ([]entry, error) {
	var failed error
	read := func(i int) (e entry, ok bool) {
		var b [footerEntryBytes]byte
		if _, err := h.f.ReadAt(b[:], int64(h.foot.Entries)+int64(i)*footerEntryBytes); err != nil {
			failed = err
			return entry{}, false
		}
		return parseEntry(b[:]), true
	}
	count := int(h.foot.Count)
	i := sort.Search(count, func(i int) bool {
		e, ok := read(i)
		return ok && bytes.Compare(e.ID[:], id[:]) >= 0
	})
	var places []entry
	for ; i < count; i++ {
		e, ok := read(i)
		if !ok || e.ID != id {
			break
		}
		places = append(places, e)
	}
	if failed != nil {
		return nil, &DamageError{File: h.p.path(), Offset: int64(h.foot.Entries), ID: id, Reason: "the footer cannot be read", Err: failed}
	}
	return places, nil
}

// loadIndex checks the footer once per opening of the file. Where it is not
// sound the records are walked.
func (h *handle) loadIndex() {
	h.p.mu.Lock()
	size := h.p.written
	h.p.mu.Unlock()
	t, _, err := readFooter(h.f, size, h.p.seq, h.p.nonce)
	if err == nil {
		h.foot = t
		return
	}
	h.walk = []entry{}
	walkPack(h.f, h.p.nonce, size, func(r walked) {
		if r.err == nil {
			h.walk = append(h.walk, r.entry())
		}
	})
	slices.SortFunc(h.walk, compareEntries)
}

// readFooter reads and checks the footer of a sealed pack of size bytes.
func readFooter(f io.ReaderAt, size int64, seq uint32, nonce uint64) (trailer, []entry, error) {
	at := size - footerTrailerBytes
	if at < packHeaderBytes {
		return trailer{}, nil, errors.New("the file is too short for a trailer")
	}
	b := make([]byte, footerTrailerBytes)
	if _, err := f.ReadAt(b, at); err != nil {
		return trailer{}, nil, err
	}
	t, err := parseTrailer(b, at)
	if err != nil {
		return trailer{}, nil, err
	}
	if t.Seq != seq || t.Nonce != nonce {
		return trailer{}, nil, errors.New("the trailer is that of another pack")
	}
	b = make([]byte, at-int64(t.Entries))
	if _, err := f.ReadAt(b, int64(t.Entries)); err != nil {
		return trailer{}, nil, err
	}
	entries, err := parseEntries(b, t)
	return t, entries, err
}
