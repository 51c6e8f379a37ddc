package bench

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"durafs/internal/vfs"
	"durafs/runs"
	"durafs/store"
)

// measureReplay compares opening a store that a crash has left, with a long
// tail, with reading the same bytes and their checksum: both with nothing in
// the page cache, as after a power cut, and with all of it there, as after a
// kill.
func measureReplay(ctx context.Context, b *bench) ([]Row, error) {
	var all []Row
	for _, c := range []struct {
		rows string
		n    int
	}{{"ten rows of 1 KiB a batch", 10}, {"one row of 1 KiB a batch", 1}} {
		b.progress("make a tail with " + c.rows)
		crashed := filepath.Join(b.dir, "crashed")
		last, err := makeTail(ctx, crashed, b.tailBytes, c.n)
		if err != nil {
			return all, err
		}
		for _, cached := range []bool{false, true} {
			name := fmt.Sprintf("replay of a tail of %s, %s, %s", bytesText(b.tailBytes), c.rows, cacheText(cached))
			b.progress(name)
			var pairs []pair
			for range rounds {
				p, err := b.reopen(ctx, crashed, last, cached)
				if err != nil {
					return all, err
				}
				if p.bytes < b.tailBytes {
					return all, fmt.Errorf("the tail has %d bytes, not %d", p.bytes, b.tailBytes)
				}
				pairs = append(pairs, pair{mbPerSecond(p.bytes, p.open), mbPerSecond(p.bytes, p.scan)})
			}
			all = append(all, row(name, "MB/s", 0.70, false, pairs))
		}
		if err := os.RemoveAll(crashed); err != nil {
			return all, err
		}
	}
	return all, nil
}

func cacheText(cached bool) string {
	if cached {
		return "cached"
	}
	return "cold"
}

// measureRecovery tells how long it takes from opening a store to its first
// answer: by the size of its tail, in times of what reading and checking that
// takes, and by the number of its runs.
func measureRecovery(ctx context.Context, b *bench) ([]Row, error) {
	all, err := b.recoveryByTail(ctx)
	if err != nil {
		return all, err
	}
	byRuns, err := b.recoveryByRuns(ctx)
	return append(all, byRuns...), err
}

func (b *bench) recoveryByTail(ctx context.Context) ([]Row, error) {
	var all []Row
	for n := b.crashBytes / 16; n <= b.crashBytes; n *= 4 {
		b.progress("a tail of " + bytesText(n))
		crashed := filepath.Join(b.dir, "crashed")
		last, err := makeTail(ctx, crashed, n, 10)
		if err != nil {
			return all, err
		}
		var pairs []pair
		for range rounds {
			p, err := b.reopen(ctx, crashed, last, false)
			if err != nil {
				return all, err
			}
			pairs = append(pairs, pair{milliseconds(p.answered), milliseconds(p.scan)})
		}
		all = append(all, row("first answer after a crash / read and check the tail of "+bytesText(n), "ms", 0, true, pairs))
		if err := os.RemoveAll(crashed); err != nil {
			return all, err
		}
	}
	return all, nil
}

// recoveryRunsSteps is how often the number of runs grows by a factor of ten,
// up to that of the large store.
const recoveryRunsSteps = 3

// recoveryByRuns compares the first answer of a store of many runs with a short
// tail to reading the bytes that opening it reads.
func (b *bench) recoveryByRuns(ctx context.Context) ([]Row, error) {
	var all []Row
	n := b.runs
	for range recoveryRunsSteps - 1 {
		n = max(1, n/10)
	}
	for range recoveryRunsSteps {
		b.progress(fmt.Sprintf("%d runs", n))
		crashed := filepath.Join(b.dir, "crashed")
		if _, err := Generate(ctx, crashed, GenerateOptions{Runs: n, Rows: n}); err != nil {
			return all, err
		}
		last, err := makeTail(ctx, crashed, b.crashBytes/256, 10)
		if err != nil {
			return all, err
		}
		var pairs []pair
		for range rounds {
			p, err := b.reopenAll(ctx, crashed, last)
			if err != nil {
				return all, err
			}
			pairs = append(pairs, p)
		}
		all = append(all, row(fmt.Sprintf("first answer after a crash, %d runs, a tail of %s / read the bytes that it reads", n, bytesText(b.crashBytes/256)), "ms", 0, true, pairs))
		if err := os.RemoveAll(crashed); err != nil {
			return all, err
		}
		n *= 10
	}
	return all, nil
}

// reopenAll opens a copy of a store that a crash has left, with nothing in the
// page cache, and asks for one run; then it reads again what was read.
func (b *bench) reopenAll(ctx context.Context, crashed, id string) (p pair, err error) {
	dir := filepath.Join(b.dir, "again")
	defer os.RemoveAll(dir)
	if err := cloneStore(crashed, dir); err != nil {
		return p, err
	}
	names, err := storeFiles(dir)
	if err == nil {
		err = dropFiles(names)
	}
	if err != nil {
		return p, err
	}
	reads := newReads()
	fs := newUnsealed(reads.FS)
	begin := time.Now()
	s, err := store.Open(ctx, dir, store.Options{FS: fs})
	if err != nil {
		return p, err
	}
	_, _, err = s.Runs().Get(runs.Caller{Owner: true}, id)
	answered := time.Since(begin)
	again := reads.taken()
	fs.off.Store(true)
	s.Close(ctx)
	if err != nil {
		return p, err
	}
	if names, err = storeFiles(dir); err == nil { // opening takes what is empty away
		err = dropFiles(names)
	}
	if err != nil {
		return p, err
	}
	read, err := readAgain(again)
	return pair{milliseconds(answered), milliseconds(read)}, err
}

// reopening is one opening of a store that a crash has left.
type reopening struct {
	bytes    int64 // of its tail
	open     time.Duration
	answered time.Duration // from the beginning to the answer about one run
	scan     time.Duration // reading and checking as many bytes
}

// reopen opens a copy of a store that a crash has left, asks for one run, and
// lets the copy crash too; then it reads the same bytes.
func (b *bench) reopen(ctx context.Context, crashed, id string, cached bool) (p reopening, err error) {
	dir := filepath.Join(b.dir, "again")
	defer os.RemoveAll(dir)
	if err := cloneStore(crashed, dir); err != nil {
		return p, err
	}
	names, err := segmentsOf(crashed) // opening takes what is empty away, in the copy
	if err != nil {
		return p, err
	}
	if err := prepareCache(names, cached); err != nil {
		return p, err
	}
	fs := newUnsealed(vfs.OS)
	begin := time.Now()
	s, err := store.Open(ctx, dir, store.Options{FS: fs})
	if err != nil {
		return p, err
	}
	p.open = time.Since(begin)
	_, _, err = s.Runs().Get(runs.Caller{Owner: true}, id)
	p.answered = time.Since(begin)
	p.bytes = s.Recovery().Bytes
	fs.off.Store(true)
	s.Close(ctx)
	if err == nil {
		err = prepareCache(names, cached)
	}
	if err == nil {
		p.scan, err = scanFloor(names, p.bytes)
	}
	return p, err
}

func milliseconds(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }
