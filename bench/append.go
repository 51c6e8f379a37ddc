package bench

import (
	"context"
	"fmt"
	"math"
	"path/filepath"
	"sync"
	"time"

	"durafs/internal/vfs"
	"durafs/segment"
	"durafs/wal"
)

const (
	entryBytes = 1024
	// writtenBytes is what the log gives to the disk for an entry, and so what
	// the floor writes for one: the same bytes.
	writtenBytes = entryBytes + segment.FrameHeaderBytes
)

// measureAppend compares appending entries of 1 KiB to the log, from several
// writers, with one barrier of the hardware that carries as many.
func measureAppend(ctx context.Context, b *bench) ([]Row, error) {
	log, err := openLog(ctx, filepath.Join(b.dir, "log"))
	if err != nil {
		return nil, err
	}
	defer log.Close(context.WithoutCancel(ctx))
	floor, err := newFloorFile(b.dir)
	if err != nil {
		return nil, err
	}
	defer floor.Close()

	var all []Row
	for _, c := range []struct {
		writers int
		rate    float64 // goal of entries/s over the floor's
		p50     float64 // goal of the median latency over that of one barrier; 0: none
	}{
		{1, 0, 1.10}, {16, 0.85, 0}, {64, 0.55, 1.6}, {256, 0.45, 0},
	} {
		rates, latencies, err := comparePairs(ctx, log, floor, c.writers, b.roundTime)
		if err != nil {
			return nil, err
		}
		if c.rate > 0 {
			all = append(all, row(fmt.Sprintf("durable append 1 KiB, %d writers, segments recycled: entries/s", c.writers), "/s", c.rate, false, rates))
		}
		if c.p50 > 0 {
			all = append(all, row(fmt.Sprintf("durable append 1 KiB, %d writers, segments recycled: p50 / one barrier of as many", c.writers), "µs", c.p50, true, latencies))
		}
	}
	return all, nil
}

// comparePairs measures rounds of both sides in turn. The log runs a while
// before the first, so that its segments have grown. Between rounds it drops
// what it has sealed: what is measured is the steady state, in which dropped
// segments are used again and few new files are written ahead.
func comparePairs(ctx context.Context, log *wal.Log, floor *floorFile, writers int, roundTime time.Duration) (rates, latencies []pair, err error) {
	if _, err := appendFor(ctx, log, writers, roundTime); err != nil {
		return nil, nil, err
	}
	for range rounds {
		if _, err := log.Drop(math.MaxUint32); err != nil {
			return nil, nil, err
		}
		// One barrier that carries the entries of all writers.
		group, err := floor.barriers(writers*writtenBytes, roundTime)
		if err != nil {
			return nil, nil, err
		}
		took, err := appendFor(ctx, log, writers, roundTime)
		if err != nil {
			return nil, nil, err
		}
		rates = append(rates, pair{
			value: float64(len(took)) / roundTime.Seconds(),
			floor: float64(len(group)*writers) / roundTime.Seconds(),
		})
		latencies = append(latencies, pair{p50(took), p50(group)})
	}
	return rates, latencies, nil
}

// appendFor lets writers append for a while, each waiting for its own entry,
// and tells every latency.
func appendFor(ctx context.Context, log *wal.Log, writers int, during time.Duration) ([]time.Duration, error) {
	var (
		mu    sync.Mutex
		all   []time.Duration
		first error
		wg    sync.WaitGroup
	)
	ctx = context.WithoutCancel(ctx) // an append takes less than anyone's patience
	begin := time.Now()
	for range writers {
		wg.Go(func() {
			w := newAppender(log)
			took := make([]time.Duration, 0, 4096)
			var err error
			for err == nil {
				t := time.Now()
				err = w.append(ctx)
				took = append(took, time.Since(t))
				if time.Since(begin) >= during {
					break
				}
			}
			mu.Lock()
			defer mu.Unlock()
			all = append(all, took...)
			if first == nil {
				first = err
			}
		})
	}
	wg.Wait()
	return all, first
}

// appender appends the same entry again and again: making entries is not what
// is measured.
type appender struct {
	log    *wal.Log
	entry  wal.Batch
	decide func(uint64) wal.Decision
}

func newAppender(log *wal.Log) *appender {
	body := make([]byte, entryBytes)
	batch := new(wal.Batch)
	w := &appender{log: log, entry: wal.Batch{Run: 1, Count: 1, Body: body, BodyCRC: wal.Checksum(body)}}
	unit := []*wal.Batch{batch}
	w.decide = func(uint64) wal.Decision {
		*batch = w.entry
		return wal.Decision{Batches: unit}
	}
	return w
}

func (w *appender) append(ctx context.Context) error {
	_, err := w.log.Do(ctx, wal.Ordinary, w.decide)
	return err
}

// nothing is the domain of a log that only measures.
type nothing struct{}

func (nothing) Publish([]*wal.Batch) {}
func (nothing) Reset()               {}

// openLog opens a log of its own, without a domain.
func openLog(ctx context.Context, dir string) (*wal.Log, error) {
	log, _, err := wal.Open(ctx, wal.Options{FS: vfs.OS, Dir: dir}, func(wal.Frame) error { return nil })
	if err != nil {
		return nil, err
	}
	log.Start(nothing{})
	return log, nil
}
