package crash

import (
	"fmt"
	"runtime/debug"
	"time"

	"durafs/internal/vfs/simdisk"
)

// live leads a life and returns what is wrong. A panic is wrong.
func (d *Driver) live(l *Life) (err error) {
	watch := time.AfterFunc(liveMax, func() {
		debug.SetTraceback("all")
		panic(fmt.Sprintf("%s: a life does not end", d.Name))
	})
	defer watch.Stop()
	return guarded(d.Live, l)
}

// liveMax is how long a life may take: the longest waits a second for space.
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
