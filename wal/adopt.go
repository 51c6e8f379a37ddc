package wal

import (
	"errors"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"durafs/internal/vfs"
	"durafs/segment"
)

// A sealed file says itself who it is and what it replaces. So where a listed
// file is missing it is looked for among those that are not listed:
//
//   - A file that says that it is the missing one bears another name, whoever
//     gave it: it gets its own back.
//   - A complete file that replaces the missing one, and nothing that is still
//     there, is what a rewrite came to, whose commit this manifest does not
//     have: it is listed in the place of what it replaces.
//
// Any other unlisted file is the orphan of a step that was not committed; see
// checkUnlisted.

// stranger is a complete sealed file that is not listed.
type stranger struct {
	name string
	foot *segment.Footer
}

// adopt puts such files in the place of listed ones that are missing. What it
// cannot find stays missing, which the scan then says.
func (r *recovery) adopt() error {
	missing := map[uint32]segEntry{}
	for id, e := range r.old.segments {
		if _, there := slices.BinarySearch(r.names, segmentName(id)); !there && e.State == segSealed {
			missing[id] = e
		}
	}
	if len(missing) == 0 {
		return nil
	}
	strangers, err := r.strangers()
	if err != nil {
		return err
	}
	for _, s := range strangers {
		if err := r.adoptOne(s, missing); err != nil {
			return err
		}
	}
	r.old = r.man.current()
	r.names, err = r.fs.ReadDir(r.dir)
	return err
}

func (r *recovery) adoptOne(s stranger, missing map[uint32]segEntry) error {
	e, named := missing[s.foot.ID]
	if named && e.Salt == s.foot.Salt && e.Bytes == s.foot.Size {
		delete(missing, e.ID)
		r.adopted(s, e)
		return r.rename(s.name, segmentName(e.ID))
	}
	if len(s.foot.Replaces) == 0 || s.name != segmentName(s.foot.ID) {
		return nil
	}
	edits := make([]edit, 0, len(s.foot.Replaces)+1)
	for _, id := range s.foot.Replaces {
		if _, gone := missing[id]; !gone {
			return nil
		}
		edits = append(edits, dropSegment(id))
	}
	e, err := sealedEntry(r.fs, r.path(s.name), s.foot)
	if err != nil {
		return err
	}
	if err := r.man.commit(append(edits, setSegment(e))...); err != nil {
		return err
	}
	for _, id := range s.foot.Replaces {
		delete(missing, id)
	}
	r.adopted(s, e)
	return nil
}

func (r *recovery) adopted(s stranger, e segEntry) {
	r.rec.Notes = append(r.rec.Notes, &DamageError{
		File: segmentName(e.ID), Reason: "the file was missing, and found as " + s.name,
	})
}

func (r *recovery) rename(from, to string) error {
	if err := r.fs.Rename(r.path(from), r.path(to)); err != nil {
		return err
	}
	return r.dirf.Sync()
}

// strangers are the complete sealed files that are not listed under their
// names, in the order of their names.
func (r *recovery) strangers() ([]stranger, error) {
	var list []stranger
	for _, name := range r.names {
		id, isSegment := segmentID(name)
		if _, listed := r.old.segments[id]; isSegment && listed || strings.HasPrefix(name, "MANIFEST") || strings.HasSuffix(name, tmpSuffix) {
			continue
		}
		foot, err := footerOf(r.fs, r.path(name), r.opts.StoreID)
		switch {
		case err == nil:
			list = append(list, stranger{name, foot})
		case fromLaterVersion(err):
			return nil, damageAt(name, 0, 0, 0, err)
		}
	}
	return list, nil
}

func footerOf(fsys vfs.FS, path string, storeID [16]byte) (*segment.Footer, error) {
	f, err := fsys.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return lastBlock(f, storeID)
}

// sealedEntry is what the manifest would say of a complete sealed file.
func sealedEntry(fsys vfs.FS, path string, foot *segment.Footer) (segEntry, error) {
	f, err := fsys.Open(path)
	if err != nil {
		return segEntry{}, err
	}
	defer f.Close()
	e := segEntry{
		ID: foot.ID, Generation: foot.Generation, Salt: foot.Salt, Size: foot.End,
		State: segSealed, End: foot.End, Last: foot.Last, Bytes: foot.Size,
	}
	e.B3, err = sealedSum(f, foot.Size)
	return e, err
}

// Rebuild writes a manifest anew where both copies are gone, from what the
// segments say of themselves: sealed ones by their footers, the others by
// their headers, and of those that replace others only where these are gone.
// The directory is locked against others and no log is open in it. packs and
// high are what the caller knows of them; numbers that are found above high
// count, and so do those of Options.Begin, behind which the log began.
//
// The next Open decides, as ever, where the log ends. Rebuild returns a
// *DamageError where a segment says nothing of itself.
func Rebuild(o Options, packs []Pack, high HighWater) error {
	o, err := o.withDefaults()
	if err != nil {
		return err
	}
	names, err := o.FS.ReadDir(o.Dir)
	if err != nil {
		return err
	}
	state := newManifestState()
	state.high = HighWater{
		Segment: max(high.Segment, o.Begin.Segment), Pack: max(high.Pack, o.Begin.Pack), LSN: max(high.LSN, o.Begin.LSN),
		Dropped: max(high.Dropped, o.Begin.LSN), Numbers: high.Numbers.max(o.Begin.Numbers),
	}
	replaced := map[uint32][]uint32{}
	for _, name := range names {
		id, ok := segmentID(name)
		if !ok {
			continue
		}
		e, replaces, err := selfDescribed(o.FS, o.Dir, name, o.StoreID)
		if err != nil {
			return err
		}
		if e.ID != id {
			return &DamageError{File: name, Reason: "the file says that it is " + segmentName(e.ID)}
		}
		state.segments[id], replaced[id] = e, replaces
		state.high.Segment = max(state.high.Segment, id)
		state.high.LSN = max(state.high.LSN, e.Last)
	}
	dropUncommitted(state.segments, replaced)
	if err := endWhereNextBegins(o, &state); err != nil {
		return err
	}
	for _, p := range packs {
		state.packs[p.Seq] = p
		state.high.Pack = max(state.high.Pack, p.Seq)
	}
	dirf, err := o.FS.OpenDir(o.Dir)
	if err != nil {
		return err
	}
	defer dirf.Close()
	m := &manifest{fs: o.FS, dir: o.Dir, dirf: dirf, storeID: o.StoreID, log: o.Log, fail: func(error) {}, bytes: manifestBytesMin, salt: newSalt}
	defer m.close()
	return m.rewrite(state)
}

// endWhereNextBegins notes the last LSN of each segment that is not sealed and
// is followed by another. The manifest knew that of some: in one on which a
// write had failed a group may stand that was refused, and its LSNs were given
// again.
func endWhereNextBegins(o Options, state *manifestState) error {
	list := state.sortedSegments()
	for i := len(list) - 1; i > 0; i-- {
		if list[i-1].State != segLive {
			continue
		}
		next, err := entryOf(o.FS, filepath.Join(o.Dir, segmentName(list[i].ID)), list[i].ID, o.StoreID)
		if err != nil {
			return err
		}
		if next.Last == 0 && i+1 < len(list) { // nothing is in it: the one behind tells
			next.Last = list[i].Last + 1
		}
		if next.Last > 0 {
			list[i-1].Last = next.Last - 1
			state.segments[list[i-1].ID] = list[i-1]
		}
	}
	return nil
}

// dropUncommitted takes out of the list the segments that replace one which is
// still there: their step was not committed.
func dropUncommitted(list map[uint32]segEntry, replaced map[uint32][]uint32) {
	for _, id := range slices.Sorted(maps.Keys(list)) {
		for _, old := range replaced[id] {
			if _, there := list[old]; there {
				delete(list, id)
				break
			}
		}
	}
}

// selfDescribed is what a segment's file says of itself. A footer counts if the
// header agrees, or is damaged: a file that is used again may still have the
// footer of its former use.
func selfDescribed(fsys vfs.FS, dir, name string, storeID [16]byte) (segEntry, []uint32, error) {
	path := filepath.Join(dir, name)
	f, err := fsys.Open(path)
	if err != nil {
		return segEntry{}, nil, damageAt(name, 0, 0, 0, err)
	}
	defer f.Close()
	h, headErr := readHeader(f.ReadAt, segment.LogFile, storeID)
	foot, footErr := lastBlock(f, storeID)
	for _, err := range []error{headErr, footErr} {
		if fromLaterVersion(err) || errors.Is(err, errOtherStore) {
			return segEntry{}, nil, damageAt(name, 0, 0, 0, err)
		}
	}
	switch {
	case footErr == nil && (headErr != nil || foot.ID == h.ID && foot.Salt == h.Salt):
		e, err := sealedEntry(fsys, path, foot)
		return e, foot.Replaces, err
	case headErr != nil:
		return segEntry{}, nil, damageAt(name, 0, 0, 0, headErr)
	}
	size, err := f.Size()
	return segEntry{ID: h.ID, Generation: h.Generation, Salt: h.Salt, Size: size, State: segLive}, h.Replaces, err
}
