package bench

import (
	"context"
	"os/exec"
	"time"
)

// bench is what a group works with.
type bench struct {
	sizes
	dir      string // its own, empty; removed when the group is done
	serve    func(store, mount string) *exec.Cmd
	progress func(what string)
}

// group is measurements that are made one after the other.
type group struct {
	name    string
	quick   bool // it needs a floor and seconds, and nothing else
	measure func(context.Context, *bench) ([]Row, error)
}

var groups = []group{
	{"append", true, measureAppend},
	{"request", true, measureRequests},
	{"stream", true, measureStream},
	{"payload-in", true, measurePayloadIn},
	{"payload-out", true, measurePayloadOut},
	{"lists", false, measureLists},
	{"latency", false, measureLatency},
	{"amplification", false, measureAmplification},
	{"replay", false, measureReplay},
	{"recovery", false, measureRecovery},
	{"space", false, measureSpace},
	{"open", false, measureOpen},
}

// Groups names what can be measured, in its order.
func Groups() []string {
	var names []string
	for _, g := range groups {
		names = append(names, g.name)
	}
	return names
}

// sizes is how much of each is measured.
type sizes struct {
	roundTime time.Duration // of one side of a pair that has no other end

	payloadBytes int64 // incompressible; half of it of text
	outBytes     int64 // read through the mount
	streamBytes  int64 // of rows, by all connections of a round
	latencyBytes int64 // of the payload that comes in beside the commits
	written      int64 // bytes of rows whose way to the disk is counted
	tailBytes    int64 // replayed
	crashBytes   int64 // the largest tail of the time to the first answer
	listedFew    int   // runs of a small store whose pages are asked for
	listedMany   int   // and of a large one
	spaceRuns    int   // whose place on the disk is compared
	runs         int   // of the large store
	rowsPerRun   int   // of the one with few rows; the other has ten times as many
}

var (
	quick = sizes{
		roundTime:    250 * time.Millisecond,
		payloadBytes: 256 << 20, outBytes: 128 << 20, streamBytes: 48 << 20,
	}
	full = sizes{
		roundTime:    time.Second,
		payloadBytes: 1 << 30, outBytes: 128 << 20, streamBytes: 48 << 20,
		latencyBytes: 1 << 30, written: 1 << 30, tailBytes: 1 << 30, crashBytes: 256 << 20,
		listedFew: 1000, listedMany: 100_000,
		spaceRuns: 2000, runs: 1_000_000, rowsPerRun: 1,
	}
)
