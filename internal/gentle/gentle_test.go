package gentle

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

func TestRestsWhileOthersCommit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		commits := uint64(7)
		p := Beside(func() uint64 { return commits })
		took := func(n int) time.Duration {
			begin := time.Now()
			if err := p.Did(t.Context(), n); err != nil {
				t.Fatal(err)
			}
			return time.Since(begin)
		}
		ask := func(times int) {
			for range times {
				p.Others()
			}
		}
		for _, c := range []struct {
			what string
			do   func()
			n    int
			want time.Duration
		}{
			{"the first step", func() {}, stepBytes, 0},
			{"nobody commits", func() {}, stepBytes, 0},
			{"a commit, but no step", func() { commits++ }, stepBytes - 1, 0},
			{"the step after a commit", func() {}, 1, restTime},
			{"lately", func() { ask(lately - 2) }, stepBytes, restTime},
			{"long ago", func() {}, stepBytes, 0},
			{"a commit again", func() { commits++ }, 3 * stepBytes, restTime},
			{"a log that was begun anew", func() { ask(2 * lately); commits = 1 }, stepBytes, restTime},
		} {
			if c.do(); took(c.n) != c.want {
				t.Errorf("%s: it did not rest for %v", c.what, c.want)
			}
		}
	})
}

func TestNobodyElse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, begin := Beside(nil), time.Now()
		for range 100 {
			if err := p.Did(t.Context(), stepBytes); err != nil || p.Others() || !time.Now().Equal(begin) {
				t.Fatalf("work beside nobody rested for %v, or: %v", time.Since(begin), err)
			}
		}
	})
}

func TestRestEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		commits := uint64(0)
		p := Beside(func() uint64 { commits++; return commits })
		if err := p.Did(t.Context(), stepBytes); err != nil {
			t.Fatal(err)
		}
		begin := time.Now()
		ctx, cancel := context.WithTimeout(t.Context(), restTime/4)
		defer cancel()
		if err := p.Did(ctx, stepBytes); !errors.Is(err, context.DeadlineExceeded) || time.Since(begin) != restTime/4 {
			t.Fatalf("%v after %v", err, time.Since(begin))
		}
		if err := p.Did(ctx, 1); !errors.Is(err, context.DeadlineExceeded) {
			t.Fatalf("a step after the end: %v", err)
		}
	})
}
