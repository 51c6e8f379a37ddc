package wal

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"durafs/internal/vfs"
)

// gate is a file system whose barriers on segments wait until they are let go.
type gate struct {
	vfs.FS
	inner  vfs.FS
	mu     sync.Mutex
	closed bool
	cond   *sync.Cond
	waits  int
	fail   error // of the next barrier or write, once
	on     vfs.Op
}

func newGate(inner vfs.FS) *gate {
	g := &gate{inner: inner, on: vfs.OpDatasync}
	g.cond = sync.NewCond(&g.mu)
	g.FS = vfs.Hooked(inner, g.around)
	return g
}

func (g *gate) around(c vfs.Call, do func(int64) error) error {
	if c.Op&(vfs.OpDatasync|vfs.OpWrite) == 0 {
		return do(vfs.Whole)
	}
	if _, isSegment := segmentID(filepath.Base(g.named(c.Name))); !isSegment {
		return do(vfs.Whole)
	}
	g.mu.Lock()
	if c.Op == vfs.OpDatasync {
		g.waits++
		g.cond.Broadcast()
		for g.closed {
			g.cond.Wait()
		}
	}
	err := g.fail
	if c.Op != g.on {
		err = nil
	} else {
		g.fail = nil
	}
	g.mu.Unlock()
	if err != nil {
		return err
	}
	return do(vfs.Whole)
}

// named is the name of a file that may have been opened before it got it: a
// segment that is written to was opened as a spare.
func (g *gate) named(name string) string {
	now := strings.Replace(name, "spare-", "", 1)
	if _, err := g.inner.Stat(now); err == nil {
		return now
	}
	return name
}

func (g *gate) shut() { g.mu.Lock(); g.closed = true; g.waits = 0; g.mu.Unlock() }

func (g *gate) open() { g.mu.Lock(); g.closed = false; g.cond.Broadcast(); g.mu.Unlock() }

func (g *gate) failNext(on vfs.Op, err error) { g.mu.Lock(); g.fail, g.on = err, on; g.mu.Unlock() }

// waiting returns when a barrier stands at the gate.
func (g *gate) waiting() {
	g.mu.Lock()
	defer g.mu.Unlock()
	for g.waits == 0 {
		g.cond.Wait()
	}
}

func gated(t *testing.T, change func(*Options)) (*gate, *Log, *recorder) {
	t.Helper()
	g := newGate(newDisk())
	o := testOptions(g, "/wal")
	o.SegmentBytesMax = 0 // no rolls, unless asked for
	if change != nil {
		change(&o)
	}
	l, state, _, _ := mustOpen(t, o)
	return g, l, state
}

// pending tells that a ticket is not answered yet.
func pending(t *testing.T, tk Ticket) {
	t.Helper()
	done, cancel := context.WithCancel(ctx)
	cancel()
	if err := tk.Wait(done); !errors.Is(err, context.Canceled) {
		t.Fatalf("answered before its barrier: %v", err)
	}
}

var errRefusal = errors.New("a refusal")

// Nothing is answered, durable or visible before the barrier has returned; a
// refusal that was decided on an accepted value waits for that value too.
func TestNothingBeforeTheBarrier(t *testing.T) {
	g, l, state := gated(t, nil)
	g.shut()
	first := submit(l, "1")
	g.waiting()
	second := submit(l, "2", "3")
	after := func(lsn uint64) Ticket {
		return l.Submit(Ordinary, func(uint64) Decision { return Decision{After: lsn, Err: errRefusal} })
	}
	refused, derived, unrelated := after(1), after(3), after(0)
	if err := unrelated.Wait(ctx); !errors.Is(err, errRefusal) {
		t.Fatal(err)
	}
	for _, tk := range []Ticket{first, second, refused, derived} {
		pending(t, tk)
	}
	if l.Durable() != 0 || len(state.published) != 0 {
		t.Fatal("visible before the barrier")
	}
	if first.LSN() != 1 || second.LSN() != 3 || refused.LSN() != 0 {
		t.Fatal("LSNs are wrong")
	}
	g.open()
	for _, tk := range []Ticket{refused, derived, after(3)} {
		if err := tk.Wait(ctx); !errors.Is(err, errRefusal) {
			t.Fatal(err)
		}
	}
	if err := errors.Join(first.Wait(ctx), second.Wait(ctx)); err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(state.published, []uint64{1, 2, 3}) || l.Durable() != 3 {
		t.Fatal(state.published)
	}
	if s := l.Stats(); s.Barriers != 2 || s.Batches != 3 || s.QueueBatches != 0 || s.QueueBytes != 0 {
		t.Fatalf("%+v", s)
	}
	mustClose(t, l)
}

// A barrier that fails poisons: nobody knows, nobody is told otherwise, and
// nothing is tried again. So it is with ENOSPC.
func TestPoison(t *testing.T) {
	for _, errno := range []syscall.Errno{syscall.EIO, syscall.ENOSPC} {
		g, l, state := gated(t, nil)
		mustAppend(t, l, "kept")
		g.shut()
		first := submit(l, "in flight")
		g.waiting()
		second := submit(l, "behind it")
		derived := l.Submit(Ordinary, func(uint64) Decision { return Decision{After: 3, Err: errRefusal} })
		g.failNext(vfs.OpDatasync, errno)
		g.open()
		for _, tk := range []Ticket{first, second, derived} {
			if err := tk.Wait(ctx); !errors.Is(err, ErrUnknown) || isNoSpace(err) {
				t.Fatalf("%v: %v", errno, err)
			}
		}
		asked := false
		err := l.Submit(Reserved, func(uint64) Decision { asked = true; return Decision{} }).Wait(ctx)
		if !errors.Is(err, ErrPoisoned) || asked {
			t.Fatalf("after poison: %v, asked %v", err, asked)
		}
		if err := l.Healthy(); !errors.Is(err, ErrPoisoned) || !errors.Is(err, errno) {
			t.Fatal(err)
		}
		if state.resets != 1 || !slices.Equal(state.published, []uint64{1}) {
			t.Fatalf("%+v", state)
		}
		if err := l.AddPack(Pack{Seq: 1}); err != nil && !errors.Is(err, ErrPoisoned) {
			t.Fatal(err)
		}
		pos := Position{l.writer.seg.id, 4096}
		if f, next, err := l.ReadBatch(pos, nil); err != nil || string(f.Payload) != "kept" {
			t.Fatal("reads do not go on: ", err)
		} else if _, _, err := l.ReadBatch(next, nil); !errors.Is(err, ErrEnd) {
			t.Fatalf("what is not certain can be read: %v", err)
		}
		if err := l.Close(ctx); !errors.Is(err, ErrPoisoned) {
			t.Fatal(err)
		}
	}
}

// A write that fails is refused for certain, with all that was accepted behind
// it; LSNs go on from what is durable, in the next segment, at once.
func TestWriteRefused(t *testing.T) {
	for _, errno := range []syscall.Errno{syscall.EIO, syscall.ENOSPC, syscall.EDQUOT} {
		g, l, state := gated(t, nil)
		mustAppend(t, l, "kept")
		dead := l.writer.seg.id
		g.shut()
		first := submit(l, "2")
		g.waiting()
		var behind []Ticket
		for range 3 {
			behind = append(behind, submit(l, "refused"))
		}
		g.failNext(vfs.OpWrite, errno)
		g.open()
		if err := first.Wait(ctx); err != nil {
			t.Fatal(err)
		}
		for _, tk := range behind {
			err := tk.Wait(ctx)
			var space *NoSpaceError
			if isSpace := errors.As(err, &space); isSpace != (errno != syscall.EIO) || !isSpace && !errors.Is(err, ErrRefused) || !errors.Is(err, errno) {
				t.Fatalf("%v: %v", errno, err)
			}
			if space != nil && (space.Mount == "" || space.FreeBytes == 0) {
				t.Fatalf("%+v", space)
			}
		}
		if state.resets != 1 {
			t.Fatalf("%d resets", state.resets)
		}
		if tk := mustAppend(t, l, "3"); tk.LSN() != 3 || l.writer.seg.id == dead {
			t.Fatalf("LSN %d in segment %d", tk.LSN(), l.writer.seg.id)
		}
		o := l.opts
		crash(l)
		l, _, frames, _ := mustOpen(t, o)
		checkBodies(t, frames, []string{"kept", "2", "3"})
		mustClose(t, l)
		if list, _ := findings(t, o.FS, "/wal"); len(list) > 0 {
			t.Fatalf("%+v", list)
		}
	}
}

// Without space for the next segment ordinary batches are refused, reserved
// ones use what is left, and both go on by themselves when space is back.
func TestNoSpace(t *testing.T) {
	faulty := vfs.NewFaulty(newDisk())
	o := testOptions(faulty, "/wal")
	l, _, _, _ := mustOpen(t, o)
	mustAppend(t, l, "1")
	full := vfs.Fault{Ops: vfs.OpCreate, Nth: 1, Sticky: true, Err: syscall.ENOSPC, Match: func(c vfs.Call) bool {
		return len(c.Name) > len("/wal/spare-") && c.Name[:len("/wal/spare-")] == "/wal/spare-"
	}}
	waitFor(t, func() bool { l.mu.Lock(); defer l.mu.Unlock(); return l.ready != nil })
	faulty.Inject(full)
	kept := []string{"1"}
	ordinary := func() error { return submit(l, numbered(len(kept)+1, len(kept)+1, 900)[0]).Wait(ctx) }
	for {
		err := ordinary()
		if err == nil {
			kept = append(kept, numbered(len(kept)+1, len(kept)+1, 900)[0])
			if len(kept) > 100 {
				t.Fatal("never refused")
			}
			continue
		}
		var space *NoSpaceError
		if !errors.As(err, &space) || !errors.Is(err, syscall.ENOSPC) {
			t.Fatal(err)
		}
		break
	}
	if !l.Stats().ShortOfSpace {
		t.Fatal("not short of space")
	}
	reserved := func() error {
		return l.Submit(Reserved, func(uint64) Decision { return Decision{Batches: []*Batch{batch("reserved")}} }).Wait(ctx)
	}
	passed := 0
	for reserved() == nil {
		kept = append(kept, "reserved")
		passed++
		if passed > 1000 {
			t.Fatal("never full")
		}
	}
	if passed == 0 {
		t.Fatal("nothing was held back")
	}
	var space *NoSpaceError
	if err := reserved(); !errors.As(err, &space) {
		t.Fatal(err)
	}
	if err := l.Healthy(); err != nil {
		t.Fatal(err)
	}
	faulty.Clear()
	waitFor(t, func() bool { return ordinary() == nil })
	kept = append(kept, numbered(len(kept)+1, len(kept)+1, 900)[0])
	if err := ordinary(); err != nil {
		t.Fatal(err)
	}
	kept = append(kept, numbered(len(kept)+1, len(kept)+1, 900)[0])
	crash(l)
	l, _, frames, _ := mustOpen(t, o)
	checkBodies(t, frames, kept)
	mustClose(t, l)
}

func waitFor(t *testing.T, cond func() bool) {
	t.Helper()
	for range 5000 {
		if cond() {
			return
		}
		time.Sleep(time.Millisecond)
	}
	t.Fatal("it does not come")
}

func TestQueueLimits(t *testing.T) {
	g, l, _ := gated(t, func(o *Options) { o.QueueBatchesMax, o.QueueBytesMax = 4, 1<<20 })
	g.shut()
	var all []Ticket
	for i := range 4 {
		all = append(all, submit(l, fmt.Sprint(i)))
	}
	if err := submit(l, "too many").Wait(ctx); !errors.Is(err, ErrBusy) {
		t.Fatal(err)
	}
	reserved := func() Ticket {
		return l.Submit(Reserved, func(uint64) Decision { return Decision{Batches: []*Batch{batch("r")}} })
	}
	for range 4 {
		all = append(all, reserved())
	}
	if err := reserved().Wait(ctx); !errors.Is(err, ErrBusy) {
		t.Fatal(err)
	}
	g.open()
	for _, tk := range all {
		if err := tk.Wait(ctx); err != nil {
			t.Fatal(err)
		}
	}
	if err := submit(l, "room again").Wait(ctx); err != nil {
		t.Fatal(err)
	}
	mustClose(t, l)
}

// The largest batch can be written and read; the next larger cannot be
// written. A unit that fits into a group is not parted.
func TestSizes(t *testing.T) {
	g, l, _ := gated(t, nil)
	largest := string(make([]byte, BatchBytesMax))
	mustAppend(t, l, largest)
	if err := submit(l, largest+"x").Wait(ctx); !errors.Is(err, ErrTooLarge) {
		t.Fatal(err)
	}
	g.shut()
	first := submit(l, "a")
	g.waiting()
	half := string(make([]byte, GroupBytesMax/2))
	submit(l, half)
	before := l.Stats().Barriers
	unit := submit(l, half[:len(half)-200], half[:len(half)-200])
	g.open()
	if err := errors.Join(first.Wait(ctx), unit.Wait(ctx)); err != nil {
		t.Fatal(err)
	}
	if got := l.Stats().Barriers - before; got != 3 {
		t.Fatalf("%d barriers, want one each for a, the half, and the unit", got)
	}
	big := submit(l, half, half, half, half)
	if err := big.Wait(ctx); err != nil {
		t.Fatal(err)
	}
	o := l.opts
	mustClose(t, l)
	l, _, frames, _ := mustOpen(t, o)
	if len(frames) != 9 || string(frames[0].Payload) != largest {
		t.Fatalf("%d frames", len(frames))
	}
	if f, _, err := l.ReadBatch(frames[0].Pos, make([]byte, 10)); err != nil || string(f.Payload) != largest {
		t.Fatal(err)
	}
	mustClose(t, l)
}

func TestClosed(t *testing.T) {
	_, l, _ := gated(t, nil)
	mustAppend(t, l, "1")
	mustClose(t, l)
	if err := submit(l, "2").Wait(ctx); !errors.Is(err, ErrClosed) {
		t.Fatal(err)
	}
	if err := l.Close(ctx); !errors.Is(err, ErrClosed) {
		t.Fatal(err)
	}
}

// Close makes durable what was accepted.
func TestCloseDrains(t *testing.T) {
	g, l, _ := gated(t, nil)
	g.shut()
	first := submit(l, "1")
	g.waiting()
	second := submit(l, "2")
	closed := make(chan error)
	go func() { closed <- l.Close(ctx) }()
	waitFor(t, func() bool { l.mu.Lock(); defer l.mu.Unlock(); return l.closing })
	if err := submit(l, "late").Wait(ctx); !errors.Is(err, ErrClosed) {
		t.Fatal(err)
	}
	g.open()
	if err := errors.Join(first.Wait(ctx), second.Wait(ctx), <-closed); err != nil {
		t.Fatal(err)
	}
}

// Many writers: LSNs are dense, published in order, each answered once it is.
func TestManyWriters(t *testing.T) {
	o := testOptions(newDisk(), "/wal")
	o.SegmentBytesMax = 64 << 10
	l, state, _, _ := mustOpen(t, o)
	const writers, each = 32, 40
	var wg sync.WaitGroup
	for w := range writers {
		wg.Go(func() {
			for i := range each {
				body := fmt.Sprintf("%d/%d", w, i)
				tk := submit(l, body)
				if err := tk.Wait(ctx); err != nil {
					t.Error(err)
					return
				}
				if l.Durable() < tk.LSN() {
					t.Error("answered before it was durable")
				}
				state.mu.Lock()
				if uint64(len(state.published)) < tk.LSN() {
					t.Error("answered before it was published")
				}
				state.mu.Unlock()
			}
		})
	}
	wg.Wait()
	for i, lsn := range state.published {
		if lsn != uint64(i+1) {
			t.Fatalf("published %d as number %d", lsn, i+1)
		}
	}
	crash(l)
	_, _, frames, _ := mustOpenCrash(t, o)
	if len(frames) != writers*each {
		t.Fatalf("%d batches", len(frames))
	}
	next := map[string]int{}
	for _, f := range frames {
		var w, i int
		fmt.Sscanf(string(f.Payload), "%d/%d", &w, &i)
		if key := fmt.Sprint(w); next[key] != i {
			t.Fatalf("writer %d: %d, want %d", w, i, next[key])
		} else {
			next[key]++
		}
	}
}

func mustOpenCrash(t *testing.T, o Options) (*Log, *recorder, []Frame, Recovery) {
	l, state, frames, rec := mustOpen(t, o)
	crash(l)
	return l, state, frames, rec
}

func TestPacks(t *testing.T) {
	o := testOptions(newDisk(), "/wal")
	l, _, _, _ := mustOpen(t, o)
	a, b := Pack{Seq: 1, Nonce: 11}, Pack{Seq: 2, Nonce: 22}
	if err := errors.Join(l.AddPack(a), l.AddPack(b)); err != nil {
		t.Fatal(err)
	}
	if l.AddPack(a) == nil || l.SealPack(Pack{Seq: 9}) == nil {
		t.Fatal("a number can be given twice, or a pack sealed that is not known")
	}
	a.Sealed, a.Bytes, a.B3 = true, 1000, [32]byte{1, 2}
	if err := l.SealPack(a); err != nil {
		t.Fatal(err)
	}
	for i := range 2000 { // more than a copy has room for
		p := Pack{Seq: uint32(3 + i), Nonce: 1}
		if err := errors.Join(l.AddPack(p), l.SealPack(p)); err != nil {
			t.Fatal(err)
		}
	}
	crash(l)
	for range 2 {
		l, _, _, _ = mustOpen(t, o)
		if got := l.Packs(); !slices.Equal(got, []Pack{a, b}) {
			t.Fatalf("%+v", got)
		}
		if high := l.HighWater(); high.Pack != 2002 {
			t.Fatalf("%+v", high)
		}
		mustClose(t, l)
	}
}
