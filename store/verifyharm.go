package store

import (
	"context"
	"iter"
	"path/filepath"

	"durafs/cas"
	"durafs/runs"
	"durafs/wal"
)

// harm reports each reference to a payload that cannot be read in whole: many
// runs may share one, so what was found in a pack does not say whose it is.
func (v *verifier) harm(ctx context.Context, packs []cas.Pack) error {
	harmed, err := v.missing(ctx, packs)
	if err != nil {
		return err
	}
	if len(v.inPacks) > 0 {
		refs := func(yield func(cas.Ref) bool) {
			for id, w := range v.wanted {
				if _, known := harmed[id]; !known && !yield(w.Ref) {
					return
				}
			}
		}
		err := cas.Harmed(ctx, v.opt.FS, filepath.Join(v.dir, casName), packs, v.inPacks, refs, func(r cas.Ref, err error) {
			harmed[r.ID] = harmedBy{reason: err.Error()}
		})
		if err != nil {
			return err
		}
	}
	if len(harmed) == 0 {
		return nil
	}
	_, err = wal.Verify(ctx, v.opt.FS, filepath.Join(v.dir, walName), func(f wal.Frame) error {
		v.nameReferences(f, harmed)
		return nil
	}, func(wal.Finding) {})
	return err
}

// harmedBy is why a payload cannot be read. It dangles where no pack holds it.
type harmedBy struct {
	reason   string
	dangling bool
}

// missing are the payloads that no pack holds in whole. On the way what nothing
// refers to is counted.
func (v *verifier) missing(ctx context.Context, packs []cas.Pack) (map[cas.ID]harmedBy, error) {
	harmed, lacking := map[cas.ID]harmedBy{}, map[uint32]bool{}
	err := v.census.Reach(ctx, v.opt.FS, filepath.Join(v.dir, casName), packs, v.references(), func(r cas.Ref, m *cas.MissingError) {
		harmed[r.ID] = harmedBy{m.Error(), !m.Rotten(v.inPacks)}
		lacking[m.At.Pack] = true
	})
	for _, f := range v.inPacks {
		if f.Gone && lacking[f.Pack()] {
			v.addPack(f)
		}
	}
	v.sum.UnreferencedRecords, v.sum.UnreferencedBytes = v.census.Unreferenced()
	return harmed, err
}

// references are those to payloads, one of each.
func (v *verifier) references() iter.Seq[cas.Ref] {
	return func(yield func(cas.Ref) bool) {
		for _, w := range v.wanted {
			if !yield(w.Ref) {
				return
			}
		}
	}
}

// nameReferences reports what of a batch refers to a payload that is harmed.
func (v *verifier) nameReferences(f wal.Frame, harmed map[cas.ID]harmedBy) {
	at := batchPlace{f.Pos, f.LSN}
	if v.named == nil {
		v.named = map[batchPlace]bool{}
	}
	if v.named[at] { // beside an open log a batch may come more than once
		return
	}
	refs, err := runs.References(f.Payload)
	if err != nil {
		return // told already
	}
	for _, r := range refs {
		why, ok := harmed[r.ID]
		if !ok || v.deleted[payloadName{r.Run, r.Name}] {
			continue
		}
		v.named[at] = true
		if why.dangling {
			v.sum.Dangling++
		}
		v.addOf(Finding{
			File: segmentFile(f.Pos), Offset: int64(f.Pos.Offset), LSNFrom: f.LSN, LSNTo: f.LSN,
			RunNumber: uint64(r.Run), ID: r.ID.String(), Reason: "the payload " + r.Name + " cannot be read: " + why.reason,
		})
	}
}

// batchPlace is where a batch is.
type batchPlace struct {
	pos wal.Position
	lsn uint64
}
