package cas

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"durafs/internal/vfs"
)

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
	keepAll := s.opts.KeepAll
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
