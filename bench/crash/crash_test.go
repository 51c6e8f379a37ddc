package crash

import (
	"flag"
	"os"
	"path/filepath"
	"runtime/debug"
	"testing"
	"time"
)

var (
	budget  = flag.Duration("budget", budgetUsual, "how long each driver may go beyond the first crash, in each layer")
	seed    = flag.Uint64("seed", 1, "of random mixes")
	only    = flag.String("driver", "", "run this driver only")
	most    = flag.Int("failures", 1, "go on until so many failures were found")
	replays = flag.String("replay", "", "judge the state in this file again")
)

const budgetUsual = 3 * time.Second

// failures is where states are kept that were judged to be wrong.
var failures = filepath.Join(os.TempDir(), "durafs-crash")

// TestReplay judges again what a failure left.
func TestReplay(t *testing.T) {
	if *replays == "" {
		t.Skip("needs -replay FILE")
	}
	if err := Replay(*replays, Drivers()); err != nil {
		t.Fatal(err)
	}
}

// statesWanted is how many distinct states L1 judges, unless a driver's time is
// over before: on a machine that is busy with other things.
const statesWanted = 1_000_000

func TestL1(t *testing.T) {
	distinct, late := everyDriver(t, L1)
	if *only == "" && !testing.Short() && !late && distinct < statesWanted && !t.Failed() {
		t.Errorf("%d distinct states were judged, not %d: the drivers have no more", distinct, statesWanted)
	}
}
func TestL2(t *testing.T) { everyDriver(t, L2) }
func TestL7(t *testing.T) { everyDriver(t, L7) }

// TestL2Full: the disk becomes full.
func TestL2Full(t *testing.T) { everyDriver(t, Full) }

// statesPatience is how many budgets a driver may take for the states that are
// wanted of it.
const statesPatience = 10

// shareOf is the part of a budget that a driver has in a layer.
func shareOf(test string, d *Driver) float64 {
	all, variant := map[string]float64{"TestL1": 1, "TestL2": 0.8, "TestL2Full": 0.25, "TestL7": 1}[test], 6.0
	switch {
	case !d.Variant || test == "TestL1":
		return all
	case test == "TestL2Full":
		variant = 3
	}
	return all / variant
}

// everyDriver runs all drivers in a layer. late says that one of them was not
// done when its time was over.
func everyDriver(t *testing.T, layer func(*Driver, Config) Report) (total int64, late bool) {
	began := time.Now()
	for _, d := range Drivers() {
		if *only != "" && *only != d.Name {
			continue
		}
		if testing.Short() && d.Name != "append" {
			continue // under the race detector one driver has all goroutines too
		}
		c := Config{Seed: *seed, Budget: *budget, Dir: failures, FailuresMax: *most}
		c.Budget = time.Duration(float64(c.Budget) * shareOf(t.Name(), d))
		if d.States > 0 && t.Name() == "TestL1" && !testing.Short() {
			c.Budget, c.StatesMax = statesPatience**budget, max(d.States, d.States*int64(*budget/budgetUsual))
		}
		r := layer(d, c)
		late = late || c.StatesMax > 0 && r.Distinct < c.StatesMax && r.Took >= c.Budget
		t.Log(r)
		if t.Name() == "TestL2" && *budget >= budgetUsual && r.Restarted == 0 && len(r.Failures) == 0 {
			t.Errorf("%s: no state was judged of a process that began on the page cache of a failed sync", d.Name)
		}
		for _, f := range r.Failures {
			t.Error(f)
		}
		total += r.Distinct
	}
	t.Logf("%d distinct states, %.0f a second", total, float64(total)/time.Since(began).Seconds())
	return total, late
}

// heapBytesMax is where garbage is collected in any case: other tests run
// beside these.
const heapBytesMax = 3 << 30

// Each life makes some garbage and keeps none of it.
func TestMain(m *testing.M) {
	flag.Parse()
	debug.SetGCPercent(800)
	debug.SetMemoryLimit(heapBytesMax)
	os.Exit(m.Run())
}
