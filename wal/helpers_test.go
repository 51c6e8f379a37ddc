package wal

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"

	"durafs/internal/vfs"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var ctx = context.Background()

// recorder is a State that keeps what was published.
type recorder struct {
	mu        sync.Mutex
	published []uint64
	values    []any
	resets    int
}

func (r *recorder) Publish(batches []*Batch) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, b := range batches {
		r.published = append(r.published, b.LSN)
		r.values = append(r.values, b.Value)
	}
}

func (r *recorder) Reset() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.resets++
}

// replayed keeps what Open replays.
type replayed struct {
	frames []Frame
}

func (r *replayed) add(f Frame) error {
	f.Payload = slices.Clone(f.Payload)
	r.frames = append(r.frames, f)
	return nil
}

func batch(body string) *Batch {
	return &Batch{Run: 7, Count: 1, Body: []byte(body), BodyCRC: Checksum([]byte(body))}
}

// smallSegments makes rolls happen after a few batches.
const smallSegments = 4 * 4096

func testOptions(fsys vfs.FS, dir string) Options {
	return Options{FS: fsys, Dir: dir, StoreID: [16]byte{1, 2, 3}, SegmentBytesMax: smallSegments, BallastBytes: 2 * 4096}
}

// mustOpen opens and starts a log and returns what it replayed.
func mustOpen(t testing.TB, o Options) (*Log, *recorder, []Frame, Recovery) {
	t.Helper()
	var r replayed
	l, rec, err := Open(ctx, o, r.add)
	if err != nil {
		t.Fatalf("Open: %v", err)
	}
	state := &recorder{}
	l.Start(state)
	return l, state, r.frames, rec
}

func mustClose(t testing.TB, l *Log) {
	t.Helper()
	if err := l.Close(ctx); err != nil {
		t.Fatalf("Close: %v", err)
	}
}

// crash leaves a log as a killed process would: nothing more is written.
func crash(l *Log) {
	l.fail(fmt.Errorf("the test killed it"))
	if l.started {
		<-l.writerDone
		close(l.stop)
		l.tendDone.Wait()
	}
	l.release()
}

func submit(l *Log, bodies ...string) Ticket {
	return l.Submit(Ordinary, func(uint64) Decision {
		var d Decision
		for _, b := range bodies {
			d.Batches = append(d.Batches, batch(b))
		}
		return d
	})
}

func mustAppend(t testing.TB, l *Log, bodies ...string) Ticket {
	t.Helper()
	var last Ticket
	for _, b := range bodies {
		last = submit(l, b)
		if err := last.Wait(ctx); err != nil {
			t.Fatalf("append %.20q: %v", b, err)
		}
	}
	return last
}

func numbered(from, to int, size int) []string {
	var s []string
	for i := from; i <= to; i++ {
		b := fmt.Sprintf("batch %06d ", i)
		for len(b) < size {
			b += "."
		}
		s = append(s, b)
	}
	return s
}

func checkBodies(t testing.TB, frames []Frame, want []string) {
	t.Helper()
	for i, f := range frames {
		if f.LSN != uint64(i+1) {
			t.Fatalf("frame %d has LSN %d", i, f.LSN)
		}
		if i < len(want) && string(f.Payload) != want[i] {
			t.Fatalf("LSN %d is %.30q, want %.30q", f.LSN, f.Payload, want[i])
		}
	}
	if len(frames) != len(want) {
		t.Fatalf("%d batches, want %d", len(frames), len(want))
	}
}
