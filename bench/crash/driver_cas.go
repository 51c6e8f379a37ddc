package crash

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"durafs/cas"
	"durafs/internal/ballast"
	"durafs/internal/vfs"
	"durafs/internal/vfs/simdisk"
)

// Chunks puts payloads into packs that roll and are made ahead: of one chunk and
// of several, some at the same time, some of bytes that this process, an earlier
// one, or a put that is not durable yet has stored.
func Chunks() *Driver {
	return &Driver{
		Name: "chunks", Doc: "payloads in packs that roll, with duplicates and shared flushes; a close and an open between",
		Live: (&chunkWork{}).live, Judge: (&chunkWork{}).judge, Rotten: (&chunkWork{}).rotten,
		Ballasts: map[string]int64{"/" + ballast.Name: chunkBallast},
		Explore:  simdisk.Explore{HeadBytes: []int64{63, 64, 65}},
	}
}

// The promises of the chunk store. Its ledger is promises too: what AddPack and
// SealPack were told is durable when they return.
const (
	listed = "pack" // Text is a cas.Pack
	stored = "ref"  // Text is a cas.Ref, of the payload with seed N
)

// chunkWork is a life of the chunk store.
type chunkWork struct {
	mu sync.Mutex // guards the Life's promises: packs are made and sealed in the background
	l  *Life

	joining atomic.Pointer[joining]
}

func (w *chunkWork) promise(p Promise, text any) error {
	b, err := json.Marshal(text)
	if err != nil {
		return err
	}
	p.Text = string(b)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.l.Promise(p)
	return nil
}

func promised[T any](w *chunkWork, what string) (all []T) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, p := range w.l.Promises() {
		var v T
		if p.What == what && json.Unmarshal([]byte(p.Text), &v) == nil {
			all = append(all, v)
		}
	}
	return all
}

func (w *chunkWork) AddPack(p cas.Pack) error  { return w.promise(Promise{What: listed}, p) }
func (w *chunkWork) SealPack(p cas.Pack) error { return w.promise(Promise{What: listed}, p) }

// Packs are the latest of each number.
func (w *chunkWork) Packs() []cas.Pack {
	var packs []cas.Pack
	for _, p := range promised[cas.Pack](w, listed) {
		if i := slices.IndexFunc(packs, func(q cas.Pack) bool { return q.Seq == p.Seq }); i >= 0 {
			packs[i] = p
		} else {
			packs = append(packs, p)
		}
	}
	return packs
}

// keptRef is a payload that was acknowledged.
type keptRef struct {
	Seed uint64
	Ref  cas.Ref
}

// begin opens the chunk store.
func (w *chunkWork) begin() (*cas.Store, cas.Recovery, []keptRef, error) {
	used, refs := map[uint32]uint32{}, promised[keptRef](w, stored)
	for _, k := range refs {
		used[k.Ref.Hint.Pack] = max(used[k.Ref.Hint.Pack], k.Ref.Hint.End)
	}
	after := uint32(0)
	for _, p := range w.Packs() {
		after = max(after, p.Seq)
	}
	reserve := int64(0)
	if w.l.full != nil {
		reserve = chunkBallast
	}
	s, rec, err := cas.Open(context.Background(), cas.Options{
		FS: w.held(), Dir: "/", StoreID: [16]byte{1}, Ledger: w, PackBytesMax: 64 << 10, Used: used, SeqAfter: after,
		BallastBytes: reserve,
	})
	return s, rec, refs, err
}

// open opens the chunk store and reads all that was acknowledged.
func (w *chunkWork) open() (*cas.Store, error) {
	s, rec, refs, err := w.begin()
	if err != nil {
		return nil, &openError{err}
	}
	if len(rec.Damage)+len(rec.Missing)+len(rec.Orphans) > 0 && !w.l.Faulty {
		return s, fmt.Errorf("recovery: %+v", rec)
	}
	for i, k := range refs {
		// Where calls fail, reads do; what they then give must not be wrong.
		if err := holds(s, k, i > 0); err != nil && !(w.l.Faulty && errors.Is(err, syscall.EIO)) {
			return s, err
		}
	}
	return s, nil
}

// holds reads a payload, also without its hint.
func holds(s *cas.Store, k keptRef, hint bool) error {
	if !hint {
		k.Ref.Hint = cas.Hint{}
	}
	r, err := s.Open(k.Ref)
	if err != nil {
		return fmt.Errorf("payload %d was acknowledged: %w", k.Seed, err)
	}
	got := readBuffers.Get().(*[payloadBytesMax]byte)
	defer readBuffers.Put(got)
	n, err := r.ReadAt(got[:], 0)
	if want := chunkPayload(k.Seed); err != io.EOF || !bytes.Equal(got[:n], want) {
		return fmt.Errorf("payload %d was acknowledged: %d of %d bytes, %w", k.Seed, n, len(want), err)
	}
	return nil
}

// payloadBytesMax is more than any payload has.
const payloadBytesMax = 80_000

var readBuffers = sync.Pool{New: func() any { return new([payloadBytesMax]byte) }}

// chunkPayload is what the seed stands for: odd ones have several chunks.
func chunkPayload(seed uint64) []byte {
	if b, ok := chunkPayloads.Load(seed); ok {
		return b.([]byte)
	}
	b := make([]byte, 17_000+seed%5*300+seed%2*50_000)
	rand.NewChaCha8([32]byte{byte(seed)}).Read(b[:17_000])
	chunkPayloads.Store(seed, b)
	return b
}

var chunkPayloads sync.Map // by seed: they are many times compared

// judge opens and judges.
func (w *chunkWork) judge(l *Life) error {
	w = &chunkWork{l: l}
	s, err := w.open()
	l.Kill()
	if s != nil {
		_ = s.Close()
	}
	return allowed(l, err)
}

func (w *chunkWork) live(l *Life) error {
	w = &chunkWork{l: l}
	lives := 1
	if l.Depth == 0 {
		lives = 2
	}
	for i := range lives {
		last := i == lives-1
		if err := w.process(uint64(l.Depth*8+i*4), !last); err != nil {
			return allowed(l, err)
		}
	}
	return nil
}

// process is one process: it opens, puts, and closes or is killed.
func (w *chunkWork) process(seed uint64, closes bool) error {
	s, err := w.open()
	if err != nil {
		w.l.Kill()
		if s != nil {
			_ = s.Close()
		}
		return err
	}
	err = w.puts(s, seed)
	w.l.resumes(func() error { return w.put(s, againSeed) })
	if closes && (err == nil || w.l.full != nil) {
		err = w.l.refused(s.Close())
	} else {
		w.l.Kill()
		_ = s.Close()
		if w.l.Depth == 0 && closes {
			w.l.Restart()
		}
	}
	if w.l.Faulty {
		return nil
	}
	return err
}

// chunkBallast is set aside where the disk becomes full.
const chunkBallast = 32 << 10

// againSeed is the payload that is put when there is space again.
const againSeed = 201

// puts puts two payloads twice each at the same time, then an earlier one, a third,
// and a fourth twice.
func (w *chunkWork) puts(s *cas.Store, seed uint64) error {
	var wait sync.WaitGroup
	errs := make([]error, 4)
	for i := range errs {
		wait.Go(func() { errs[i] = w.put(s, seed+uint64(i/2)) })
	}
	wait.Wait()
	return errors.Join(append(errs, w.put(s, 1), w.put(s, seed+3), w.join(s, seed+2))...)
}

// joining is a put that is held up in its barrier, and another of the same bytes
// meanwhile: that may be answered no sooner than the barrier has returned.
type joining struct {
	begun    chan struct{} // closed when the barrier begins
	once     sync.Once
	answered chan struct{} // closed when the other put was answered
}

// join puts a payload of one chunk, and the same once more while that is on its
// way.
func (w *chunkWork) join(s *cas.Store, seed uint64) error {
	j := &joining{begun: make(chan struct{}), answered: make(chan struct{})}
	w.joining.Store(j)
	defer w.joining.Store(nil)
	first := make(chan error, 1)
	go func() { first <- w.put(s, seed) }()
	late := time.NewTimer(20 * joinMax)
	defer late.Stop()
	select {
	case <-j.begun:
	case <-late.C: // it was stored before, or there are no barriers any more
	}
	second := w.put(s, seed)
	close(j.answered)
	return errors.Join(<-first, second)
}

// joinMax is how long a barrier is held up.
const joinMax = time.Millisecond

// held holds barriers of packs up while a put is to join another.
func (w *chunkWork) held() vfs.FS {
	return vfs.Hooked(w.l.Disk, func(c vfs.Call, do func(int64) error) error {
		if j := w.joining.Load(); j != nil && c.Op == vfs.OpDatasync && strings.HasPrefix(c.Name, "/active-") {
			j.once.Do(func() { close(j.begun) })
			late := time.NewTimer(joinMax)
			defer late.Stop()
			select {
			case <-j.answered:
			case <-late.C:
			}
		}
		return do(vfs.Whole)
	})
}

func (w *chunkWork) put(s *cas.Store, seed uint64) error {
	return w.putWith(context.Background(), s, seed)
}

func (w *chunkWork) putWith(ctx context.Context, s *cas.Store, seed uint64) error {
	ref, err := s.Put(ctx, bytes.NewReader(chunkPayload(seed)))
	if w.l.refused(err) != nil {
		return err
	}
	return w.promise(Promise{What: stored, N: seed}, keptRef{seed, ref})
}
