package wal

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

// lazily submits one lazy batch.
func lazily(l *Log, body string) Ticket {
	return l.Submit(Lazy, func(uint64) Decision { return Decision{Batches: []*Batch{batch(body)}} })
}

// inBubble runs a test of an open log with a clock that does not run by itself.
func inBubble(t *testing.T, change func(*Options), test func(*testing.T, *Log, *recorder)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		o := testOptions(newDisk(), "/wal")
		if change != nil {
			change(&o)
		}
		l, state, _, _ := mustOpen(t, o)
		test(t, l, state)
		if err := l.Close(ctx); err != nil && !errors.Is(err, ErrClosed) {
			t.Error(err)
		}
	})
}

// A lazy batch waits for a second, and is durable when it is answered.
func TestLazyAlone(t *testing.T) {
	inBubble(t, nil, func(t *testing.T, l *Log, _ *recorder) {
		begin := time.Now()
		first := lazily(l, "beat 1")
		time.Sleep(lazyMax / 2)
		second := lazily(l, "beat 2")
		time.Sleep(lazyMax/2 - 1)
		pending(t, first)
		for _, tk := range []Ticket{first, second} {
			if err := tk.Wait(ctx); err != nil {
				t.Fatal(err)
			}
		}
		if took := time.Since(begin); took != lazyMax {
			t.Errorf("answered after %v", took)
		}
		if l.Durable() != 2 || l.Stats().Barriers != 1 {
			t.Errorf("durable %d after %d barriers", l.Durable(), l.Stats().Barriers)
		}
	})
}

// Whoever is in a hurry takes the lazy ones before it along, at once and in one
// barrier.
func TestLazyFindsCompany(t *testing.T) {
	for name, submit := range map[string]func(l *Log) error{
		"submit": func(l *Log) error { return submit(l, "row").Wait(ctx) },
		"do": func(l *Log) error {
			_, err := l.Do(ctx, Ordinary, func(uint64) Decision { return Decision{Batches: []*Batch{batch("row")}} })
			return err
		},
		// Nothing is written, but the answer was decided on a lazy batch.
		"answer": func(l *Log) error {
			_, err := l.Do(ctx, Ordinary, func(lsn uint64) Decision { return Decision{After: lsn - 1} })
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, nil, func(t *testing.T, l *Log, state *recorder) {
				begin := time.Now()
				beat := lazily(l, "beat")
				if err := submit(l); err != nil {
					t.Fatal(err)
				}
				if err := beat.Wait(ctx); err != nil {
					t.Fatal(err)
				}
				if time.Since(begin) != 0 || l.Stats().Barriers != 1 || state.published[0] != 1 {
					t.Errorf("%d barriers after %v", l.Stats().Barriers, time.Since(begin))
				}
				// The timer of a group that is gone is no trouble.
				time.Sleep(2 * lazyMax)
				if l.Stats().Barriers != 1 {
					t.Error("a barrier for nothing")
				}
			})
		})
	}
}

// A lazy batch that waits for another lazy one still waits.
func TestLazyAfterLazy(t *testing.T) {
	inBubble(t, nil, func(t *testing.T, l *Log, _ *recorder) {
		begin := time.Now()
		lazily(l, "beat")
		again := l.Submit(Lazy, func(lsn uint64) Decision { return Decision{After: lsn - 1, Err: errRefusal} })
		if err := again.Wait(ctx); !errors.Is(err, errRefusal) || time.Since(begin) != lazyMax {
			t.Errorf("%v after %v", err, time.Since(begin))
		}
	})
}

// A lazy group that is full has nothing to wait for, and one is written at
// Close.
func TestLazyFullAndClosed(t *testing.T) {
	inBubble(t, nil, func(t *testing.T, l *Log, _ *recorder) {
		begin := time.Now()
		full := lazily(l, string(make([]byte, smallSegments/2)))
		last := lazily(l, string(make([]byte, smallSegments/2)))
		if err := full.Wait(ctx); err != nil || time.Since(begin) != 0 {
			t.Errorf("a full group: %v after %v", err, time.Since(begin))
		}
		pending(t, last)
		mustClose(t, l)
		if err := last.Wait(ctx); err != nil || time.Since(begin) != 0 {
			t.Errorf("at Close: %v after %v", err, time.Since(begin))
		}
	})
}

// Where the log is poisoned nobody waits.
func TestLazyPoisoned(t *testing.T) {
	inBubble(t, nil, func(t *testing.T, l *Log, _ *recorder) {
		beat := lazily(l, "beat")
		l.fail(errRefusal)
		if err := beat.Wait(ctx); !errors.Is(err, ErrUnknown) {
			t.Error(err)
		}
		<-l.writerDone
		if err := l.Close(ctx); !errors.Is(err, ErrPoisoned) {
			t.Error(err)
		}
	})
}
