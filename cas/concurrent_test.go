package cas

import (
	"bytes"
	"context"
	"errors"
	"io"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"durafs/internal/vfs"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// Many put the same and different payloads at once, while packs roll.
func TestConcurrentPuts(t *testing.T) {
	l := &fakeLedger{}
	o := options(t, l, memDir(t))
	o.PackBytesMax = 1 << 20
	s := open(t, o)
	var wait sync.WaitGroup
	for w := range 8 {
		wait.Go(func() {
			for i := range 12 {
				data := noise(uint64(i%6), 150_000+i%6*50_000) // shared by all
				if i >= 6 {
					data = text(uint64(w*100+i), 90_000) // its own
				}
				ref, err := s.Put(ctx0, bytes.NewReader(data))
				if err != nil {
					t.Errorf("put: %v", err)
					return
				}
				if got, err := readAll(s, ref); err != nil || !bytes.Equal(got, data) {
					t.Errorf("read: %v", err)
				}
			}
		})
	}
	wait.Wait()
	st := s.Stats()
	shared := int64(6*150_000 + 15*50_000)
	if st.RecordBytes > shared+8*6*90_000+int64(st.Records)*600 {
		t.Errorf("equal chunks were stored twice: %+v", st)
	}
	if st.Packs < 2 {
		t.Errorf("no pack rolled: %+v", st)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if found := verify(t, o.Dir, l.packs, true); len(found) != 0 {
		t.Errorf("verify: %v", found)
	}
}

// While one sync runs, those who come wait for the next, together.
func TestPutsShareASync(t *testing.T) {
	const puts = 10
	var (
		held   = make(chan struct{})
		begun  = make(chan struct{}, 100)
		active atomic.Bool
	)
	fsys := vfs.Hooked(vfs.OS, func(c vfs.Call, do func(int64) error) error {
		if c.Op == vfs.OpDatasync && active.Load() {
			begun <- struct{}{}
			<-held
		}
		return do(vfs.Whole)
	})
	l := &fakeLedger{}
	o := options(t, l, memDir(t))
	o.FS = fsys
	s := open(t, o)
	mustPut(t, s, noise(1, 20_000))
	before := s.Stats()
	active.Store(true)
	var wait sync.WaitGroup
	put := func(i int) {
		wait.Go(func() {
			if _, err := s.Put(ctx0, bytes.NewReader(noise(uint64(10+i), 20_000))); err != nil {
				t.Errorf("put: %v", err)
			}
		})
	}
	put(0)
	receive(t, begun)
	for i := 1; i < puts; i++ {
		put(i)
	}
	waitFor(t, "all records to be written", func() bool { return s.Stats().Records == before.Records+puts })
	if st := s.Stats(); st.Puts != before.Puts {
		t.Errorf("%d puts were acknowledged while the sync had not returned", st.Puts-before.Puts)
	}
	active.Store(false)
	close(held)
	wait.Wait()
	if n := s.Stats().Syncs - before.Syncs; n != 2 {
		t.Errorf("%d puts took %d syncs, not 2", puts, n)
	}
}

// A put that finds its chunk already written, but not durable, waits for the
// sync that makes it so; and if that fails, it fails.
func TestDuplicateWaitsForTheFirstOnesSync(t *testing.T) {
	var (
		held   = make(chan struct{})
		begun  = make(chan struct{}, 100)
		active atomic.Bool
	)
	fsys := vfs.Hooked(vfs.OS, func(c vfs.Call, do func(int64) error) error {
		if c.Op == vfs.OpDatasync && active.Load() {
			begun <- struct{}{}
			<-held
			return io.ErrClosedPipe
		}
		return do(vfs.Whole)
	})
	l := &fakeLedger{}
	o := options(t, l, memDir(t))
	o.FS = fsys
	s := open(t, o)
	mustPut(t, s, noise(1, 20_000))
	active.Store(true)
	errs := make(chan error, 2)
	put := func() {
		_, err := s.Put(ctx0, bytes.NewReader(noise(2, 20_000)))
		errs <- err
	}
	hits := s.Stats().ChunkHits
	go put()
	receive(t, begun)
	go put()
	waitFor(t, "a hit", func() bool { return s.Stats().ChunkHits > hits })
	select {
	case err := <-errs:
		t.Fatalf("answered before the sync returned: %v", err)
	default:
	}
	close(held)
	for range 2 {
		if err := receive(t, errs); !errors.Is(err, ErrPoisoned) {
			t.Errorf("put: %v", err)
		}
	}
	active.Store(false)
}

func TestCancelledPut(t *testing.T) {
	l := &fakeLedger{}
	s := open(t, options(t, l, memDir(t)))
	ctx, cancel := context.WithCancel(ctx0)
	_, err := s.Put(ctx, io.MultiReader(bytes.NewReader(noise(1, 3<<20)), cancelling{cancel}, bytes.NewReader(noise(2, 3<<20))))
	if !errors.Is(err, context.Canceled) {
		t.Errorf("put: %v", err)
	}
	if len(s.spare) != 0 {
		t.Errorf("%d tokens are lost", len(s.spare))
	}
}

type cancelling struct{ cancel func() }

func (c cancelling) Read([]byte) (int, error) { c.cancel(); return 0, io.EOF }

func TestClosedStore(t *testing.T) {
	l := &fakeLedger{}
	s := open(t, options(t, l, memDir(t)))
	ref := mustPut(t, s, noise(1, 200_000))
	r, err := s.Open(ref)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := r.ReadAt(make([]byte, 10), 0); !errors.Is(err, ErrClosed) {
		t.Errorf("read: %v", err)
	}
	if _, err := s.Open(ref); !errors.Is(err, ErrClosed) {
		t.Errorf("open: %v", err)
	}
	if _, err := s.Put(ctx0, bytes.NewReader(nil)); !errors.Is(err, ErrClosed) {
		t.Errorf("put: %v", err)
	}
	if err := s.Close(); !errors.Is(err, ErrClosed) {
		t.Errorf("close: %v", err)
	}
}

// Few files may be open: none is closed under a reader, and none more is open
// than may be when all is quiet.
func TestFewOpenFiles(t *testing.T) {
	l := &fakeLedger{}
	o := options(t, l, memDir(t))
	o.PackBytesMax = 64 << 10
	s := open(t, o)
	s.files.max = 2
	s.cache.max = 1
	var refs []Ref
	for i := range 12 {
		refs = append(refs, mustPut(t, s, noise(uint64(i), 60_000)))
	}
	var wait sync.WaitGroup
	for w := range 6 {
		wait.Go(func() {
			for i := range 60 {
				n := (i*7 + w) % len(refs)
				if got, err := readAll(s, refs[n]); err != nil || !bytes.Equal(got, noise(uint64(n), 60_000)) {
					t.Errorf("payload %d: %v", n, err)
				}
			}
		})
	}
	wait.Wait()
	s.files.mu.Lock()
	defer s.files.mu.Unlock()
	if len(s.files.open) > 2+sealQueueMax+unhashedMax+2 { // the active pack and those that are not sealed are in use
		t.Errorf("%d files are open", len(s.files.open))
	}
}

// Every way of reading a range gives what the bytes are.
func TestReadRanges(t *testing.T) {
	l := &fakeLedger{}
	s := open(t, options(t, l, memDir(t)))
	data := append(noise(1, 200_000), text(2, 200_000)...)
	r, err := s.Open(mustPut(t, s, data))
	if err != nil {
		t.Fatal(err)
	}
	for _, off := range []int{0, 1, 65535, 65536, 65537, 131000, 399_999, 400_000, 400_001} {
		for _, n := range []int{0, 1, 100, 65536, 65537, 131072, 200_000, 500_000} {
			p := make([]byte, n)
			got, err := r.ReadAt(p, int64(off))
			want := 0
			if off < len(data) {
				want = copy(make([]byte, n), data[off:])
			}
			if got != want || (err == io.EOF) != (want < n || off >= len(data)) || err != nil && err != io.EOF {
				t.Errorf("%d at %d: %d, %v", n, off, got, err)
			}
			if got > 0 && !bytes.Equal(p[:got], data[off:off+got]) {
				t.Errorf("%d at %d: wrong bytes", n, off)
			}
		}
	}
	if _, err := r.ReadAt(make([]byte, 1), -1); err == nil || err == io.EOF {
		t.Errorf("at -1: %v", err)
	}
}

func waitFor(t *testing.T, what string, cond func() bool) {
	t.Helper()
	for deadline := time.Now().Add(30 * time.Second); !cond(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("waited in vain for %s", what)
		}
	}
}

func receive[T any](t *testing.T, ch <-chan T) (v T) {
	t.Helper()
	select {
	case v = <-ch:
	case <-time.After(30 * time.Second):
		t.Fatal("waited in vain")
	}
	return v
}
