package crash

import (
	"fmt"
	"runtime"
	"time"
)

// Report is what a run of one driver in one layer came to.
type Report struct {
	Driver, Layer string
	Seed          uint64
	// Calls were made in the driver's first life; First is how many states a
	// crash in it can leave, and Deep into how many of them a second crash was
	// carried. In L2 First counts the faults there are, and Deep those that were
	// tried.
	Calls, First, Deep int
	// Opened counts, where the disk is full, the opens that found what they need.
	Opened int
	// Restarted counts, in L2, the distinct states that a power cut can leave of a
	// process that began on the page cache of one whose sync had failed once.
	Restarted int64
	// Skipped states after a first crash there was no time for.
	Skipped int
	// Visited counts the states that were looked at, and Distinct those that
	// were judged, each once.
	Visited, Distinct int64
	// Lives is how often the driver was run.
	Lives    int64
	Took     time.Duration
	Failures []*Failure
}

// String is one line of a table.
func (r Report) String() string {
	s := fmt.Sprintf("%-10s %s  %4d calls  %6d first (%d skipped)  %5d deep  %9d visited  %8d distinct  %d failures  %6.0f states/s  seed %d",
		r.Driver, r.Layer, r.Calls, r.First, r.Skipped, r.Deep, r.Visited, r.Distinct, len(r.Failures),
		float64(r.Distinct)/r.Took.Seconds(), r.Seed)
	if r.Restarted > 0 {
		s += fmt.Sprintf("  %d after EIO once, a restart and a power cut", r.Restarted)
	}
	if r.Opened > 0 {
		s += fmt.Sprintf("  %d opened while full", r.Opened)
	}
	return s
}

const budgetDefault = 5 * time.Second

func newRun(d *Driver, c Config, layer string) *run {
	if c.Budget == 0 {
		c.Budget = budgetDefault
	}
	if c.Workers == 0 {
		c.Workers = runtime.GOMAXPROCS(0)
	}
	if c.FailuresMax == 0 {
		c.FailuresMax = 1
	}
	return &run{Config: c, driver: d, layer: layer, begin: time.Now()}
}

func (r *run) elapsed() time.Duration { return time.Since(r.begin) }

func (r *run) report() Report {
	r.mu.Lock()
	defer r.mu.Unlock()
	return Report{
		Driver: r.driver.Name, Layer: r.layer, Seed: r.Seed, Visited: r.visited.Load(), Distinct: r.judged.Load(),
		Lives: r.lives.Load(), Took: r.elapsed(), Failures: r.failures, Restarted: r.restarts.Load(),
	}
}
