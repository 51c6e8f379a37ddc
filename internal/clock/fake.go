package clock

import (
	"sync"
	"time"
)

// Fake is a clock that a test moves. It stands still otherwise.
type Fake struct {
	// mu guards both.
	mu   sync.Mutex
	wall time.Time
	boot time.Duration
}

// fakeBoot is what Boot begins at: not 0, which code may take for "never".
const fakeBoot = time.Hour

// NewFake makes a clock that shows this wall time.
func NewFake(wall time.Time) *Fake { return &Fake{wall: wall.UTC(), boot: fakeBoot} }

// Now implements Clock.
func (f *Fake) Now() time.Time {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.wall
}

// Boot implements Clock.
func (f *Fake) Boot() time.Duration {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.boot
}

// Advance lets time pass: both clocks move.
func (f *Fake) Advance(d time.Duration) { f.move(d, d) }

// JumpWall sets the wall clock forward, or back for a negative d, as an
// operator or a time server does. Boot time does not move.
func (f *Fake) JumpWall(d time.Duration) { f.move(d, 0) }

// AdvanceBoot moves boot time alone: time passes while the wall clock is held
// or set back by as much.
func (f *Fake) AdvanceBoot(d time.Duration) { f.move(0, d) }

func (f *Fake) move(wall, boot time.Duration) {
	if boot < 0 {
		panic("clock: boot time does not go back")
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.wall = f.wall.Add(wall)
	f.boot += boot
}
