package crash

import (
	"fmt"
	"runtime"
	"runtime/debug"
	"time"

	"durafs/internal/vfs/simdisk"
)

// live leads a life and returns what is wrong. A panic is wrong, and so is a
// life that does not end: its disk is taken away, and its goroutines are left.
func (d *Driver) live(l *Life) (err error) {
	ended := make(chan error, 1)
	go func() { ended <- guarded(d.Live, l) }()
	watch := time.NewTimer(liveMax)
	defer watch.Stop()
	select {
	case err := <-ended:
		return err
	case <-watch.C:
		stacks := make([]byte, 64<<10)
		stacks = stacks[:runtime.Stack(stacks, true)]
		l.Kill()
		return fmt.Errorf("the life does not end:\n%s", stacks)
	}
}

// liveMax is how long a life may take: the longest waits a second for space,
// and the machine may be busy.
const liveMax = 60 * time.Second

// judge opens and judges, and no more.
func (d *Driver) judge(l *Life) error {
	if d.Judge == nil {
		return guarded(d.Live, l)
	}
	return guarded(d.Judge, l)
}

func guarded(fn func(*Life) error, l *Life) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic: %v\n%s", p, debug.Stack())
		}
	}()
	return fn(l)
}

// first is the life on an empty disk.
func (d *Driver) first(seed uint64) *Life {
	return &Life{Disk: simdisk.New(d.Disk), Seed: seed}
}

// after is a life on what is left of an earlier one.
func after(disk *simdisk.Disk, depth int, seed uint64, promises []Promise) *Life {
	return &Life{Disk: disk, Depth: depth, Seed: seed, promises: promises}
}
