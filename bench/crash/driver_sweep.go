package crash

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"sync"
	"time"

	"durafs/cas"
	"durafs/internal/ballast"
	"durafs/internal/vfs/simdisk"
)

// Sweep puts payloads, lets the log forget some, and sweeps, while others put the
// same bytes again at the worst moments: before the sweep has frozen what it
// removes, and when it has read what is referred to.
func Sweep() *Driver {
	return &Driver{
		Name: "sweep", Doc: "payloads that are unreferred, cut and put again while their packs are swept",
		Live: (&sweepWork{}).live, Judge: (&sweepWork{}).judge,
		Ballasts: map[string]int64{"/" + ballast.Name: chunkBallast},
		Explore:  simdisk.Explore{HeadBytes: []int64{63, 64, 65}},
	}
}

// unreferred: nothing refers any more to what was put before with seed N.
const unreferred = "unreferred"

// sweepWork is a life of a chunk store that is swept.
type sweepWork struct {
	chunkWork

	// counted and read are closed when a sweep has read the references for the
	// first time, and when it begins to for the second; again is called then.
	counted, read chan struct{}
	passes        int
	again         func()
}

// refs are what is referred to: what was put and not unreferred since.
func (w *sweepWork) refs() []keptRef {
	w.mu.Lock()
	defer w.mu.Unlock()
	all := map[string]keptRef{}
	for _, p := range w.l.Promises() {
		switch p.What {
		case stored:
			var k keptRef
			if json.Unmarshal([]byte(p.Text), &k) == nil {
				all[p.Text] = k
			}
		case unreferred:
			maps.DeleteFunc(all, func(_ string, k keptRef) bool { return k.Seed == p.N })
		}
	}
	kept := make([]keptRef, 0, len(all))
	for _, text := range slices.Sorted(maps.Keys(all)) {
		kept = append(kept, all[text])
	}
	return kept
}

func (w *sweepWork) judge(l *Life) error {
	w = &sweepWork{chunkWork: chunkWork{l: l}}
	s, err := w.openSwept()
	l.Kill()
	if s != nil {
		_ = s.Close()
	}
	return allowed(l, err)
}

func (w *sweepWork) live(l *Life) error {
	w = &sweepWork{chunkWork: chunkWork{l: l}}
	lives := 1
	if l.Depth == 0 {
		lives = 2
	}
	for i := range lives {
		if err := w.process(uint64(l.Depth*8+i*4), i == 0); err != nil {
			return allowed(l, err)
		}
	}
	return nil
}

func (w *sweepWork) process(seed uint64, closes bool) error {
	s, err := w.openSwept()
	if err == nil {
		err = w.work(s, seed)
		w.l.resumes(func() error { return w.put(s, againSeed) })
	}
	if closes && s != nil && (err == nil || w.l.full != nil) {
		err = errors.Join(err, w.l.refused(s.Close()))
	} else {
		w.l.Kill()
		if s != nil {
			_ = s.Close()
		}
		if w.l.Depth == 0 && closes {
			w.l.Restart()
		}
	}
	if w.l.Faulty {
		return nil
	}
	return err
}

// openSwept opens the chunk store and reads all that is referred to.
func (w *sweepWork) openSwept() (*cas.Store, error) {
	s, rec, _, err := w.begin()
	if err != nil {
		return nil, &openError{err}
	}
	if len(rec.Damage)+len(rec.Missing)+len(rec.Orphans) > 0 && !w.l.Faulty {
		return s, fmt.Errorf("recovery: %+v", rec)
	}
	return s, w.holdAll(s)
}

func (w *sweepWork) holdAll(s *cas.Store) error {
	for i, k := range w.refs() {
		if err := holds(s, k, i%3 > 0); err != nil && !w.l.Faulty {
			return err
		}
	}
	return nil
}

// work puts, forgets and sweeps.
func (w *sweepWork) work(s *cas.Store, seed uint64) error {
	err := errors.Join(w.put(s, seed+1), w.put(s, seed+2), w.cut(s), w.put(s, seed+3))
	if err != nil {
		return err
	}
	w.forget(seed + 1)
	w.forget(seed + 2)
	if err := w.sweepBeside(s, seed); err != nil {
		return err
	}
	if err := w.holdAll(s); err != nil {
		return err
	}
	w.forget(seed + 3)
	if err := w.sweep(s); err != nil {
		return err
	}
	if err := w.holdAll(s); err != nil || w.l.Faulty {
		return err
	}
	return w.nothingLeft()
}

func (w *sweepWork) forget(seed uint64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.l.Promise(Promise{What: unreferred, N: seed})
}

// cut is a put that ends in the middle.
func (w *sweepWork) cut(s *cas.Store) error {
	whole := chunkPayload(99)
	_, err := s.Put(context.Background(), io.MultiReader(bytes.NewReader(whole[:len(whole)-1]), cutReader{}))
	if errors.Is(err, errCutPut) {
		return nil
	}
	return w.l.refused(err)
}

var errCutPut = errors.New("the payload's connection was cut")

type cutReader struct{}

func (cutReader) Read([]byte) (int, error) { return 0, errCutPut }

// sweepBeside sweeps while two others put what was unreferred: one has found it
// before the sweep froze it, and tells the log only when the sweep has counted;
// the other comes when the sweep has read for good what is referred to.
func (w *sweepWork) sweepBeside(s *cas.Store, seed uint64) error {
	release := s.Hold()
	early, err := s.Put(context.Background(), bytes.NewReader(chunkPayload(seed+1)))
	if err != nil {
		release()
		return w.l.refused(err)
	}
	w.counted, w.read, w.passes = make(chan struct{}), make(chan struct{}), 0
	var late error
	w.again = func() { late = w.put(s, seed+2) }
	defer func() { w.again = nil }()
	done := make(chan error, 1)
	go func() { done <- w.sweep(s) }()
	var swept error
	over := false
	wait := func(begun chan struct{}, most time.Duration) {
		timer := time.NewTimer(most)
		defer timer.Stop()
		select {
		case <-begun:
		case <-timer.C:
		case swept = <-done:
			over = true
		}
	}
	wait(w.counted, 20*joinMax)
	if !over {
		wait(w.read, joinMax) // it comes only to one that does not wait for us
	}
	err = w.promise(Promise{What: stored, N: seed + 1}, keptRef{seed + 1, early})
	release()
	if !over {
		swept = <-done
	}
	return errors.Join(err, swept, late)
}

// sweep sweeps all that nothing refers to.
func (w *sweepWork) sweep(s *cas.Store) error {
	_, err := s.Sweep(context.Background(), cas.SweepOptions{All: true, References: w.references})
	return w.l.refused(err)
}

// references are those of now; what again puts comes too late to be among them.
func (w *sweepWork) references(_ context.Context, visit func(cas.Ref) error) error {
	w.passes++
	refs := w.refs()
	if w.again != nil {
		switch w.passes {
		case 1:
			defer close(w.counted)
		case 2:
			close(w.read)
			var put sync.WaitGroup
			put.Go(w.again)
			put.Wait()
		}
	}
	for _, k := range refs {
		if err := visit(k.Ref); err != nil {
			return err
		}
	}
	return nil
}

// nothingLeft holds the packs against what is referred to.
func (w *sweepWork) nothingLeft() error {
	var census cas.Census
	var found []error
	packs := w.Packs()
	ctx := context.Background()
	_, err := cas.Verify(ctx, w.l.Disk, "/", packs, true, &census, func(f cas.Finding) { found = append(found, errors.New(f.String())) })
	if err != nil || found != nil {
		return errors.Join(append(found, err)...)
	}
	refs := func(yield func(cas.Ref) bool) {
		for _, k := range w.refs() {
			if !yield(k.Ref) {
				return
			}
		}
	}
	err = census.Reach(ctx, w.l.Disk, "/", packs, refs, func(r cas.Ref, m *cas.MissingError) {
		found = append(found, fmt.Errorf("payload %v: %w", r.ID, m))
	})
	if n, bytes := census.Unreferenced(); n > 0 {
		found = append(found, fmt.Errorf("after a sweep %d records of %d bytes are left that nothing refers to", n, bytes))
	}
	return errors.Join(append(found, err)...)
}
