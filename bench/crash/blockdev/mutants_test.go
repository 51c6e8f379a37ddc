//go:build mutants

package blockdev_test

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"durafs/internal/mutant"
)

func init() { plant = func(n int) { mutant.Use(mutant.Name(n)) } }

// mustBeFound are the faults that a real file system shows in a few lives. Of
// the others most need what a real kernel never does, or rot; the simulated disk
// has those.
var mustBeFound = map[mutant.Name]bool{
	mutant.NoDirSyncAfterRename: true,
	mutant.AckBeforeBarrier:     true,
	mutant.SyncRetried:          true,
	mutant.ManifestNotSynced:    true,
	mutant.ListedAfterFrames:    true,
	mutant.ChunkNotSynced:       true,
	mutant.CacheTrusted:         true,
	mutant.DurableIsAccepted:    true,
	mutant.NewestPublished:      true,
}

const (
	mutantLives  = 2
	mutantRounds = 8
)

// TestMutants plants each fault, and lets the layers look for it: what they find
// is printed.
func TestMutants(t *testing.T) {
	defer mutant.Use(mutant.None)
	for _, m := range mutant.All() {
		t.Run(m.String(), func(t *testing.T) {
			began := time.Now()
			mutant.Use(m)
			where, why := hunt(t, int(m))
			t.Logf("MUTANT %-75s %-20s %.1f s  %.200s", m, where, time.Since(began).Seconds(), why)
			if mustBeFound[m] && why == "" {
				t.Error("it is not found")
			}
		})
	}
}

// hunt looks for the fault that is planted, first in power cuts, then in those
// behind an error, then where a killed process's files rot.
func hunt(t *testing.T, planted int) (where, why string) {
	var states int64
	search := func(layer string, times int, once func(m *machine, j *judges, i int) error) bool {
		j := newJudges(t)
		j.found = func(_ state, err error) { why = err.Error() }
		for i := 0; i < times && !j.failed.Load(); i++ {
			m := newMachine(t)
			m.plant = planted
			if err := once(m, j, i); err != nil {
				j.fails(state{}, err)
			}
		}
		j.end()
		states += j.judged.Load()
		where = fmt.Sprintf("%s after %d states", layer, states)
		return why != ""
	}
	if search("L4", mutantLives, func(m *machine, j *judges, i int) error {
		_, err := cutLife(m, j, rand.New(rand.NewPCG(*seed, uint64(i))))
		return err
	}) || search("L5", mutantRounds, func(m *machine, j *judges, i int) error {
		f := allFails[0]
		if i%2 == 1 {
			f = allFails[i/2+1]
		}
		return faultyRound(m, j, f, rand.New(rand.NewPCG(*seed, uint64(i))))
	}) {
		return where, why
	}
	for i := range uint64(mutantLives) {
		k, err := killLife(t, planted, rand.New(rand.NewPCG(*seed, i)), rotStates)
		if states += k.judged.Load(); err != nil {
			return fmt.Sprintf("L7 after %d states", states), err.Error()
		}
	}
	return fmt.Sprintf("not found in %d states", states), ""
}
