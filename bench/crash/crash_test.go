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
	budget  = flag.Duration("budget", 3*time.Second, "how long each driver may go beyond the first crash, in each layer")
	seed    = flag.Uint64("seed", 1, "of random mixes")
	only    = flag.String("driver", "", "run this driver only")
	most    = flag.Int("failures", 1, "go on until so many failures were found")
	replays = flag.String("replay", "", "judge the state in this file again")
)

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

func TestL1(t *testing.T) { everyDriver(t, L1) }
func TestL2(t *testing.T) { everyDriver(t, L2) }
func TestL7(t *testing.T) { everyDriver(t, L7) }

func everyDriver(t *testing.T, layer func(*Driver, Config) Report) {
	var total int64
	for _, d := range Drivers() {
		if *only != "" && *only != d.Name {
			continue
		}
		if testing.Short() && d.Name != "append" {
			continue // under the race detector one driver has all goroutines too
		}
		r := layer(d, Config{Seed: *seed, Budget: *budget, Dir: failures, FailuresMax: *most})
		t.Log(r)
		for _, f := range r.Failures {
			t.Error(f)
		}
		total += r.Distinct
	}
	t.Logf("%d distinct states", total)
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
