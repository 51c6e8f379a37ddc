package store

import (
	"context"
	"path/filepath"

	"durafs/cas"
	"durafs/wal"
)

// payloadRounds bounds how often the packs are looked at again, beside a daemon
// that sweeps.
const payloadRounds = 4

// payloads checks the packs, and what the log refers to in them. A daemon that
// sweeps beside us takes packs away, and what they held is in others then, of
// which this list does not know: what was found to be wrong counts if no pack of
// the list has gone.
func (v *verifier) payloads(ctx context.Context, packs []cas.Pack) error {
	for round := 1; ; round++ {
		v.progress("the packs")
		report, sum, harmed := v.report, v.sum, v.harmed
		var held []Finding
		v.report = func(f Finding) { held = append(held, f) }
		v.census, v.inPacks, v.named = cas.Census{}, nil, nil
		err := v.packs(ctx, packs)
		if err == nil {
			err = v.harm(ctx, packs)
		}
		v.report = report
		if len(held)+len(v.harmed)-len(harmed) > 0 && err == nil && round < payloadRounds {
			if now, swept := v.swept(ctx, packs); swept {
				packs, v.sum, v.harmed = now, sum, harmed
				continue
			}
		}
		for _, f := range held {
			report(f)
		}
		return err
	}
}

// swept reports whether a pack of the list is not listed any more, and which are.
func (v *verifier) swept(ctx context.Context, packs []cas.Pack) ([]cas.Pack, bool) {
	listed, err := wal.ListedPacks(ctx, v.opt.FS, filepath.Join(v.dir, walName))
	if err != nil {
		return nil, false
	}
	gone := map[uint32]bool{}
	for _, p := range packs {
		gone[p.Seq] = true
	}
	for _, p := range listed {
		delete(gone, p.Seq)
	}
	return casPacks(listed), len(gone) > 0
}
