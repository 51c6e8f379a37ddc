package wal

import (
	"errors"
	"fmt"
	"runtime"
	"sync"
	"syscall"
	"testing"
	"time"

	"durafs/internal/vfs"
)

// Do and Submit side by side, from many goroutines: every answer is that of a
// published batch, whoever committed it, and the end is clean.
func TestDoBesideSubmit(t *testing.T) {
	l, _, err := Open(ctx, Options{FS: vfs.OS, Dir: t.TempDir()}, func(Frame) error { return nil })
	if err != nil {
		t.Fatal(err)
	}
	l.Start(nothing{})
	var wg sync.WaitGroup
	for i := range 16 {
		wg.Go(func() {
			for j := range 50 {
				body := fmt.Appendf(nil, "%d-%d", i, j)
				decide := func(uint64) Decision {
					return Decision{Batches: []*Batch{{Count: 1, Body: body, BodyCRC: Checksum(body)}}}
				}
				var lsn uint64
				var err error
				if (i+j)%3 == 0 {
					tk := l.Submit(Ordinary, decide)
					lsn, err = tk.LSN(), tk.Wait(ctx)
				} else {
					lsn, err = l.Do(ctx, Ordinary, decide)
				}
				if err != nil || l.Durable() < lsn {
					t.Errorf("LSN %d: durable is %d, err %v", lsn, l.Durable(), err)
				}
			}
		})
	}
	wg.Wait()
	if got := l.Durable(); got != 16*50 {
		t.Errorf("durable is %d", got)
	}
	mustClose(t, l)
}

// A leader whose barrier fails poisons the log like the writer does.
func TestDoWithFailedBarrier(t *testing.T) {
	faulty := vfs.NewFaulty(vfs.OS)
	l, _, err := Open(ctx, Options{FS: faulty, Dir: t.TempDir()}, func(Frame) error { return nil })
	if err != nil {
		t.Fatal(err)
	}
	l.Start(nothing{})
	decide := func(uint64) Decision { return Decision{Batches: []*Batch{{Count: 1}}} }
	if _, err := l.Do(ctx, Ordinary, decide); err != nil {
		t.Fatal(err)
	}
	faulty.Inject(vfs.Fault{Ops: vfs.OpDatasync, Nth: 1, Sticky: true, Err: syscall.EIO})
	if _, err := l.Do(ctx, Ordinary, decide); !errors.Is(err, ErrUnknown) {
		t.Errorf("the barrier failed: %v", err)
	}
	if _, err := l.Do(ctx, Ordinary, decide); !errors.Is(err, ErrPoisoned) {
		t.Errorf("after it: %v", err)
	}
	if err := l.Close(ctx); !errors.Is(err, ErrPoisoned) {
		t.Errorf("close: %v", err)
	}
}

// A leader that panics in Publish ends the log, and nobody waits for ever.
func TestDoWithPanic(t *testing.T) {
	l, _, err := Open(ctx, Options{FS: vfs.OS, Dir: t.TempDir()}, func(Frame) error { return nil })
	if err != nil {
		t.Fatal(err)
	}
	l.Start(panicking{})
	decide := func(uint64) Decision { return Decision{Batches: []*Batch{{Count: 1}}} }
	func() {
		defer func() {
			if recover() == nil {
				t.Error("Publish panicked, and nobody was told")
			}
		}()
		waitIdle(t, l) // so that Do leads, and not the writer
		l.Do(ctx, Ordinary, decide)
	}()
	if _, err := l.Do(ctx, Ordinary, decide); !errors.Is(err, ErrPoisoned) {
		t.Errorf("after it: %v", err)
	}
	l.Close(ctx)
}

// waitIdle waits until the writer waits for a group.
func waitIdle(t *testing.T, l *Log) {
	for begin := time.Now(); time.Since(begin) < 10*time.Second; runtime.Gosched() {
		l.mu.Lock()
		idle := l.idle
		l.mu.Unlock()
		if idle {
			return
		}
	}
	t.Fatal("the writer is never idle")
}

type panicking struct{ nothing }

func (panicking) Publish([]*Batch) { panic("planted") }
