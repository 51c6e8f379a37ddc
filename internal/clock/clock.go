// Package clock is the only place that asks what time it is.
//
// Two clocks matter to the store. Wall time stamps what people read; it may
// jump. Boot time (CLOCK_BOOTTIME) measures age; it never goes back and goes
// on while the machine sleeps. Nothing is decided by comparing wall times.
package clock

import (
	"time"

	"golang.org/x/sys/unix"
)

// Clock tells the time. It may be used concurrently.
type Clock interface {
	// Now is the wall time, in UTC.
	Now() time.Time
	// Boot is the time since the machine started, sleep included.
	Boot() time.Duration
}

// System is the machine's clock.
var System Clock = system{}

type system struct{}

func (system) Now() time.Time { return time.Now().UTC() }

func (system) Boot() time.Duration {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &ts); err != nil {
		panic("clock: CLOCK_BOOTTIME: " + err.Error()) // part of every Linux since 2.6.39
	}
	return time.Duration(ts.Nano())
}
