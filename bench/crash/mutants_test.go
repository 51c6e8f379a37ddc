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

// TestMutants switches each planted fault on and lets every layer look for it.
// Each must be found by one of them, or be listed as not visible.
func TestMutants(t *testing.T) {
	defer mutant.Use(mutant.None)
	t.Logf("%-75s %s", "fault", strings.Join(layerNames(), "  "))
	for _, m := range mutant.All() {
		if *only != "" && !strings.Contains(m.String(), *only) {
			continue
		}
		cells, found := hunt(m)
		t.Logf("%-75s %s", m, strings.Join(cells, "  "))
		switch why, hidden := notVisible[m]; {
		case !found && !hidden:
			t.Errorf("%q is found by no layer", m)
		case found && hidden:
			t.Errorf("%q is found, and listed as not visible: %s", m, why)
		}
	}
}

func layerNames() (names []string) {
	for _, l := range layers {
		names = append(names, fmt.Sprintf("%-24s", l.name))
	}
	return names
}

// hunt looks for a fault in every layer, with one driver after the other until
// it is found.
func hunt(m mutant.Name) (cells []string, found bool) {
	mutant.Use(m)
	for _, layer := range layers {
		var states int64
		cell := ""
		drivers := []*Driver{Append(), Roll(), Recycle()}
		if slices.Contains(inPacks, m) {
			drivers = []*Driver{Payloads()}
		}
		for _, d := range drivers {
			r := layer.run(d, Config{Seed: *seed, Budget: mutantBudget, StatesMax: mutantStatesMax})
			states += r.Distinct
			if len(r.Failures) > 0 {
				cell, found = fmt.Sprintf("%s in %d", d.Name, states), true
				break
			}
		}
		if cell == "" {
			cell = fmt.Sprintf("not in %d", states)
		}
		cells = append(cells, fmt.Sprintf("%-24s", cell))
	}
	return cells, found
}
