package cas

import (
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// TestPutRests: while others commit, a put that takes long works in steps of a
// chunk with a rest after each, so that its processor is free again and again.
func TestPutRests(t *testing.T) {
	const chunks, rest = 64, 400 * time.Microsecond
	for _, c := range []struct {
		name     string
		others   func() func() uint64
		min, max time.Duration
	}{
		{"beside nobody", func() func() uint64 { return nil }, 0, 0},
		{"beside a log that is idle", func() func() uint64 { return func() uint64 { return 7 } }, 0, 0},
		{"beside commits", func() func() uint64 {
			n := new(atomic.Uint64)
			return func() uint64 { return n.Add(1) }
		}, (chunks - blockChunks) * rest, (chunks + 1) * rest},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				o := options(t, &fakeLedger{}, t.TempDir())
				o.Others = c.others()
				s := open(t, o)
				begin := time.Now()
				if _, err := s.Put(t.Context(), &stream{block: noise(1, 1<<20), n: chunks * ChunkBytes}); err != nil {
					t.Fatal(err)
				}
				if took := time.Since(begin); took < c.min || took > c.max {
					t.Errorf("%d chunks rested for %v, and should for %v to %v", chunks, took, c.min, c.max)
				}
				if err := s.Close(); err != nil {
					t.Fatal(err)
				}
			})
		})
	}
}
