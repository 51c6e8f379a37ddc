//go:build mutants

package crash

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"durafs/internal/mutant"
)

// mutantBudget bounds the search for one fault by one driver in one layer.
const (
	mutantBudget    = 20 * time.Second
	mutantStatesMax = 6000
)

// inPacks are faults of the chunk store: only a driver of it can see them.
var inPacks = []mutant.Name{mutant.ChunkNotSynced, mutant.DedupBeforeBarrier, mutant.FooterTrusted, mutant.ChunkNotVerified}

// notVisible are faults that no layer can see, and why. A fault that is found
// all the same must not stand here.
var notVisible = map[mutant.Name]string{
	mutant.OldTailAppended:   "where all of the tail is vouched for, it is appended to at the right place",
	mutant.SaltNotInChecksum: "frames of a file's former use have lower LSNs and another chain: they neither follow nor claim what is missing",
	mutant.LinkedRecycled:    "no driver gives a segment a second name; TestDropOfWhatOthersHave in wal does",
}

// TestMutants switches each planted fault on and lets one driver and layer after
// the other look for it, until one finds it. What none finds must be listed.
func TestMutants(t *testing.T) {
	defer mutant.Use(mutant.None)
	for _, m := range mutant.All() {
		if *only != "" && !strings.Contains(m.String(), *only) {
			continue
		}
		began := time.Now()
		where, found := hunt(m)
		t.Logf("%-75s %s  %.1f s", m, where, time.Since(began).Seconds())
		switch why, hidden := notVisible[m]; {
		case !found && !hidden:
			t.Errorf("%q is found by no layer", m)
		case found && hidden:
			t.Errorf("%q is found, and listed as not visible: %s", m, why)
		}
	}
}

// hunt looks for a fault with one driver after the other, in one layer after the
// other, until it is found.
func hunt(m mutant.Name) (where string, found bool) {
	mutant.Use(m)
	var states int64
	for _, at := range huntsFor(m) {
		r := at.layer.run(at.driver, Config{Seed: *seed, Budget: mutantBudget, StatesMax: mutantStatesMax})
		states += r.Distinct
		if len(r.Failures) > 0 {
			return fmt.Sprintf("%s  %-9s %7d states", at.layer.name, at.driver.Name, states), true
		}
	}
	return fmt.Sprintf("not found in %d states", states), false
}

type hunted struct {
	layer  layer
	driver *Driver
}

// huntsFor are all that may find a fault, what is likely to first.
func huntsFor(m mutant.Name) (all []hunted) {
	drivers := []*Driver{Append(), Roll(), Recycle(), Quiet(), Rewrite(), Restarts(), Again()}
	if slices.Contains(inPacks, m) {
		drivers = []*Driver{Payloads(), Chunks()}
	}
	for _, layer := range layers {
		for _, d := range drivers {
			all = append(all, hunted{layer, d})
		}
	}
	return all
}
