package bench

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"durafs/runs"
	"durafs/store"
)

const (
	// latencyWriters append rows of 1 KiB, each to a run of its own, with a
	// pause between: agents do not write as fast as they can. The pause is half as
	// long to one and a half times as long, at random: writers whose pauses are all
	// the same go on in step for ever once something has held them up together,
	// and then commit sixteen rows at a time, which takes longer, whatever else
	// happens. One half of what was compared was in step, and the other was not.
	latencyWriters = 16
	latencyPause   = 2 * time.Millisecond
	// latencyRowsMin is how many commits a 99th percentile is of at least.
	latencyRowsMin = 2000
)

// measureLatency compares the 99th percentile of commits while a large payload
// comes in with that without one; and, of writers that do not pause, whose
// segments are used up and written ahead all the time, with that of the disk's
// own barriers.
func measureLatency(ctx context.Context, b *bench) ([]Row, error) {
	s, err := store.Open(ctx, filepath.Join(b.dir, "store"), store.Options{})
	if err != nil {
		return nil, err
	}
	defer s.Close(context.WithoutCancel(ctx))
	agents, err := startAgents(ctx, s.Runs(), latencyWriters)
	if err != nil {
		return nil, err
	}
	floor, err := newFloorFile(b.dir)
	if err != nil {
		return nil, err
	}
	defer floor.Close()
	if _, err := agents.commit(ctx, 0, ended(b.roundTime)); err != nil { // warm
		return nil, err
	}
	var busy, ahead []pair
	for round := range uint64(rounds) {
		alone, err := agents.commit(ctx, latencyPause, ended(4*b.roundTime))
		if err != nil {
			return nil, err
		}
		beside, err := agents.besidePayload(ctx, s, round, b.latencyBytes)
		if err != nil {
			return nil, err
		}
		busy = append(busy, pair{p99(beside), p99(alone)})

		bare, err := floor.barriers(latencyWriters*writtenBytes, 2*b.roundTime)
		if err != nil {
			return nil, err
		}
		hurried, err := agents.commit(ctx, 0, ended(2*b.roundTime))
		if err != nil {
			return nil, err
		}
		ahead = append(ahead, pair{p99(hurried), p99(bare)})
	}
	return []Row{
		row(fmt.Sprintf("p99 of commits, %d writers with pauses: while a payload of %s comes in / without", latencyWriters, bytesText(b.latencyBytes)), "µs", 2, true, busy),
		row(fmt.Sprintf("p99 of commits, %d writers without pauses, segments written ahead / p99 of one barrier of as many", latencyWriters), "µs", 0, true, ahead),
	}, nil
}

// ended tells, from when it is first asked, whether a time is over.
func ended(after time.Duration) func() bool {
	begin := time.Now()
	return func() bool { return time.Since(begin) >= after }
}

// agents are runs, each with its writer.
type agents []agent

type agent struct {
	store  *runs.Store
	id     string
	caller runs.Caller
}

func startAgents(ctx context.Context, s *runs.Store, n int) (agents, error) {
	var all agents
	for range n {
		st, err := s.Start(ctx, runs.Caller{}, runs.StartRequest{Task: "bench"})
		if err != nil {
			return nil, err
		}
		all = append(all, agent{s, st.Record.ID, runs.Caller{Writer: st.Writer}})
	}
	return all, nil
}

// commit lets every agent append rows until over says that it is enough, and
// tells every commit's latency.
func (as agents) commit(ctx context.Context, pause time.Duration, over func() bool) ([]time.Duration, error) {
	var (
		mu     sync.Mutex
		all    []time.Duration
		failed error
		wg     sync.WaitGroup
	)
	line := []runs.Row{{JSON: oneRow}}
	for i, a := range as {
		wg.Go(func() {
			var took []time.Duration
			var err error
			time.Sleep(pause * time.Duration(i) / time.Duration(len(as)))
			for err == nil {
				t := time.Now()
				_, err = a.store.Append(ctx, a.caller, a.id, line, "")
				took = append(took, time.Since(t))
				if over() {
					break
				}
				if pause > 0 {
					time.Sleep(pause/2 + rand.N(pause))
				}
			}
			mu.Lock()
			defer mu.Unlock()
			all = append(all, took...)
			failed = errors.Join(failed, err)
		})
	}
	wg.Wait()
	return all, failed
}

// besidePayload is commit while payloads of n bytes come in, as many as it
// takes for a percentile.
func (as agents) besidePayload(ctx context.Context, s *store.Store, seed uint64, n int64) ([]time.Duration, error) {
	var all []time.Duration
	for part := uint64(0); len(all) < latencyRowsMin; part++ {
		var in atomic.Bool
		put := make(chan error, 1)
		block := noise(seed*1000 + part)
		go func() {
			_, err := s.Chunks().Put(ctx, repeated(block, n))
			in.Store(true)
			put <- err
		}()
		took, err := as.commit(ctx, latencyPause, in.Load)
		if err = errors.Join(err, <-put); err != nil {
			return nil, err
		}
		all = append(all, took...)
		if n < 64<<20 {
			break // a toy
		}
	}
	return all, nil
}
