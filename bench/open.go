package bench

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"sort"
	"sync"
	"time"

	"durafs/internal/vfs"
	"durafs/store"
)

// measureOpen opens large stores that were closed, with nothing in the page
// cache. The floor reads the same bytes that opening reads, in the same
// pieces, and does nothing with them.
func measureOpen(ctx context.Context, b *bench) ([]Row, error) {
	few, many := filepath.Join(b.dir, "few"), filepath.Join(b.dir, "many")
	for dir, rows := range map[string]int{few: b.rowsPerRun * b.runs, many: 10 * b.rowsPerRun * b.runs} {
		_, err := Generate(ctx, dir, GenerateOptions{Runs: b.runs, Rows: rows, Progress: func(done int) {
			b.progress(fmt.Sprintf("make a store with %d rows: %d of %d runs", rows, done, b.runs))
		}})
		if err != nil {
			return nil, err
		}
	}
	var cold, grown, heap []pair
	for range rounds {
		var took [2]float64
		for i, dir := range []string{few, many} {
			b.progress("open " + filepath.Base(dir))
			o, err := openCold(ctx, dir)
			if err != nil {
				return nil, err
			}
			took[i] = o.took.Seconds()
			if dir == many {
				cold = append(cold, pair{o.took.Seconds(), o.read.Seconds()})
				heap = append(heap, pair{float64(o.heap), float64(b.runs)})
			}
		}
		grown = append(grown, pair{took[1], took[0]})
	}
	memory := row(fmt.Sprintf("memory, %d idle runs without labels: heap / runs", b.runs), "B", 200, true, heap)
	memory.FloorUnit = "runs"
	return []Row{
		row(fmt.Sprintf("open, cold, %d runs with %d rows / read the bytes that it reads", b.runs, 10*b.rowsPerRun*b.runs), "s", 3.0, true, cold),
		row(fmt.Sprintf("open, cold, %d runs, with ten times the rows / without", b.runs), "s", 1.2, true, grown),
		memory,
	}, nil
}

// opening is one opening of a store.
type opening struct {
	took time.Duration
	read time.Duration // of the same bytes
	heap int64         // that it takes when nothing is under way
}

func openCold(ctx context.Context, dir string) (o opening, err error) {
	names, err := storeFiles(dir)
	if err != nil {
		return o, err
	}
	if err := dropFiles(names); err != nil {
		return o, err
	}
	before := heapBytes()
	reads := newReads()
	begin := time.Now()
	s, err := store.Open(ctx, dir, store.Options{FS: reads.FS})
	if err != nil {
		return o, err
	}
	o.took = time.Since(begin)
	again := reads.taken()
	o.heap = heapBytes() - before
	if err := s.Close(ctx); err != nil {
		return o, err
	}
	if err := dropFiles(names); err != nil {
		return o, err
	}
	o.read, err = readAgain(again)
	return o, err
}

func storeFiles(dir string) (names []string, err error) {
	err = filepath.WalkDir(dir, func(path string, e os.DirEntry, err error) error {
		if err == nil && e.Type().IsRegular() {
			names = append(names, path)
		}
		return err
	})
	return names, err
}

// heapBytes is what lives on the heap.
func heapBytes() int64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.GC() // what finalizers of the first let go
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// reads is a file system that keeps what was read of which file.
type reads struct {
	vfs.FS
	mu  sync.Mutex
	all []span
}

type span struct {
	name     string
	off, end int64
}

func newReads() *reads {
	r := new(reads)
	r.FS = vfs.Hooked(vfs.OS, func(c vfs.Call, do func(int64) error) error {
		if c.Op&(vfs.OpRead|vfs.OpReadUncached) != 0 {
			r.mu.Lock()
			r.all = append(r.all, span{c.Name, c.Off, c.Off + c.Len})
			r.mu.Unlock()
		}
		return do(vfs.Whole)
	})
	return r
}

// taken is what was read so far, each byte once.
func (r *reads) taken() []span {
	r.mu.Lock()
	defer r.mu.Unlock()
	all := append([]span(nil), r.all...)
	sort.Slice(all, func(i, j int) bool {
		return all[i].name < all[j].name || all[i].name == all[j].name && all[i].off < all[j].off
	})
	var merged []span
	for _, s := range all {
		if n := len(merged); n > 0 && merged[n-1].name == s.name && s.off <= merged[n-1].end {
			merged[n-1].end = max(merged[n-1].end, s.end)
			continue
		}
		merged = append(merged, s)
	}
	return merged
}

// readAgain reads spans of files, as far as they are still there.
func readAgain(spans []span) (time.Duration, error) {
	buf := make([]byte, 1<<20)
	begin := time.Now()
	for _, s := range spans {
		f, err := os.Open(s.name)
		if os.IsNotExist(err) {
			continue // its segment was empty, and is gone
		}
		if err != nil {
			return 0, err
		}
		for off := s.off; off < s.end; off += int64(len(buf)) {
			if n, _ := f.ReadAt(buf[:min(int64(len(buf)), s.end-off)], off); n == 0 {
				break
			}
		}
		f.Close()
	}
	return time.Since(begin), nil
}
