package cas

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
)

// kept is a log that refers to payloads: those that were put and not forgotten.
type kept struct {
	mu   sync.Mutex
	refs map[int]Ref
	fail error
	// passed, if not nil, is called when all were visited.
	passed func()
}

func (k *kept) set(i int, r Ref) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.refs[i] = r
}

func (k *kept) forget(i int) {
	k.mu.Lock()
	defer k.mu.Unlock()
	delete(k.refs, i)
}

func (k *kept) all() []Ref {
	k.mu.Lock()
	defer k.mu.Unlock()
	var all []Ref
	for _, r := range k.refs {
		all = append(all, r)
	}
	return all
}

func (k *kept) references(_ context.Context, visit func(Ref) error) error {
	if k.fail != nil {
		return k.fail
	}
	for _, r := range k.all() {
		if err := visit(r); err != nil {
			return err
		}
	}
	if k.passed != nil {
		k.passed()
	}
	return nil
}

// unused is what a census says that nothing refers to; damage of any kind fails.
func unused(t *testing.T, o Options, refs []Ref) int64 {
	t.Helper()
	var c Census
	packs := o.Ledger.Packs()
	sum, err := Verify(t.Context(), o.FS, o.Dir, packs, true, &c, func(f Finding) { t.Error(f) })
	if err != nil || sum.Findings > 0 {
		t.Fatalf("%+v, %v", sum, err)
	}
	if err := c.Reach(t.Context(), o.FS, o.Dir, packs, slices.Values(refs), func(r Ref, e *MissingError) { t.Errorf("%v: %v", r, e) }); err != nil {
		t.Fatal(err)
	}
	_, n := c.Unreferenced()
	return n
}

func smallPacks(t testing.TB, l *fakeLedger, dir string) Options {
	o := options(t, l, dir)
	o.PackBytesMax, o.chunkBytes, o.nodeChildren = 64<<10, 1<<10, 4
	return o
}

// TestSweep: what nothing refers to goes, what is referred to reads as before, by
// its old reference, also after an open; a second sweep finds nothing to do.
func TestSweep(t *testing.T) {
	l := &fakeLedger{}
	o := smallPacks(t, l, t.TempDir())
	s := open(t, o)
	k := &kept{refs: map[int]Ref{}}
	data := func(i int) []byte { return noise(uint64(i/3), 700+i*531) } // some share chunks
	for i := range 60 {
		k.set(i, mustPut(t, s, data(i)))
	}
	for i := range 60 {
		if i%4 != 0 {
			k.forget(i)
		}
	}
	readers := map[int]*Reader{}
	for i, r := range k.refs {
		var err error
		if readers[i], err = s.Open(r); err != nil {
			t.Fatal(err)
		}
	}
	done, err := s.Sweep(t.Context(), SweepOptions{All: true, References: k.references})
	if err != nil || done.PacksFreed == 0 || done.RecordsMoved == 0 || done.BytesFreed <= 0 || done.PacksPinned != 0 {
		t.Fatalf("%+v, %v", done, err)
	}
	if n := unused(t, o, k.all()); n != 0 {
		t.Errorf("%d bytes are left that nothing refers to", n)
	}
	for i, r := range readers { // opened before
		if got, err := io.ReadAll(io.NewSectionReader(r, 0, r.Size())); err != nil || !bytes.Equal(got, data(i)) {
			t.Errorf("payload %d: %d bytes, %v", i, len(got), err)
		}
	}
	check := func(s *Store) {
		t.Helper()
		for i, r := range k.refs {
			wantBytes(t, s, r, data(i))
		}
	}
	check(s)
	again, err := s.Sweep(t.Context(), SweepOptions{All: true, References: k.references})
	if err != nil || again.PacksFreed != 0 || again.RecordsMoved != 0 {
		t.Errorf("once more: %+v, %v", again, err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	o.Used, o.SeqAfter = used(k.all()...), l.high
	s, rec, err := Open(t.Context(), o)
	if err != nil || len(rec.Damage)+len(rec.Missing)+len(rec.Orphans) > 0 {
		t.Fatalf("%+v, %v", rec, err)
	}
	defer s.Close()
	check(s)
	if ref := mustPut(t, s, data(0)); ref.ID != k.refs[0].ID {
		t.Error("another id")
	}
}

// TestSweepHalf: without All a pack stays while half of it is referred to.
func TestSweepHalf(t *testing.T) {
	l := &fakeLedger{}
	o := smallPacks(t, l, t.TempDir())
	s := open(t, o)
	k := &kept{refs: map[int]Ref{}}
	for i := range 100 {
		k.set(i, mustPut(t, s, noise(uint64(i), 5000)))
	}
	sweep := func() Swept {
		t.Helper()
		if err := s.sealActive(t.Context()); err != nil {
			t.Fatal(err)
		}
		done, err := s.Sweep(t.Context(), SweepOptions{References: k.references})
		if err != nil {
			t.Fatal(err)
		}
		return done
	}
	for i := 0; i < 100; i += 3 {
		k.forget(i)
	}
	if done := sweep(); done.PacksFreed != 0 || done.Packs < 7 {
		t.Errorf("two thirds are referred to: %+v", done)
	}
	for i := 1; i < 100; i += 3 {
		k.forget(i)
	}
	if done := sweep(); done.PacksFreed < 7 {
		t.Errorf("one third is referred to: %+v", done)
	}
	for i, r := range k.refs {
		wantBytes(t, s, r, noise(uint64(i), 5000))
	}
}

// TestSweepThatFails: an error of any kind leaves all that was there.
func TestSweepThatFails(t *testing.T) {
	for _, c := range []struct {
		name string
		do   func(t *testing.T, s *Store, k *kept) context.Context
		is   func(err error, done Swept) bool
	}{
		{"references", func(t *testing.T, s *Store, k *kept) context.Context {
			k.fail = io.ErrUnexpectedEOF
			return t.Context()
		}, func(err error, _ Swept) bool { return errors.Is(err, io.ErrUnexpectedEOF) }},
		{"cancelled", func(t *testing.T, s *Store, k *kept) context.Context {
			ctx, cancel := context.WithCancel(t.Context())
			cancel()
			return ctx
		}, func(err error, _ Swept) bool { return errors.Is(err, context.Canceled) }},
		{"held", func(t *testing.T, s *Store, k *kept) context.Context {
			release := s.Hold()
			t.Cleanup(release)
			ctx, cancel := context.WithCancel(t.Context())
			passes := 0
			k.passed = func() {
				if passes++; passes == 1 { // the next thing is to wait for us
					cancel()
				}
			}
			return ctx
		}, func(err error, _ Swept) bool { return errors.Is(err, context.Canceled) }},
		{"a manifest", func(t *testing.T, s *Store, k *kept) context.Context {
			damageRecord(t, s, k.refs[0])
			return t.Context()
		}, func(err error, _ Swept) bool { _, ok := errors.AsType[*DamageError](err); return ok }},
		{"a chunk", func(t *testing.T, s *Store, k *kept) context.Context {
			damageRecord(t, s, k.refs[7])
			return t.Context()
		}, func(err error, done Swept) bool { return err == nil && done.PacksPinned == 1 }},
	} {
		t.Run(c.name, func(t *testing.T) {
			l := &fakeLedger{}
			s := open(t, smallPacks(t, l, t.TempDir()))
			k := &kept{refs: map[int]Ref{}}
			for i := range 12 {
				n := 6000
				if i == 7 {
					n = 1 << 10 // one chunk
				}
				k.set(i, mustPut(t, s, noise(uint64(i), n)))
			}
			k.forget(3)
			if err := s.sealActive(t.Context()); err != nil {
				t.Fatal(err)
			}
			before := files(t, s.dir)
			done, err := s.Sweep(c.do(t, s, k), SweepOptions{All: true, References: k.references})
			if !c.is(err, done) || done.PacksFreed != 0 {
				t.Fatalf("%+v, %v", done, err)
			}
			if after := files(t, s.dir); !slices.Equal(before, after) {
				t.Errorf("files were %v and are %v", before, after)
			}
			for i, r := range k.refs {
				if c.name[0] == 'a' && (i == 0 || i == 7) {
					continue
				}
				wantBytes(t, s, r, noise(uint64(i), int(r.Bytes)))
			}
			hits := s.stats.hits.Load()
			if mustPut(t, s, noise(1, 6000)); s.stats.hits.Load() == hits {
				t.Error("what has stayed is not found by puts any more")
			}
		})
	}
}

func files(t *testing.T, dir string) []string {
	t.Helper()
	all, err := filepath.Glob(filepath.Join(dir, "*.pack"))
	if err != nil {
		t.Fatal(err)
	}
	return slices.DeleteFunc(all, func(n string) bool { // an empty one may be made ahead
		i, err := os.Stat(n)
		return err != nil || i.Size() <= packHeaderBytes
	})
}

// damageRecord flips a bit of the record that a reference names.
func damageRecord(t *testing.T, s *Store, r Ref) {
	t.Helper()
	f, err := os.OpenFile(s.pack(r.Hint.Pack).path(), os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var b [1]byte
	at := int64(r.Hint.Offset) + recordHeaderBytes + 11
	if _, err := f.ReadAt(b[:], at); err != nil {
		t.Fatal(err)
	}
	b[0] ^= 4
	if _, err := f.WriteAt(b[:], at); err != nil {
		t.Fatal(err)
	}
}

// TestSweepTwoRoots: a payload that was stored twice has two roots, each with
// nodes of its own. Those of one must not be left behind without it.
func TestSweepTwoRoots(t *testing.T) {
	for name, victims := range map[string][2]bool{"both move": {true, true}, "the first moves": {true, false}, "the second moves": {false, true}} {
		t.Run(name, func(t *testing.T) {
			l := &fakeLedger{}
			o := smallPacks(t, l, t.TempDir())
			s := open(t, o)
			data := noise(7, 20<<10)
			k := &kept{refs: map[int]Ref{}}
			for i, victim := range victims {
				if victim {
					mustPut(t, s, noise(uint64(100+i), 5000)) // which nothing refers to
				}
				k.set(i, mustPut(t, s, data))
				if err := s.sealActive(t.Context()); err != nil {
					t.Fatal(err)
				}
				s.pack(k.refs[i].Hint.Pack).frozen.Store(true) // nothing is found in it by the next put
			}
			if k.refs[0].Hint == k.refs[1].Hint {
				t.Fatal("the payload was stored once")
			}
			for _, r := range k.refs {
				s.pack(r.Hint.Pack).frozen.Store(false)
			}
			if _, err := s.Sweep(t.Context(), SweepOptions{All: true, References: k.references}); err != nil {
				t.Fatal(err)
			}
			if n := unused(t, o, k.all()); n != 0 {
				t.Errorf("%d bytes are left that nothing refers to", n)
			}
			for range 2 {
				for _, r := range k.refs {
					wantBytes(t, s, r, data)
				}
				if err := s.Close(); err != nil {
					t.Fatal(err)
				}
				s = open(t, o)
			}
		})
	}
}

// TestSweepBesidePuts: puts of the same bytes, forgetting, reading and sweeping
// at the same time; nothing that is referred to is ever missing.
func TestSweepBesidePuts(t *testing.T) {
	l := &fakeLedger{}
	o := smallPacks(t, l, t.TempDir())
	s := open(t, o)
	k := &kept{refs: map[int]Ref{}}
	const writers = 4
	each := 150
	if testing.Short() {
		each = 50
	}
	var wg sync.WaitGroup
	var ended atomic.Int32
	for w := range writers {
		wg.Go(func() {
			defer ended.Add(1)
			for i := range each {
				seed := i % 25 // again and again the same
				data := noise(uint64(seed), 900+seed*400)
				release := s.Hold()
				ref, err := s.Put(t.Context(), bytes.NewReader(data))
				if err != nil {
					t.Error(err)
					release()
					return
				}
				k.set(w*1000+seed, ref)
				release()
				got, err := readAll(s, ref)
				if err != nil || !bytes.Equal(got, data) {
					t.Errorf("writer %d, %d: %d bytes, %v", w, i, len(got), err)
				}
				if i%2 == 0 {
					k.forget(w*1000 + (seed+7)%25)
				}
			}
		})
	}
	var swept Swept
	for ended.Load() < writers {
		done, err := s.Sweep(t.Context(), SweepOptions{All: true, References: k.references})
		if err != nil {
			t.Error(err)
			break
		}
		swept.PacksFreed += done.PacksFreed
	}
	wg.Wait()
	if swept.PacksFreed == 0 {
		t.Error("nothing was swept")
	}
	if _, err := s.Sweep(t.Context(), SweepOptions{All: true, References: k.references}); err != nil {
		t.Error(err)
	}
	for i, r := range k.refs {
		seed := i % 1000
		wantBytes(t, s, r, noise(uint64(seed), 900+seed*400))
	}
	if n := unused(t, o, k.all()); n != 0 {
		t.Errorf("%d bytes are left that nothing refers to", n)
	}
	if _, err := s.Sweep(t.Context(), SweepOptions{All: true, References: func(ctx context.Context, _ func(Ref) error) error {
		_, err := s.Sweep(ctx, SweepOptions{})
		return err
	}}); !errors.Is(err, ErrSweeping) {
		t.Errorf("two at a time: %v", err)
	}
}

// TestDrain: a drain waits for who had begun before it, and for nobody else.
func TestDrain(t *testing.T) {
	var s Store
	early := s.Hold()
	done := make(chan error)
	go func() { done <- s.holds.drain(t.Context()) }()
	for { // until it has begun a new epoch
		s.holds.mu.Lock()
		flipped := s.holds.epoch == 1
		s.holds.mu.Unlock()
		if flipped {
			break
		}
	}
	late := s.Hold()
	select {
	case err := <-done:
		t.Fatalf("it did not wait: %v", err)
	default:
	}
	early()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	given, cancel := context.WithCancel(t.Context())
	cancel()
	if err := s.holds.drain(given); !errors.Is(err, context.Canceled) {
		t.Errorf("given up: %v", err)
	}
	late()
	if err := s.holds.drain(t.Context()); err != nil {
		t.Error(err)
	}
	if s.holds.count != [2]int{} {
		t.Error(fmt.Sprint(s.holds.count))
	}
}
