package bench

import (
	"context"
	"math"
	"path/filepath"
	"sync"
	"sync/atomic"

	"durafs/internal/vfs"
	"durafs/runs"
	"durafs/store"
	"durafs/wal"
)

// written is a file system that counts the bytes given to write calls.
type written struct {
	vfs.FS
	bytes atomic.Int64
}

func newWritten() *written {
	w := new(written)
	w.FS = vfs.Hooked(vfs.OS, func(c vfs.Call, do func(int64) error) error {
		if c.Op == vfs.OpWrite {
			w.bytes.Add(c.Len)
		}
		return do(vfs.Whole)
	})
	return w
}

// amplificationWriters append side by side.
const amplificationWriters = 16

// measureAmplification tells how many bytes are given to write calls for each
// that was accepted: of a log whose segments are new files, which are written
// before they are used; of one whose segments are dropped and used again, as
// they are when compaction keeps up; and of a large payload.
func measureAmplification(ctx context.Context, b *bench) ([]Row, error) {
	first, steady, err := b.logAmplification(ctx)
	if err != nil {
		return nil, err
	}
	large, err := b.payloadAmplification(ctx)
	if err != nil {
		return nil, err
	}
	return []Row{
		row("log of 1 KiB entries, segments recycled: bytes written / accepted", "B", 1.6, true, steady),
		row("log of 1 KiB entries, first fill: bytes written / accepted", "B", 0, true, first),
		row("payloads of "+bytesText(b.written)+", incompressible: bytes written / accepted", "B", 1.05, true, large),
	}, nil
}

func (b *bench) logAmplification(ctx context.Context) (first, steady []pair, err error) {
	fs := newWritten()
	log, _, err := wal.Open(ctx, wal.Options{FS: fs, Dir: filepath.Join(b.dir, "log")}, func(wal.Frame) error { return nil })
	if err != nil {
		return nil, nil, err
	}
	log.Start(nothing{})
	defer log.Close(context.WithoutCancel(ctx))
	// What is written ahead belongs to what comes later: only long stretches
	// tell the truth.
	for range rounds {
		p, err := fs.appendBytes(ctx, log, b.written/rounds, false)
		if err != nil {
			return nil, nil, err
		}
		first = append(first, p)
	}
	if _, err := fs.appendBytes(ctx, log, b.written/rounds, true); err != nil { // until there is something to use again
		return nil, nil, err
	}
	for range rounds {
		p, err := fs.appendBytes(ctx, log, b.written/rounds, true)
		if err != nil {
			return nil, nil, err
		}
		steady = append(steady, p)
	}
	return first, steady, nil
}

// appendBytes appends n bytes of entries, dropping what is sealed if drop says
// so, and tells what was written for it.
func (w *written) appendBytes(ctx context.Context, log *wal.Log, n int64, drop bool) (pair, error) {
	before := w.bytes.Load()
	var (
		left   atomic.Int64
		wg     sync.WaitGroup
		mu     sync.Mutex
		failed error
	)
	left.Store(n)
	const dropEvery = 8 << 20
	for range amplificationWriters {
		wg.Go(func() {
			a := newAppender(log)
			for {
				rest := left.Add(-entryBytes)
				if rest < 0 {
					return
				}
				err := a.append(ctx)
				if err == nil && drop && rest%dropEvery < entryBytes {
					_, err = log.Drop(math.MaxUint32) // all that are sealed
				}
				if err != nil {
					mu.Lock()
					defer mu.Unlock()
					failed = err
					return
				}
			}
		})
	}
	wg.Wait()
	return pair{float64(w.bytes.Load() - before), float64(n)}, failed
}

func (b *bench) payloadAmplification(ctx context.Context) ([]pair, error) {
	fs := newWritten()
	s, err := store.Open(ctx, filepath.Join(b.dir, "store"), store.Options{FS: fs})
	if err != nil {
		return nil, err
	}
	defer s.Close(context.WithoutCancel(ctx))
	started, err := s.Runs().Start(ctx, runs.Caller{}, runs.StartRequest{Task: "bench"})
	if err != nil {
		return nil, err
	}
	c := runs.Caller{Writer: started.Writer}
	var pairs []pair
	for round := range uint64(rounds) {
		before := fs.bytes.Load()
		name := "p" + string('0'+rune(round))
		body := repeated(noise(round), b.written)
		if _, _, err := s.Runs().Put(ctx, c, started.Record.ID, name, runs.SourceNamed, "", body); err != nil {
			return nil, err
		}
		pairs = append(pairs, pair{float64(fs.bytes.Load() - before), float64(b.written)})
	}
	return pairs, nil
}
