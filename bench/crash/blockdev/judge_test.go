package blockdev_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"durafs/bench/crash/blockdev"
	"durafs/runs"
	"durafs/store"
)

// judges mount images and open what is on them.
type judges struct {
	t      *testing.T
	states chan state
	all    sync.WaitGroup
	judged atomic.Int64
	failed atomic.Bool
	// found is told of the first failure.
	found func(s state, err error)
}

// state is a disk as a power cut left it.
type state struct {
	m      *machine
	image  blockdev.Image
	events int
	story  string
}

// judgesAtOnce is how many there are; more do not help on two cores.
const judgesAtOnce = 2

func newJudges(t *testing.T) *judges {
	t.Helper()
	j := &judges{t: t, states: make(chan state), found: func(s state, err error) { keep(t, s, err) }}
	t.TempDir() // it is to be removed when the judges have ended
	t.Cleanup(j.end)
	for i := range judgesAtOnce {
		stage, err := blockdev.NewStage(fmt.Sprintf("durafs-judge-%d-%d", os.Getpid(), i), diskBytes)
		if err != nil {
			t.Fatal(err)
		}
		mnt := t.TempDir()
		j.all.Go(func() {
			for s := range j.states {
				if j.failed.Load() {
					continue
				}
				j.judged.Add(1)
				if err := judge(stage, mnt, s); err != nil {
					j.fails(s, err)
				}
			}
			if err := stage.Close(); err != nil {
				t.Error(err)
			}
		})
	}
	return j
}

// end waits until all is judged. It may be called again.
func (j *judges) end() {
	if j.states != nil {
		close(j.states)
		j.all.Wait()
		j.states = nil
	}
}

// report waits, and says how much was judged.
func (j *judges) report(began time.Time) {
	j.end()
	took := time.Since(began)
	j.t.Logf("%d states judged in %v, %.0f a second", j.judged.Load(), took.Round(time.Millisecond), float64(j.judged.Load())/took.Seconds())
}

// cut gives the judges what the power may leave at a cut: nothing of what was
// not flushed, everything, and random mixes.
func (j *judges) cut(m *machine, c *blockdev.Cut, mixes int, rng *rand.Rand, story string) {
	give := func(image blockdev.Image, how string) {
		j.states <- state{m, image, c.Events, fmt.Sprintf("%s; the power goes after %d events, %d blocks not flushed: %s", story, c.Events, c.Pending(), how)}
	}
	give(c.None(), "none of them is there")
	if c.Pending() == 0 {
		return
	}
	give(c.All(), "all are there")
	for i := range mixes {
		give(c.Mix(rng), fmt.Sprintf("mix %d", i))
	}
}

func (j *judges) fails(s state, err error) {
	if !j.failed.Swap(true) {
		j.found(s, err)
	}
}

// keep keeps the disk that was judged to be wrong.
func keep(t *testing.T, s state, err error) {
	file := filepath.Join(os.TempDir(), fmt.Sprintf("durafs-blockdev-%d.img", os.Getpid()))
	err = errors.Join(err, s.image.WriteFile(file))
	t.Errorf("%v\n%s\nseed %d; the disk is kept: mount -o loop %s /mnt\n%s", err, s.story, *seed, file, s.last())
}

// last are the last notes before the cut.
func (s state) last() string {
	var lines []string
	for i, e := range s.m.dev.Record().Events[:s.events] {
		switch {
		case e.Kind == blockdev.Note:
			lines = append(lines, fmt.Sprintf("%6d %.120s", i, e.Text))
		case e.Err != nil:
			lines = append(lines, fmt.Sprintf("%6d %v, done %v, %d bytes at %d", i, e.Err, e.Done, len(e.Data), e.Off))
		}
	}
	return strings.Join(lines[max(0, len(lines)-20):], "\n")
}

// judge mounts a state, opens the store on it, holds it against what was
// promised until then, and works on.
func judge(stage *blockdev.Stage, mnt string, s state) (err error) {
	if err := stage.Show(s.image); err != nil {
		return err
	}
	if err := stage.Mount(mnt, "ext4"); err != nil {
		return fmt.Errorf("%w (%s)", err, s.story)
	}
	defer func() { err = errors.Join(err, blockdev.Unmount(mnt)) }()
	ctx := context.Background()
	st, err := store.Open(ctx, filepath.Join(mnt, "store"), storeOptions())
	if err != nil {
		return fmt.Errorf("open: %w", err)
	}
	defer func() { err = errors.Join(err, st.Close(ctx)) }()
	if err := st.Healthy(); err != nil {
		return fmt.Errorf("it takes no writes: %w", err)
	}
	if rec := st.Recovery(); rec.LostCount > 0 {
		return fmt.Errorf("a crash is taken for damage: %+v", rec.Lost)
	}
	there, err := look(st, s.m.tried)
	if err != nil {
		return err
	}
	if p, is := s.m.missing(s.events, there); is {
		return fmt.Errorf("%s was %s after %d events, and is gone", p.key, p.how, p.at)
	}
	_, err = st.Runs().Start(ctx, runs.Caller{Owner: true}, runs.StartRequest{Task: "goes on"})
	return err
}
