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

	"durafs/internal/vfs"
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
func (s *Store) recover(ctx context.Context) (Recovery, error) {
	var rec Recovery
	if err := s.dirHandle.Sync(); err != nil {
		_ = s.poison("sync the directory of packs", err)
	}
	known := s.knownPacks()
	names, err := s.fs.ReadDir(s.dir)
	if err != nil {
		return rec, fmt.Errorf("cas: %w", err)
	}
	open := s.findFiles(known, names, &rec)
	if s.Healthy() != nil {
		return rec, nil // readable, and nothing is changed
	}
	ends, err := s.scanOpen(ctx, open, &rec)
	if err != nil {
		return rec, err
	}
	s.endOpen(ends, &rec)
	return rec, nil
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
	if (empty || s.wasDropped(path)) && s.fs.Remove(path) == nil {
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

// scanOpen reads the packs that are to be ended and decides where: the latest
// first, since a manifest refers to chunks of earlier packs that the log knows
// nothing of. Where something is damaged that may have been a manifest, the
// earlier packs are kept as far as they are sound.
func (s *Store) scanOpen(ctx context.Context, open []*pack, rec *Recovery) ([]*pack, error) {
	used := maps.Clone(s.opts.Used)
	if used == nil {
		used = make(map[uint32]uint32)
	}
	var ends []*pack
	keepAll := false
	for _, p := range slices.Backward(open) {
		keepAll = keepAll || s.sealedBehind(p)
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		end := int64(used[p.seq])
		if p.missing {
			if end > 0 {
				rec.Missing = append(rec.Missing, p.seq)
				rec.damaged(p, 0, ID{}, "the pack is missing", nil)
				p.entries = []entry{}
				keepAll = true
				continue
			}
			ends = append(ends, p)
			continue
		}
		sc, err := s.scan(p, end, keepAll)
		if err != nil {
			return nil, err
		}
		for _, d := range sc.damage {
			rec.damaged(p, d.off, d.hdr.ID, d.err.Error(), nil)
			keepAll = true
		}
		for seq, e := range sc.refs {
			used[seq] = max(used[seq], e)
		}
		ends = append(ends, p)
	}
	slices.Reverse(ends)
	return ends, nil
}

// sealedBehind reports whether a later pack is sealed already, as it is when p
// was missing for a while: what that one's manifests refer to is not looked at.
func (s *Store) sealedBehind(p *pack) bool {
	for _, q := range s.packs {
		if q.sealed && q.seq > p.seq {
			return true
		}
	}
	return false
}

// setEnd says where the records end; 0, which it is at first, is a pack that
// nothing refers to.
func (p *pack) setEnd(end int64) { p.written, p.durable = end, end }

// scanned is what a scan of a pack found below its end.
type scanned struct {
	damage []walked
	refs   map[uint32]uint32 // what its manifests refer to
}

// scan walks a pack on the disk and sets its entries and end.
func (s *Store) scan(p *pack, end int64, keepAll bool) (scanned, error) {
	sc := scanned{refs: make(map[uint32]uint32)}
	f, err := s.fs.OpenWrite(p.name)
	if err != nil {
		return sc, fmt.Errorf("cas: %w", err)
	}
	defer f.Close()
	if err := f.Datasync(); err != nil {
		_ = s.poison("sync "+p.name, err)
	}
	size, err := f.Size()
	if err != nil {
		return sc, fmt.Errorf("cas: %w", err)
	}
	if end == 0 && !keepAll {
		return sc, nil
	}
	if end > 0 {
		aligned := (size + recordAlign - 1) &^ (recordAlign - 1)
		p.setEnd(max(packHeaderBytes, min(end, aligned)))
	}
	dev := uncached{f}
	if h, err := readHeader(dev); err != nil || h.Seq != p.seq || h.Nonce != p.nonce || h.StoreID != s.opts.StoreID {
		sc.damage = append(sc.damage, walked{err: fmt.Errorf("the header is not that of pack %d: %v", p.seq, err)})
	}
	walkPack(dev, p.nonce, size, func(w walked) {
		switch {
		case w.err == nil && (keepAll || w.end <= end):
			p.entries = append(p.entries, w.entry())
			p.setEnd(max(p.written, w.end))
			sc.follow(w)
		case w.off < end:
			w.body = nil
			sc.damage = append(sc.damage, w)
		}
	})
	if size < end {
		sc.damage = append(sc.damage, walked{off: size, err: fmt.Errorf("the log refers to bytes up to %d, the file ends at %d", end, size)})
	}
	return sc, nil
}

// follow notes what a manifest's node refers to.
func (sc *scanned) follow(w walked) {
	if w.hdr.Kind != kindRoot && w.hdr.Kind != kindNode {
		return
	}
	n, _, err := parseNode(w.body)
	if err != nil {
		w.body, w.err = nil, fmt.Errorf("the manifest is wrong: %w", err)
		sc.damage = append(sc.damage, w)
		return
	}
	for _, c := range n.Child {
		sc.refs[c.Hint.Pack] = max(sc.refs[c.Hint.Pack], c.Hint.End)
	}
}

// uncached reads what the disk holds.
type uncached struct{ f vfs.File }

func (u uncached) ReadAt(p []byte, off int64) (int, error) { return u.f.ReadUncachedAt(p, off) }

// endOpen drops or seals packs, in the order of their numbers. One that cannot
// be sealed now is left to the sealer, with all behind it; it can be read all
// the same.
func (s *Store) endOpen(open []*pack, rec *Recovery) {
	for _, p := range open {
		if p.written == 0 {
			s.dropPack(p)
			rec.Dropped = append(rec.Dropped, p.seq)
			continue
		}
		p.write.recovered = true
		if len(s.sealer.waiting) == 0 {
			err := s.sealRecovered(p)
			if p.sealed {
				rec.Sealed = append(rec.Sealed, p.seq)
			}
			if err == nil {
				continue
			}
			s.log.Warn("a pack of an earlier process could not be sealed yet", "pack", p.seq, "err", err)
		}
		s.sealer.waiting = append(s.sealer.waiting, full{p: p})
	}
}

// sealRecovered cuts a pack of an earlier process and seals it. What lies
// behind the cut is referred to by nothing, so that a power cut at any step
// leaves what this began with.
func (s *Store) sealRecovered(p *pack) error {
	if err := s.Healthy(); err != nil {
		return err
	}
	f, err := s.fs.OpenWrite(p.name)
	if err != nil {
		return fmt.Errorf("cas: %w", err)
	}
	defer f.Close()
	foot := marshalFooter(p.ledger(), p.written, slices.Clone(p.entries))
	if err := checkFooter(foot, p.written); err != nil {
		return err
	}
	if err := s.cut(p, f, foot); err != nil {
		return noSpace(s.fs, s.dir, err)
	}
	p.write.bytes = p.written + int64(len(foot))
	if p.write.b3, err = hashFile(uncached{f}, p.write.bytes); err != nil {
		// Part of it cannot be read, so there is no hash that would tell the
		// truth. The rest can be: the pack stays open, and the next Open, which
		// sees that later ones are sealed, tries again.
		s.log.Error("a pack cannot be sealed", "file", p.name, "err", err)
		return nil
	}
	if err := s.renameSealed(p); err != nil {
		return err
	}
	return s.listSealed(p)
}

// cut ends the file at the pack's end with a footer, and syncs it.
func (s *Store) cut(p *pack, f vfs.File, foot []byte) error {
	size, err := f.Size()
	if err != nil {
		return err
	}
	if size == p.written+int64(len(foot)) {
		got := make([]byte, len(foot))
		if _, err := (uncached{f}).ReadAt(got, p.written); err == nil && string(got) == string(foot) {
			return nil // it was sealed, and the ledger was not told
		}
	}
	if size > p.written {
		if err := f.Truncate(p.written); err != nil {
			return fmt.Errorf("cas: cut a pack: %w", err)
		}
	}
	if _, err := f.WriteAt(foot, p.written); err != nil {
		return fmt.Errorf("cas: write a footer: %w", err)
	}
	if err := f.Datasync(); err != nil {
		return s.poison("sync "+p.name, err)
	}
	return nil
}
