package cas

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"durafs/internal/ballast"
)

// damageMax bounds what Recovery lists.
const damageMax = 1000

// Recovery tells what Open found and did.
type Recovery struct {
	Sealed  []uint32       // packs of an earlier process that were cut and sealed
	Dropped []uint32       // packs that nothing refers to
	Missing []uint32       // packs that the ledger lists and the directory has not
	Orphans []string       // files that the ledger does not list; they are left alone
	Damage  []*DamageError // of packs that were sealed or are missing; at most 1000
}

func (r *Recovery) damaged(p *pack, off int64, id ID, reason string, err error) {
	if len(r.Damage) < damageMax {
		r.Damage = append(r.Damage, &DamageError{File: p.name, Offset: off, ID: id, Reason: reason, Err: err})
	}
}

// recover makes the store's packs those of the ledger, and ends those that an
// earlier process left open.
//
// Nothing that process believed is believed: after a failed sync the page
// cache shows what the disk has not. So the directory is synced first, and the
// packs that are to be ended are synced and read from the disk. What the log
// refers to was behind a barrier; if it is not there, or wrong, that is
// damage, which is named and does not keep the store from opening.
func (s *Store) recover(ctx context.Context) (rec Recovery, indexes []string, err error) {
	s.poisoned = s.opts.ReadOnly
	if s.poisoned != nil {
		// Not even synced.
	} else if err := s.dirHandle.Sync(); err != nil {
		_ = s.poison("sync the directory of packs", err)
	}
	known := s.knownPacks()
	names, err := s.fs.ReadDir(s.dir)
	if err != nil {
		return rec, nil, fmt.Errorf("cas: %w", err)
	}
	names = slices.DeleteFunc(names, func(name string) bool {
		if isIndex(name) {
			indexes = append(indexes, name)
		}
		return isIndex(name) || name == ballast.Name
	})
	open := s.findFiles(known, names, &rec)
	if s.Healthy() != nil {
		return rec, nil, nil // readable, and nothing is changed
	}
	ends, err := s.scanOpen(ctx, open, &rec)
	if err != nil {
		return rec, nil, err
	}
	s.endOpen(ends, &rec)
	return rec, indexes, nil
}

// knownPacks is the ledger's list without those that are gone.
func (s *Store) knownPacks() []Pack {
	s.app.lastSeq = s.opts.SeqAfter
	var known []Pack
	for _, l := range s.opts.Ledger.Packs() {
		s.app.lastSeq = max(s.app.lastSeq, l.Seq)
		if !l.Sealed || l.Bytes > 0 {
			known = append(known, l)
		}
	}
	slices.SortFunc(known, func(a, b Pack) int { return cmp.Compare(a.Seq, b.Seq) })
	return known
}

// findFiles fills s.packs and returns those that are not sealed. A pack's name
// is a convenience; who it is stands in its header.
func (s *Store) findFiles(known []Pack, names []string, rec *Recovery) (open []*pack) {
	left := make(map[string]bool, len(names))
	for _, n := range names {
		left[n] = true
	}
	take := func(path string) bool {
		ok := left[filepath.Base(path)]
		delete(left, filepath.Base(path))
		return ok
	}
	var lost []*pack
	for _, l := range known {
		p := newPack(l, activeName(s.dir, l.Seq))
		if l.Sealed {
			p.sealed, p.written, p.durable = true, l.Bytes, l.Bytes
			p.write.bytes, p.write.b3, p.write.step = l.Bytes, l.B3, sealDone
		}
		s.packs[l.Seq] = p
		switch {
		case l.Sealed && take(sealedName(s.dir, l.B3)):
			p.name = sealedName(s.dir, l.B3)
		case take(p.name):
			p.write.step = sealCut // where it is sealed: that was not finished
		default:
			lost = append(lost, p)
		}
		if !l.Sealed {
			open = append(open, p)
		}
	}
	s.adopt(lost, left)
	for name := range left {
		s.noteOrphan(name, rec)
	}
	slices.Sort(rec.Orphans)
	for _, l := range known {
		if l.Sealed {
			s.checkSealed(s.packs[l.Seq], rec)
		}
	}
	return open
}

// adopt looks for packs that are not under their names among the files that
// nobody knows: a power cut between rename and ledger leaves such.
func (s *Store) adopt(lost []*pack, left map[string]bool) {
	for _, p := range lost {
		p.missing = true
	}
	if len(lost) == 0 {
		return
	}
	for _, name := range slices.Sorted(maps.Keys(left)) {
		h, ok := s.headerOf(filepath.Join(s.dir, name))
		i := slices.IndexFunc(lost, func(p *pack) bool {
			return ok && p.missing && p.seq == h.Seq && p.nonce == h.Nonce && h.StoreID == s.opts.StoreID
		})
		if i >= 0 {
			lost[i].name, lost[i].missing = filepath.Join(s.dir, name), false
			delete(left, name)
		}
	}
}

func (s *Store) headerOf(path string) (fileHeader, bool) {
	if !strings.HasSuffix(path, ".pack") {
		return fileHeader{}, false
	}
	f, err := s.fs.Open(path)
	if err != nil {
		return fileHeader{}, false
	}
	defer f.Close()
	h, err := readHeader(f)
	return h, err == nil
}

func readHeader(f io.ReaderAt) (fileHeader, error) {
	b := make([]byte, packHeaderBytes)
	if n, err := f.ReadAt(b, 0); n < len(b) {
		return fileHeader{}, fmt.Errorf("header is cut off: %w", err)
	}
	return parseFileHeader(b)
}

// noteOrphan reports a file that the ledger does not list, and leaves it for
// someone to look at. But a pack without a record is what a step left that was
// not committed; and one whose number the ledger gave, and does not list any
// more, was dropped, and a power cut came before its unlink. These two go.
func (s *Store) noteOrphan(name string, rec *Recovery) {
	path := filepath.Join(s.dir, name)
	var seq uint32
	active := false
	if n, _ := fmt.Sscanf(name, "active-%d.pack", &seq); n == 1 && path == activeName(s.dir, seq) {
		active = true
		s.app.lastSeq = max(s.app.lastSeq, seq)
	}
	info, err := s.fs.Stat(path)
	empty := active && err == nil && info.Size <= packHeaderBytes
	if (empty || s.wasDropped(path)) && s.opts.ReadOnly == nil && s.fs.Remove(path) == nil {
		return
	}
	rec.Orphans = append(rec.Orphans, name)
}

func (s *Store) wasDropped(path string) bool {
	h, ok := s.headerOf(path)
	return ok && h.StoreID == s.opts.StoreID && h.Seq <= s.opts.SeqAfter && s.packs[h.Seq] == nil
}

// checkSealed names a sealed pack that is missing or short, and finishes what
// a power cut interrupted after the ledger had it: the cut and the name.
func (s *Store) checkSealed(p *pack, rec *Recovery) {
	if p.missing {
		rec.Missing = append(rec.Missing, p.seq)
		rec.damaged(p, 0, ID{}, "the pack is missing", nil)
		return
	}
	info, err := s.fs.Stat(p.name)
	if err != nil || info.Size < p.write.bytes {
		rec.damaged(p, info.Size, ID{}, fmt.Sprintf("the pack has not its %d bytes", p.write.bytes), err)
		return
	}
	if p.write.step != sealCut || s.Healthy() != nil {
		return
	}
	if err := s.finishSealed(p, info.Size); err != nil {
		s.log.Warn("a sealed pack keeps its old name", "file", p.name, "err", err)
	}
	p.write.step = sealDone
}

func (s *Store) finishSealed(p *pack, size int64) error {
	if size > p.write.bytes {
		f, err := s.fs.OpenWrite(p.name)
		if err != nil {
			return err
		}
		defer f.Close()
		if err := f.Truncate(p.write.bytes); err != nil {
			return err
		}
		if err := f.Datasync(); err != nil {
			return s.poison("sync "+p.name, err)
		}
	}
	return s.renameSealed(p)
}
