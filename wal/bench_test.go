package wal

import (
	"flag"
	"fmt"
	"math"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"durafs/internal/vfs"

	"golang.org/x/sys/unix"
)

var slowSync = flag.Duration("slowsync", 0, "let each barrier of TestFloor last this much longer, to compare on a memory file system")

// floorFS is the operating system's, with slower barriers where asked for. The
// thread sleeps in the kernel, as it does in a real one.
func floorFS() vfs.FS {
	if *slowSync == 0 {
		return vfs.OS
	}
	return vfs.Hooked(vfs.OS, func(c vfs.Call, do func(int64) error) error {
		if c.Op == vfs.OpDatasync {
			ts := unix.NsecToTimespec(slowSync.Nanoseconds())
			unix.Nanosleep(&ts, nil)
		}
		return do(vfs.Whole)
	})
}

var floorKeep = flag.Bool("keep", false, "let TestFloor keep what it wrote: segments are new files, not recycled ones")

var floorDir = flag.String("floor", "", "compare appends with the barrier floor in this directory, on a real disk")

// nothing is a State without values.
type nothing struct{}

func (nothing) Publish([]*Batch) {}
func (nothing) Reset()           {}

// BenchmarkAppend is one durable append of 1 KiB for each writer.
func BenchmarkAppend(b *testing.B) {
	for _, writers := range []int{1, 16, 64, 256} {
		b.Run(fmt.Sprintf("writers=%d", writers), func(b *testing.B) {
			l, _, err := Open(ctx, Options{FS: vfs.OS, Dir: filepath.Join(b.TempDir(), "wal")}, func(Frame) error { return nil })
			if err != nil {
				b.Fatal(err)
			}
			l.Start(nothing{})
			b.SetBytes(1024)
			b.ReportAllocs()
			b.ResetTimer()
			appendMany(l, writers, func(i int) bool { return i < b.N/writers+1 })
			b.StopTimer()
			mustClose(b, l)
		})
	}
}

// appendMany runs writers that append until more says no, and returns how long
// each append took.
func appendMany(l *Log, writers int, more func(i int) bool) []time.Duration {
	var mu sync.Mutex
	var all []time.Duration
	var wg sync.WaitGroup
	body := make([]byte, 1024-48)
	crc := Checksum(body)
	for range writers {
		wg.Go(func() {
			var took []time.Duration
			bt := Batch{}
			batches := []*Batch{&bt}
			for i := 0; more(i); i++ {
				start := time.Now()
				_, err := l.Do(ctx, Ordinary, func(uint64) Decision {
					bt = Batch{Count: 1, Body: body, BodyCRC: crc}
					return Decision{Batches: batches}
				})
				if err != nil {
					panic(err)
				}
				took = append(took, time.Since(start))
			}
			mu.Lock()
			defer mu.Unlock()
			all = append(all, took...)
		})
	}
	wg.Wait()
	return all
}

// TestFloor compares, interleaved in one run, appends with what the disk
// allows: one pwrite of the same bytes and one fdatasync on blocks that were
// written before. It reports; what a number has to be is judged elsewhere.
func TestFloor(t *testing.T) {
	if *floorDir == "" {
		t.Skip("needs -floor DIR on a real disk")
	}
	dir := filepath.Join(*floorDir, fmt.Sprintf("wal-floor-%d", time.Now().UnixNano()))
	if err := vfs.OS.Mkdir(dir); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { removeAll(t, dir) })
	l, _, err := Open(ctx, Options{FS: floorFS(), Dir: filepath.Join(dir, "wal")}, func(Frame) error { return nil })
	if err != nil {
		t.Fatal(err)
	}
	l.Start(nothing{})
	defer mustClose(t, l)
	f := prewritten(t, filepath.Join(dir, "floor"), 64<<20)
	defer f.Close()
	drop := func() {
		if *floorKeep {
			return
		}
		if _, err := l.Drop(math.MaxUint32); err != nil {
			t.Fatal(err)
		}
	}
	for range 30 { // until segments have grown, and are recycled
		warm := time.Now()
		appendMany(l, 64, func(int) bool { return time.Since(warm) < 100*time.Millisecond })
		drop()
	}

	const rounds, slot = 15, 150 * time.Millisecond
	for _, writers := range []int{1, 16, 64, 256} {
		var p50, rate []float64
		s := l.Stats()
		for range rounds {
			a := floorFor(t, f, writers*1024, slot)
			drop()
			before := time.Now()
			took := appendMany(l, writers, func(int) bool { return time.Since(before) < slot })
			spent := time.Since(before)
			floor := append(a, floorFor(t, f, writers*1024, slot)...)
			p50 = append(p50, float64(median(took))/float64(median(floor)))
			rate = append(rate, float64(len(took))/spent.Seconds()/(float64(writers)/mean(floor).Seconds()))
		}
		slices.Sort(p50)
		slices.Sort(rate)
		after := l.Stats()
		t.Logf("%3d writers: p50/floor %.2f (%.2f to %.2f)   entries/floor %.2f (%.2f to %.2f)   %.1f batches a group, %d recycled", writers,
			p50[rounds/2], p50[2], p50[rounds-3], rate[rounds/2], rate[2], rate[rounds-3],
			float64(after.Batches-s.Batches)/float64(after.Barriers-s.Barriers), after.Recycled-s.Recycled)
	}
}

func prewritten(t *testing.T, name string, size int64) vfs.File {
	f, err := floorFS().Create(name)
	if err != nil {
		t.Fatal(err)
	}
	for off := int64(0); off < size; off += spareStepBytes {
		if _, err := f.WriteAt(zeros[:], off); err != nil {
			t.Fatal(err)
		}
	}
	if err := f.Datasync(); err != nil {
		t.Fatal(err)
	}
	return f
}

var floorAt int64

func floorFor(t *testing.T, f vfs.File, n int, d time.Duration) []time.Duration {
	p := make([]byte, n)
	var took []time.Duration
	for begin := time.Now(); time.Since(begin) < d; {
		if floorAt+int64(n) > 64<<20 {
			floorAt = 0
		}
		start := time.Now()
		if _, err := f.WriteAt(p, floorAt); err != nil {
			t.Fatal(err)
		}
		if err := f.Datasync(); err != nil {
			t.Fatal(err)
		}
		took = append(took, time.Since(start))
		floorAt += int64(n)
	}
	return took
}

func mean(d []time.Duration) time.Duration {
	var sum time.Duration
	for _, x := range d {
		sum += x
	}
	return sum / time.Duration(len(d))
}

func median(d []time.Duration) time.Duration {
	slices.Sort(d)
	return d[len(d)/2]
}

func removeAll(t *testing.T, dir string) {
	names, err := vfs.OS.ReadDir(dir)
	if err == nil {
		for _, n := range names {
			removeAll(t, filepath.Join(dir, n))
		}
	}
	if err := vfs.OS.Remove(dir); err != nil {
		t.Error(err)
	}
}
