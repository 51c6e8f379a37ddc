package wal

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"syscall"
	"testing"

	"durafs/internal/ballast"
	"durafs/internal/vfs"
	"durafs/internal/vfs/simdisk"
)

// reserved submits one reserved batch.
func reserved(l *Log, body string) Ticket {
	return l.Submit(Reserved, func(uint64) Decision { return Decision{Batches: []*Batch{batch(body)}} })
}

func fullOptions(fsys vfs.FS) Options {
	o := testOptions(fsys, "/wal")
	o.BallastBytes = 160 << 10 // two copies of the manifest and a segment
	return o
}

// A disk that is full from any moment on: what is ordinary is refused in so
// many words, what is reserved goes on for a while, opening works again and
// again, and with space once more everything does, by itself.
func TestFullDisk(t *testing.T) {
	for _, root := range []bool{false, true} {
		for before := range 24 {
			t.Run(fmt.Sprintf("root=%v/%d", root, before), func(t *testing.T) {
				const kept = 1 << 20 // for root, of a disk that others have filled
				disk := simdisk.New(simdisk.Options{CapacityBytes: 1 << 30, ReservedBytes: kept, Root: root})
				o := fullOptions(disk)
				l, _, _, _ := mustOpen(t, o)
				waitFor(t, func() bool { return l.Stats().Ballast })
				want := numbered(1, before, 900)
				mustAppend(t, l, want...)
				if disk.Fill(); !root {
					disk.SetCapacity(disk.UsedBytes() + kept)
				}
				want = append(want, untilShort(t, l, len(want)+1)...)
				for range 3 {
					if err := reserved(l, "an outcome").Wait(ctx); err != nil {
						t.Fatalf("a reserved batch on a full disk: %v", err)
					}
					want = append(want, "an outcome")
				}
				for i := range 4 {
					if i%2 == 0 {
						crash(l)
					} else if err := l.Close(ctx); err != nil && !isNoSpace(err) {
						t.Fatalf("Close: %v", err)
					}
					var frames []Frame
					l, _, frames, _ = mustOpen(t, o)
					checkBodies(t, frames, want)
					if err := reserved(l, "after an open").Wait(ctx); err != nil {
						t.Fatalf("a reserved batch after open %d on a full disk: %v", i, err)
					}
					want = append(want, "after an open")
				}
				disk.SetCapacity(0)
				again := numbered(1, 20, 900)
				for _, b := range again {
					waitFor(t, func() bool { return submit(l, b).Wait(ctx) == nil })
				}
				want = append(want, again...)
				waitFor(t, func() bool { return l.Stats().Ballast })
				mustClose(t, l)
				l, _, frames, _ := mustOpen(t, o)
				checkBodies(t, frames, want)
				mustClose(t, l)
			})
		}
	}
}

// untilShort appends ordinary batches until they are refused, and returns what
// was taken.
func untilShort(t *testing.T, l *Log, from int) (taken []string) {
	t.Helper()
	for range 200 {
		at := from + len(taken)
		body := numbered(at, at, 900)[0]
		err := submit(l, body).Wait(ctx)
		var space *NoSpaceError
		switch {
		case err == nil:
			taken = append(taken, body)
		case errors.As(err, &space):
			return taken
		default:
			t.Fatalf("a full disk is answered with %v", err)
		}
	}
	t.Fatal("a full disk took everything")
	return nil
}

// Without a ballast an open on a full disk uses a segment again that an earlier
// process prepared, as long as there is space for the manifest.
func TestOpenUsesUnusedSegment(t *testing.T) {
	disk := simdisk.New(simdisk.Options{CapacityBytes: 1 << 30})
	o := testOptions(disk, "/wal")
	o.BallastBytes = -1
	l, _, _, _ := mustOpen(t, o)
	mustAppend(t, l, "1", "2")
	waitFor(t, func() bool { l.mu.Lock(); defer l.mu.Unlock(); return l.ready != nil })
	crash(l)
	disk.SetCapacity(disk.UsedBytes() + 3*4096*2) // two small copies of the manifest
	for range 3 {
		var frames []Frame
		l, _, frames, _ = mustOpen(t, o)
		checkBodies(t, frames, []string{"1", "2"})
		crash(l)
	}
	disk.SetCapacity(disk.UsedBytes())
	var space *NoSpaceError
	if _, _, err := Open(ctx, o, func(Frame) error { return nil }); !errors.As(err, &space) {
		t.Fatalf("without any space: %v", err)
	}
	disk.SetCapacity(0)
	l, _, frames, _ := mustOpen(t, o)
	checkBodies(t, frames, []string{"1", "2"})
	mustClose(t, l)
}

// A segment all of whose batches are to be carried on is not an unused one: as
// long as they are nowhere else an open on a full disk leaves it alone.
func TestOpenKeepsWhatItCarries(t *testing.T) {
	disk := simdisk.New(simdisk.Options{})
	o := testOptions(disk, "/wal")
	o.BallastBytes = -1
	disk.SetFault(func(_ int, c vfs.Call) *simdisk.Fault {
		if c.Op == vfs.OpCreate && c.Name == "/wal/spare-0000000002.seg" {
			return &simdisk.Fault{Err: syscall.ENOSPC}
		}
		return nil
	})
	l, _, _, _ := mustOpen(t, o)
	if err := reserved(l, "1").Wait(ctx); err != nil {
		t.Fatal(err)
	}
	crash(l)
	disk = disk.Clone()
	disk.SetCapacity(disk.UsedBytes() + 3*4096*2) // two small copies of the manifest
	o.FS = disk
	journal := disk.Record()
	l, _, err := Open(ctx, o, func(Frame) error { return nil })
	var space *NoSpaceError
	switch {
	case err == nil:
		l.Start(&recorder{})
		crash(l)
	case !errors.As(err, &space):
		t.Fatal(err)
	}
	states := journal.Explore(simdisk.Explore{})
	for s := range states.States() {
		o.FS = s.Disk()
		o.FS.(*simdisk.Disk).SetCapacity(0)
		l, _, frames, _ := mustOpen(t, o)
		checkBodies(t, frames, []string{"1"})
		crash(l)
	}
}

// A write that finds no space, on a file system that writes nothing in place,
// is refused and poisons nothing, also while the manifest cannot be written
// either; and writes work again when there is space.
func TestWriteWithoutSpace(t *testing.T) {
	for _, manifestToo := range []bool{false, true} {
		faulty := vfs.NewFaulty(newDisk())
		o := testOptions(faulty, "/wal")
		l, _, _, _ := mustOpen(t, o)
		mustAppend(t, l, "1")
		waitFor(t, func() bool { l.mu.Lock(); defer l.mu.Unlock(); return l.ready != nil && l.space.ballast.Held() })
		full := vfs.Fault{Ops: vfs.OpWrite, Nth: 1, Sticky: manifestToo, Err: syscall.ENOSPC}
		faulty.Inject(full)
		tk := submit(l, "refused")
		if manifestToo {
			// The manifest is waited for; meanwhile ordinary ones are refused.
			waitFor(t, func() bool { return l.Stats().ShortOfSpace && !l.space.ballast.Held() })
			var space *NoSpaceError
			if err := submit(l, "meanwhile").Wait(ctx); !errors.As(err, &space) {
				t.Errorf("meanwhile: %v", err)
			}
			pending(t, tk)
			faulty.Clear()
		}
		var space *NoSpaceError
		if err := tk.Wait(ctx); !errors.As(err, &space) {
			t.Errorf("a write without space: %v", err)
		}
		waitFor(t, func() bool { return submit(l, "2").Wait(ctx) == nil })
		if err := l.Healthy(); err != nil {
			t.Fatal(err)
		}
		crash(l)
		l, _, frames, _ := mustOpen(t, o)
		checkBodies(t, frames, []string{"1", "2"})
		mustClose(t, l)
	}
}

// Close does not wait for space that does not come.
func TestCloseWithoutSpace(t *testing.T) {
	faulty := vfs.NewFaulty(newDisk())
	o := testOptions(faulty, "/wal")
	l, _, _, _ := mustOpen(t, o)
	mustAppend(t, l, "1")
	faulty.Inject(vfs.Fault{Ops: vfs.OpWrite | vfs.OpCreate, Nth: 1, Sticky: true, Err: syscall.ENOSPC})
	tk := submit(l, "2")
	waitFor(t, func() bool { return len(faulty.Fired()) > 3 })
	if err := l.Close(ctx); err == nil {
		t.Error("nothing could be written, and Close says nothing of it")
	}
	if err := tk.Wait(ctx); !errors.Is(err, ErrUnknown) {
		t.Errorf("a write that nobody could undo: %v", err)
	}
	faulty.Clear()
	l, _, _, rec := mustOpen(t, o)
	if rec.Last < 1 {
		t.Error("what was acknowledged is gone")
	}
	mustClose(t, l)
}

// The last bytes of the manifest's copies are for edits that have to be made.
func TestManifestReserve(t *testing.T) {
	disk := simdisk.New(simdisk.Options{CapacityBytes: 1 << 30})
	o := testOptions(disk, "/wal")
	o.BallastBytes = -1
	l, _, _, _ := mustOpen(t, o)
	mustAppend(t, l, "1")
	waitFor(t, func() bool { l.mu.Lock(); defer l.mu.Unlock(); return l.ready != nil })
	disk.Fill()
	var err error
	for i := 0; err == nil && i < 10_000; i++ {
		err = l.man.commit(raiseHigh{LSN: 1})
	}
	if !isNoSpace(err) {
		t.Fatalf("edits on a full disk: %v", err)
	}
	if err := l.man.insist(raiseHigh{LSN: 1}); err != nil {
		t.Fatalf("an edit that has to be made: %v", err)
	}
	if err := l.Healthy(); err != nil {
		t.Fatal(err)
	}
	mustClose(t, l)
}

// The ballast is not counted as a part of the log, and a half-made one is made
// again.
func TestBallastOfLog(t *testing.T) {
	disk := simdisk.New(simdisk.Options{})
	o := testOptions(disk, "/wal")
	o.BallastBytes = 64 << 10
	l, _, _, _ := mustOpen(t, o)
	waitFor(t, func() bool { return l.Stats().Ballast })
	mustClose(t, l)
	name := filepath.Join("/wal", ballast.Name)
	f, err := disk.OpenWrite(name)
	if err != nil {
		t.Fatal(err)
	}
	if err := f.Truncate(100); err != nil {
		t.Fatal(err)
	}
	f.Close()
	l, _, _, _ = mustOpen(t, o)
	waitFor(t, func() bool { info, err := disk.Stat(name); return err == nil && info.Size == o.BallastBytes })
	mustClose(t, l)
	names, err := disk.ReadDir("/wal")
	if err != nil || !slices.Contains(names, ballast.Name) {
		t.Errorf("after Close: %v, %v", names, err)
	}
}
