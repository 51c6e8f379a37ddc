package wal

import (
	"context"
	"errors"
	"flag"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"durafs/internal/vfs"
	"durafs/internal/vfs/simdisk"
	"durafs/segment"
)

// What a crash may take, and what a call that fails, is judged by bench/crash,
// state by state. Here is what that does not look at.

var full = flag.Bool("full", false, "try every crash state and fault of the tables, not a part of them")

// TestReadAfterCrash cuts the power all over two lives of a log, and once more
// all over some recoveries: each batch that is replayed is read where it was said
// to be.
func TestReadAfterCrash(t *testing.T) {
	disk := newDisk()
	bodies := numbered(1, 40, 900)
	journal := disk.Record()
	for life := range 2 {
		l, _, frames, _ := mustOpen(t, testOptions(disk, "/wal"))
		for i := len(frames); i < 20*(life+1); i += 2 {
			// Two groups in a row without a wait between: the second forms
			// while the first is written.
			submit(l, bodies[i])
			if err := submit(l, bodies[i+1]).Wait(ctx); err != nil {
				t.Fatal(err)
			}
		}
		crash(l)
	}
	every, states := 5, 0
	if *full {
		every = 1
	}
	for s := range journal.Explore(simdisk.Explore{Every: every, Mixes: 2}).States() {
		states++
		cut := s.Disk()
		if states%20 > 0 {
			readReplayed(t, cut, bodies, s)
			continue
		}
		inner := cut.Record()
		readReplayed(t, cut, bodies, s)
		for s := range inner.Explore(simdisk.Explore{Every: every, Mixes: 1}).States() {
			states++
			readReplayed(t, s.Disk().Forgetful(), bodies, s)
		}
	}
	t.Logf("%d states", states)
	if states < 300 {
		t.Error("these are too few")
	}
}

func readReplayed(t *testing.T, disk *simdisk.Disk, bodies []string, s *simdisk.State) {
	t.Helper()
	l, _, frames, _ := mustOpen(t, testOptions(disk, "/wal"))
	checkBodies(t, frames, bodies[:min(len(frames), len(bodies))])
	for _, f := range frames {
		if got, _, err := l.ReadBatch(f.Pos, nil); err != nil || got.LSN != f.LSN {
			t.Fatalf("%v: LSN %d at %v: %v", s, f.LSN, f.Pos, err)
		}
	}
	crash(l)
}

// TestNothingAfterUnknown fails every single call of a life of a log, done or
// not done, as EIO or as ENOSPC: behind an outcome that is unknown nothing is
// acknowledged, and Close gives back every descriptor.
func TestNothingAfterUnknown(t *testing.T) {
	calls := failRun(t, 0, simdisk.Fault{})
	for n := 1; n <= calls; n++ {
		for i, errno := range []syscall.Errno{syscall.EIO, syscall.ENOSPC} {
			for j, done := range []bool{false, true} {
				if !*full && (n+i+2*j)%4 != 0 {
					continue
				}
				failRun(t, n, simdisk.Fault{Err: errno, Done: done})
				if t.Failed() {
					t.Fatalf("call %d of %d, %v, done %v", n, calls, errno, done)
				}
			}
		}
	}
	t.Logf("%d calls", calls)
}

// failRun appends, also behind what fails, with the n-th call failing. It
// returns how many calls there were.
func failRun(t *testing.T, n int, fault simdisk.Fault) int {
	t.Helper()
	disk := newDisk()
	var what string
	count := failCalls(disk, func(i int, c vfs.Call) *simdisk.Fault {
		if i != n {
			return nil
		}
		what = c.String()
		return &fault
	})
	acked, unknown := 0, 0
	if l, _, err := Open(ctx, testOptions(disk, "/wal"), func(Frame) error { return nil }); err == nil {
		l.Start(&recorder{})
		for _, body := range numbered(1, 30, 900) {
			switch err := submit(l, body).Wait(ctx); {
			case err == nil && unknown > 0:
				t.Fatalf("%s: acknowledged after an unknown outcome", what)
			case err == nil:
				acked++
			case errors.Is(err, ErrUnknown):
				unknown++
			}
		}
		if err := l.Close(ctx); err != nil && n == 0 {
			t.Fatal(err)
		}
	}
	if disk.Handles() != 0 {
		t.Fatalf("%s: %d descriptors are still open", what, disk.Handles())
	}
	if n == 0 && acked != 30 {
		t.Fatalf("%d acknowledged without a fault", acked)
	}
	return count()
}

// An open that finds no space leaves nothing behind that needs more of it than
// before, however often it is tried.
func TestFailedOpenLeavesNothing(t *testing.T) {
	whole := written(t)
	for n := 1; ; n++ {
		disk := whole.Clone()
		before := len(filesOf(disk))
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
			if left := filesOf(disk); len(left) > before {
				t.Fatalf("write or create %d, try %d: left behind: %s", n, try, left)
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
	disk := newDisk()
	l, _, _, _ := mustOpen(t, testOptions(disk, "/wal"))
	mustAppend(t, l, "1")
	pos := Position{l.writer.seg.id, segment.HeaderBytes}
	if _, _, err := l.ReadBatch(pos, nil); err != nil {
		t.Fatal(err)
	}
	waitFor(t, func() bool { l.mu.Lock(); defer l.mu.Unlock(); return l.ready != nil })
	failCalls(disk, func(n int, _ vfs.Call) *simdisk.Fault {
		if n == 1 {
			return &simdisk.Fault{Err: syscall.EIO}
		}
		return nil
	})
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
	if disk.Handles() != 0 {
		t.Errorf("%d descriptors are still open", disk.Handles())
	}
}

// A Close that runs out of time lets nobody wait for ever: here the writer
// waits for a segment that does not come.
func TestCloseOutOfTime(t *testing.T) {
	stuck := make(chan struct{})
	var spares atomic.Int32
	o := testOptions(vfs.Hooked(newDisk(), func(c vfs.Call, do func(int64) error) error {
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
	l, _, _, _ := mustOpen(t, testOptions(newDisk(), "/wal"))
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
	l, _, _, _ := mustOpen(t, testOptions(newDisk(), "/wal"))
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
