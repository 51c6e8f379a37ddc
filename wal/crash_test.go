package wal

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"durafs/internal/vfs"
	"durafs/segment"
)

// moment is a disk just before one of its calls, and what was acknowledged by
// then.
type moment struct {
	disk  *simDisk
	acked int
	call  string
}

// record runs work on a disk and returns a moment for each call.
func record(disk *simDisk, acked *atomic.Int64, work func()) []moment {
	var moments []moment
	disk.onCall = func(n int, op, name string) simFault {
		a := int(acked.Load())
		moments = append(moments, moment{disk.clone(), a, fmt.Sprintf("%d: %s %s", n, op, name)})
		return simFault{}
	}
	work()
	disk.onCall = nil
	disk.mu.Lock()
	defer disk.mu.Unlock()
	return append(moments, moment{disk.clone(), int(acked.Load()), "end"})
}

const crashModes = 6

var full = flag.Bool("full", false, "try every crash state and fault of the tables, not a part of them")

// TestCrashAnywhere cuts the power before every call of a life of a log, in
// several ways, opens, and cuts it again before every third call of that.
func TestCrashAnywhere(t *testing.T) {
	bodies := numbered(1, 40, 900)
	disk := newSimDisk(1)
	o := testOptions(disk, "/wal")
	var acked atomic.Int64
	moments := record(disk, &acked, func() {
		for life := range 2 {
			l, _, frames, _ := mustOpen(t, o)
			for i := len(frames); i < 20*(life+1); i += 2 {
				// Two groups in a row without a wait between: the second forms
				// while the first is written.
				submit(l, bodies[i])
				if err := submit(l, bodies[i+1]).Wait(ctx); err != nil {
					t.Fatal(err)
				}
				acked.Store(int64(i + 2))
			}
			if life == 0 {
				mustClose(t, l)
			} else {
				crash(l)
			}
		}
	})
	states := 0
	for i, m := range moments {
		depth := 1
		if i%9 == 0 || *full {
			depth = 2
		}
		for mode := range crashModes {
			if !*full && mode > 3 && i%2 == 0 {
				continue
			}
			states += crashOnce(t, m, mode, bodies, depth)
			if t.Failed() {
				return
			}
		}
	}
	t.Logf("%d calls, %d crash states", len(moments), states)
}

// crashOnce opens what is left after a crash, checks it, and crashes that.
func crashOnce(t *testing.T, m moment, mode int, bodies []string, depth int) (states int) {
	t.Helper()
	disk := m.disk.crash(mode, uint64(m.acked*100+mode))
	o := testOptions(disk, "/wal")
	var acked atomic.Int64
	acked.Store(int64(m.acked))
	var r replayed
	inner := record(disk, &acked, func() {
		l, _, err := Open(ctx, o, r.add)
		if err != nil {
			t.Fatalf("before call %s, mode %d, depth %d: %v\n%s", m.call, mode, depth, err, disk.dump())
		}
		checkPrefix(t, r.frames, bodies, m)
		for _, f := range r.frames {
			if got, _, err := l.ReadBatch(f.Pos, nil); err != nil || got.LSN != f.LSN {
				t.Fatalf("before call %s: LSN %d at %v: %v", m.call, f.LSN, f.Pos, err)
			}
		}
		acked.Store(int64(len(r.frames)))
		l.Start(&recorder{})
		if next := len(r.frames); next < len(bodies) {
			if err := submit(l, bodies[next]).Wait(ctx); err != nil {
				t.Fatal(err)
			}
			acked.Store(int64(next + 1))
		}
		crash(l)
	})
	states = 1
	if depth > 1 {
		for i := mode % 3; i < len(inner); i += 3 {
			states += crashOnce(t, inner[i], 2+i%3, bodies, depth-1)
		}
	}
	return states
}

// TestKilledThenPowerCut kills a process before or after each call, lets
// another go on with what the page cache has, and then cuts the power: what
// either acknowledged is there.
func TestKilledThenPowerCut(t *testing.T) {
	for _, done := range []bool{false, true} {
		for n := 1; ; n++ {
			disk := newSimDisk(uint64(n))
			what := ""
			disk.onCall = func(i int, op, name string) simFault {
				if i < n {
					return simFault{}
				}
				if i == n {
					what = fmt.Sprintf("killed at call %d: %s %s, done %v", i, op, name, done)
				}
				return simFault{syscall.EIO, done && i == n} // it makes no further call
			}
			var log []string
			if l, _, err := Open(ctx, testOptions(disk, "/wal"), func(Frame) error { return nil }); err == nil {
				l.Start(&recorder{})
				for _, b := range numbered(1, 20, 900) {
					if submit(l, b).Wait(ctx) == nil {
						log = append(log, b)
					}
				}
				l.Close(ctx)
			}
			if what == "" {
				return
			}
			disk.onCall = nil
			l, _, frames, _ := mustOpen(t, testOptions(disk, "/wal"))
			if len(frames) > len(log) { // what was in flight
				log = append(log, string(frames[len(log)].Payload))
			}
			checkBodies(t, frames, log)
			log = append(log, "of the second")
			mustAppend(t, l, "of the second")
			crash(l)
			for mode := range crashModes {
				l, _, frames, _ := mustOpen(t, testOptions(disk.crash(mode, uint64(n)), "/wal"))
				if checkBodies(t, frames, log); t.Failed() {
					t.Fatal(what)
				}
				crash(l)
			}
		}
	}
}

func checkPrefix(t *testing.T, frames []Frame, bodies []string, m moment) {
	t.Helper()
	if len(frames) < m.acked {
		t.Fatalf("before call %s: %d batches, %d were acknowledged", m.call, len(frames), m.acked)
	}
	checkBodies(t, frames, bodies[:min(len(frames), len(bodies))])
}

// TestFailAnywhere fails every single call of a life of a log, done and not
// done, as EIO and as ENOSPC. Nothing affected is acknowledged, and opening
// again, with the page cache and after a power cut, loses nothing that was.
func TestFailAnywhere(t *testing.T) {
	bodies := numbered(1, 30, 900)
	calls := failRun(t, bodies, 0, simFault{})
	for n := 1; n <= calls; n++ {
		for i, errno := range []syscall.Errno{syscall.EIO, syscall.ENOSPC} {
			for j, done := range []bool{false, true} {
				if !*full && (n+i+2*j)%3 != 0 {
					continue
				}
				failRun(t, bodies, n, simFault{errno, done})
				if t.Failed() {
					t.Fatalf("call %d of %d, %v, done %v", n, calls, errno, done)
				}
			}
		}
	}
	t.Logf("%d calls", calls)
}

// failRun appends until an append fails and a little further, with the n-th
// call failing, and opens again. It returns how many calls there were.
func failRun(t *testing.T, bodies []string, n int, fault simFault) int {
	t.Helper()
	disk := newSimDisk(uint64(n))
	var what string
	disk.onCall = func(i int, op, name string) simFault {
		if i == n {
			what = op + " " + name
			return fault
		}
		return simFault{}
	}
	o := testOptions(disk, "/wal")
	var log []string // what was acknowledged, in order
	unknown := 0
	l, _, err := Open(ctx, o, func(Frame) error { return nil })
	if err == nil {
		l.Start(&recorder{})
		for i := 0; i < len(bodies); i++ {
			switch err := submit(l, bodies[i]).Wait(ctx); {
			case err == nil:
				if unknown > 0 {
					t.Fatalf("%s: acknowledged after an unknown outcome", what)
				}
				log = append(log, bodies[i])
			case errors.Is(err, ErrUnknown):
				unknown++
				log = append(log, bodies[i])
			}
		}
		if err := l.Close(ctx); err != nil && unknown == 0 && n == 0 {
			t.Fatal(err)
		}
	}
	disk.mu.Lock()
	if disk.open != 0 {
		t.Fatalf("%s: %d descriptors are still open", what, disk.open)
	}
	calls := disk.calls
	cut := disk.clone()
	disk.onCall = nil
	disk.mu.Unlock()
	if n == 0 && len(log) != len(bodies) {
		t.Fatalf("%d of %d acknowledged without a fault", len(log), len(bodies))
	}
	for mode := range crashModes {
		if !*full && mode%3 != n%3 {
			continue
		}
		d := disk
		if mode > 0 {
			d = cut.crash(mode-1, uint64(n))
		}
		failReopen(t, d, log, unknown, fmt.Sprintf("%s %v done %v, mode %d", what, fault.err, fault.done, mode))
	}
	return calls
}

func failReopen(t *testing.T, d *simDisk, log []string, unknown int, what string) {
	t.Helper()
	for range 2 {
		var r replayed
		l, _, err := Open(ctx, testOptions(d, "/wal"), r.add)
		if err != nil {
			t.Fatalf("%s: open again: %v", what, err)
		}
		if len(r.frames) < len(log)-unknown || len(r.frames) > len(log) {
			t.Fatalf("%s: %d batches, want %d, of which %d are unknown", what, len(r.frames), len(log), unknown)
		}
		checkBodies(t, r.frames, log[:len(r.frames)])
		l.Start(&recorder{})
		log, unknown = append(log[:len(r.frames):len(r.frames)], "one more"), 0
		mustAppend(t, l, "one more")
		crash(l)
		for _, mode := range []int{0, 2} { // what this one believed was on disk
			l, _, frames, _ := mustOpen(t, testOptions(d.crash(mode, uint64(len(log))), "/wal"))
			if checkBodies(t, frames, log); t.Failed() {
				t.Fatalf("%s: after another power cut", what)
			}
			crash(l)
		}
	}
}

// An open that finds no space leaves nothing behind that needs more of it than
// before, however often it is tried.
func TestFailedOpenLeavesNothing(t *testing.T) {
	for n := 1; ; n++ {
		disk := written(t)
		before := len(disk.names)
		for try := range 3 {
			faulty := vfs.NewFaulty(disk)
			faulty.Inject(vfs.Fault{Ops: vfs.OpCreate | vfs.OpWrite, Nth: n, Sticky: true, Err: syscall.ENOSPC})
			l, _, err := Open(ctx, testOptions(faulty, "/wal"), func(Frame) error { return nil })
			if err == nil && try == 0 {
				crash(l)
				return
			}
			var space *NoSpaceError
			if !errors.As(err, &space) {
				t.Fatalf("write or create %d, try %d: %v", n, try, err)
			}
			if len(disk.names) > before {
				t.Fatalf("write or create %d, try %d: left behind: %s", n, try, disk.dump())
			}
		}
		l, _, frames, _ := mustOpen(t, testOptions(disk, "/wal"))
		checkBodies(t, frames, numbered(1, 60, 900))
		mustClose(t, l)
	}
}

// Close gives back every descriptor: also of a segment that a write failed on,
// also those that a reader is still using, and a read that comes later opens
// none.
func TestCloseLeavesNothingOpen(t *testing.T) {
	disk := newSimDisk(1)
	l, _, _, _ := mustOpen(t, testOptions(disk, "/wal"))
	mustAppend(t, l, "1")
	pos := Position{l.writer.seg.id, segment.HeaderBytes}
	if _, _, err := l.ReadBatch(pos, nil); err != nil {
		t.Fatal(err)
	}
	waitFor(t, func() bool { l.mu.Lock(); defer l.mu.Unlock(); return l.ready != nil })
	disk.mu.Lock()
	next := disk.calls + 1
	disk.onCall = func(n int, _, _ string) simFault {
		if n == next {
			return simFault{err: syscall.EIO}
		}
		return simFault{}
	}
	disk.mu.Unlock()
	if err := submit(l, "2").Wait(ctx); !errors.Is(err, ErrRefused) {
		t.Fatal(err)
	}
	seg, _ := l.files.find(pos.Segment)
	if _, err := l.files.acquire(seg); err != nil {
		t.Fatal(err)
	}
	mustClose(t, l)
	l.files.release(seg)
	if _, _, err := l.ReadBatch(pos, nil); !errors.Is(err, ErrClosed) {
		t.Errorf("a read after Close: %v", err)
	}
	if disk.open != 0 {
		t.Errorf("%d descriptors are still open", disk.open)
	}
}

// A Close that runs out of time lets nobody wait for ever: here the writer
// waits for a segment that does not come.
func TestCloseOutOfTime(t *testing.T) {
	stuck := make(chan struct{})
	var spares atomic.Int32
	o := testOptions(vfs.Hooked(newSimDisk(1), func(c vfs.Call, do func(int64) error) error {
		if c.Op == vfs.OpCreate && strings.Contains(c.Name, "spare-") && spares.Add(1) > 1 {
			<-stuck
		}
		return do(vfs.Whole)
	}), "/wal")
	l, _, _, _ := mustOpen(t, o)
	mustAppend(t, l, "first")
	var all []Ticket
	for _, b := range numbered(1, 30, 900) {
		all = append(all, submit(l, b))
	}
	ended, cancel := context.WithCancel(ctx)
	cancel()
	if err := l.Close(ended); !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	if err := all[len(all)-1].Wait(ctx); !errors.Is(err, ErrUnknown) {
		t.Fatal(err)
	}
	close(stuck)
	<-l.writerDone
	l.tendDone.Wait()
	l.release()
}

func TestBatchWithoutEntries(t *testing.T) {
	l, _, _, _ := mustOpen(t, testOptions(newSimDisk(1), "/wal"))
	defer mustClose(t, l)
	defer func() {
		if recover() == nil {
			t.Error("taken: the next open would find an invalid frame")
		}
	}()
	l.Submit(Ordinary, func(uint64) Decision { return Decision{Batches: []*Batch{{}}} })
}

// An accept step that panics, which a server may recover from, does not keep
// the accept lock.
func TestPanicInAccept(t *testing.T) {
	l, _, _, _ := mustOpen(t, testOptions(newSimDisk(1), "/wal"))
	for _, submit := range []func(){
		func() { l.Submit(Ordinary, func(uint64) Decision { panic("a fault in decide") }) },
		func() { l.Do(ctx, Ordinary, func(uint64) Decision { panic("a fault in decide") }) },
	} {
		func() {
			defer func() { recover() }()
			submit()
		}()
		if !l.mu.TryLock() {
			t.Fatal("the accept lock is held")
		}
		l.mu.Unlock()
		mustAppend(t, l, "goes on")
	}
	mustClose(t, l)
}
