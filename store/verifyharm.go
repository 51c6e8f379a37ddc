package store

import (
	"context"
	"path/filepath"

	"durafs/cas"
	"durafs/runs"
	"durafs/wal"
)

// harm reports each reference to a payload that cannot be read in whole: many
// runs may share one, so what was found in a pack does not say whose it is.
func (v *verifier) harm(ctx context.Context, packs []cas.Pack) error {
	harmed := v.missing(packs)
	if len(v.inPacks) > 0 {
		refs := func(yield func(cas.Ref) bool) {
			for id, r := range v.wanted {
				if _, known := harmed[id]; !known && !yield(r.Ref) {
					return
				}
			}
		}
		err := cas.Harmed(ctx, v.opt.FS, filepath.Join(v.dir, casName), packs, v.inPacks, refs, func(r cas.Ref, err error) {
			harmed[r.ID] = err.Error()
		})
		if err != nil {
			return err
		}
	}
	if len(harmed) == 0 {
		return nil
	}
	_, err := wal.Verify(ctx, v.opt.FS, filepath.Join(v.dir, walName), func(f wal.Frame) error {
		v.nameReferences(f, harmed)
		return nil
	}, func(wal.Finding) {})
	return err
}

// missing are the payloads that no pack holds. Those in packs that were begun
// since the list was read are not looked at.
func (v *verifier) missing(packs []cas.Pack) map[cas.ID]string {
	var last uint32
	for _, p := range packs {
		last = max(last, p.Seq)
	}
	harmed := map[cas.ID]string{}
	for id, r := range v.wanted {
		if !r.found && r.Hint.Pack <= last {
			harmed[id] = "no pack holds it"
		}
	}
	return harmed
}

// nameReferences reports what of a batch refers to a payload that is harmed.
func (v *verifier) nameReferences(f wal.Frame, harmed map[cas.ID]string) {
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
		if !ok {
			continue
		}
		v.named[at] = true
		v.addOf(Finding{
			File: segmentFile(f.Pos), Offset: int64(f.Pos.Offset), LSNFrom: f.LSN, LSNTo: f.LSN,
			RunNumber: uint64(r.Run), ID: r.ID.String(), Reason: "the payload " + r.Name + " cannot be read: " + why,
		})
	}
}

// batchPlace is where a batch is.
type batchPlace struct {
	pos wal.Position
	lsn uint64
}
