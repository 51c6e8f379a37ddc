// Package gentle lets work that may take its time go behind the commits of a
// log that shares the disk and the processors with it.
//
// Two things of such work keep a commit waiting. One is what it gives the disk
// to do: a disk makes durable one thing after the other. The other is harder to
// see: a thread that computes. When the disk is done, the thread that waited
// for it has to get a processor. A kernel gives it that of a thread that
// computes when that one's slice is over, and may look at that only when its
// clock ticks, every 4 ms where it ticks 250 times a second. To a barrier of
// 0.4 ms that is an age. Letting other goroutines go first (runtime.Gosched)
// changes nothing, since the thread goes on with another of them: it has to
// sleep. So the work is done in small steps with a rest behind each, for as
// long as others commit.
package gentle

import (
	"context"
	"time"
)

const (
	// stepBytes are worked on between two rests: 20 to 400 µs of a processor.
	stepBytes = 64 << 10
	// restTime makes the processor free, and holds what comes in, at about
	// 80 MB/s, to what a disk takes along beside barriers.
	restTime = 400 * time.Microsecond
	// lately is how many times more others count as committing when they are
	// seen to have done so: some 10 ms of steps and rests, so that it does not
	// matter between which two of them a commit falls.
	lately = 24
)

// Pace is the pace of one piece of work. It is for one goroutine.
type Pace struct {
	others func() uint64

	asked bool
	seen  uint64 // what others told the last time
	left  int    // of lately

	bytes int // since the last rest
}

// Beside is the pace of work beside others that commit: a function that is
// quick and tells a number that moves whenever they do. Where it is nil, there
// are none.
func Beside(others func() uint64) Pace { return Pace{others: others} }

// Others reports whether others commit: whether they have since it was asked
// before, or a few times before that. The first time they do not.
func (p *Pace) Others() bool {
	if p.others == nil {
		return false
	}
	now := p.others()
	if now != p.seen && p.asked {
		p.left = lately
	} else {
		p.left = max(0, p.left-1)
	}
	p.asked, p.seen = true, now
	return p.left > 0
}

// Did says that n bytes more were worked on, and rests when it is time to while
// others commit. It returns ctx's error as soon as that is over.
func (p *Pace) Did(ctx context.Context, n int) error {
	if p.bytes += n; p.bytes < stepBytes {
		return ctx.Err()
	}
	p.bytes = 0
	if !p.Others() {
		return ctx.Err()
	}
	rest := time.NewTimer(restTime)
	defer rest.Stop()
	select {
	case <-rest.C:
		return ctx.Err()
	case <-ctx.Done():
		return ctx.Err()
	}
}
