package fusefs

import (
	"sync/atomic"
	"time"

	"durafs/runs"
)

// interest remembers roughly which runs were asked about within the time that
// an answer about a live one is remembered: a slot for many runs each, of
// fixed size, for telling too much does no harm. Run 0 is what all runs share.
type interest struct {
	slots [interestSlots]atomic.Int64 // boot time in nanoseconds
}

const interestSlots = 4096

// interestFor is how long a mark holds: the time that the answer is remembered
// by the kernel, and as long again for handlers that are slow to answer.
const interestFor = 2 * liveTimeout

func (i *interest) mark(ref runs.Ref, now time.Duration) (fresh bool) {
	slot := &i.slots[ref%interestSlots]
	fresh = !within(slot.Load(), now)
	slot.Store(int64(now))
	return fresh
}

func (i *interest) recent(ref runs.Ref, now time.Duration) bool {
	return within(i.slots[ref%interestSlots].Load(), now)
}

func within(mark int64, now time.Duration) bool {
	return mark != 0 && now-time.Duration(mark) < interestFor
}
