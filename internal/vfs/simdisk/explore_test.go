package simdisk_test

import (
	"fmt"
	"testing"

	"durafs/internal/vfs/simdisk"
)

// work is a small log: files that are filled, synced, renamed and removed.
func work(tb testing.TB, d *simdisk.Disk, files int) {
	dir, err := d.OpenDir("/")
	if err != nil {
		tb.Fatal(err)
	}
	for i := range files {
		name := fmt.Sprintf("/%d", i)
		f, err := d.Create(name + ".tmp")
		if err != nil {
			tb.Fatal(err)
		}
		f.WriteAt(make([]byte, 64<<10), 0)
		f.Datasync()
		for k := range 12 {
			b := make([]byte, 700)
			for j := range b {
				b[j] = byte(i + j*k)
			}
			f.WriteAt(b, int64(k*700))
			if k%2 == 0 {
				f.Datasync()
			}
		}
		d.Rename(name+".tmp", name)
		if i%2 == 0 {
			dir.Sync()
		}
		f.Close()
		if i > 2 {
			d.Remove(fmt.Sprintf("/%d", i-3))
		}
	}
}

func BenchmarkStates(b *testing.B) {
	d := simdisk.New(simdisk.Options{})
	j := d.Record()
	work(b, d, 40)
	b.ResetTimer()
	n, visited := 0, 0
	for n < b.N {
		e := j.Explore(simdisk.Explore{Mixes: 40, Seed: uint64(n)})
		for s := range e.States() {
			if s.Disk() == nil {
				b.Fatal()
			}
			if n++; n >= b.N {
				break
			}
		}
		visited += e.Visited
	}
	b.ReportMetric(float64(n)/b.Elapsed().Seconds(), "disks/s")
	b.ReportMetric(float64(visited)/b.Elapsed().Seconds(), "visited/s")
}
