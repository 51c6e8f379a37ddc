package cas

import (
	"fmt"
	"slices"

	"durafs/internal/vfs"
)

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
	if err := s.must(func() error { return s.cut(p, f, foot) }); err != nil {
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
