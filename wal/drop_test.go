package wal

import (
	"errors"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"testing"
	"time"

	"durafs/internal/vfs"
	"durafs/segment"
)

// sealed waits until n segments are sealed.
func sealed(t *testing.T, l *Log, n int) {
	t.Helper()
	waitFor(t, func() bool {
		have := 0
		for _, e := range l.man.current().segments {
			if e.State == segSealed {
				have++
			}
		}
		return have >= n
	})
}

// fillSegments appends until n segments are sealed, and returns what.
func fillSegments(t *testing.T, l *Log, from, n int) (bodies []string) {
	t.Helper()
	begin := l.writer.seg.id
	for l.writer.seg.id < begin+uint32(n) {
		at := from + len(bodies)
		bodies = append(bodies, numbered(at, at, 3000)...)
		mustAppend(t, l, bodies[len(bodies)-1])
	}
	sealed(t, l, n)
	return bodies
}

// What is dropped is gone, its files are used again with what stands in them,
// and the log goes on, over opens and crashes.
func TestDropRecycles(t *testing.T) {
	disk := newDisk()
	o := testOptions(disk, "/wal")
	l, _, _, _ := mustOpen(t, o)
	bodies := fillSegments(t, l, 1, 3)
	var dropped uint64
	for range 5 {
		gone, _ := l.files.find((*l.files.table.Load())[0].id)
		n, err := l.Drop(math.MaxUint32)
		if err != nil || n < 3 {
			t.Fatalf("Drop: %d, %v", n, err)
		}
		dropped = l.HighWater().Dropped
		var d *DamageError
		if _, _, err := l.ReadBatch(Position{gone.id, segment.HeaderBytes}, nil); !errors.As(err, &d) {
			t.Fatalf("a dropped batch was read: %v", err)
		}
		if _, err := l.files.acquire(gone); !errors.As(err, &d) {
			t.Fatalf("a dropped segment was opened: %v", err)
		}
		bodies = append(bodies, fillSegments(t, l, len(bodies)+1, 3)...)
	}
	if l.Stats().Recycled < 5 {
		t.Errorf("%d segments were made of dropped ones", l.Stats().Recycled)
	}
	for _, end := range []func(){func() { crash(l) }, func() { mustClose(t, l) }} {
		end()
		if _, err := Verify(ctx, disk, "/wal", nil, func(f Finding) { t.Errorf("%+v", f) }); err != nil {
			t.Fatal(err)
		}
		var frames []Frame
		var rec Recovery
		l, _, frames, rec = mustOpen(t, o)
		if rec.Cut != nil {
			t.Errorf("an earlier segment's frames were taken for a write that was cut: %+v", rec.Cut)
		}
		if len(frames) != len(bodies)-int(dropped) || frames[0].LSN != dropped+1 {
			t.Fatalf("%d batches from LSN %d, %d were dropped of %d", len(frames), frames[0].LSN, dropped, len(bodies))
		}
		for _, f := range frames {
			if string(f.Payload) != bodies[f.LSN-1] {
				t.Fatalf("LSN %d is %.20q", f.LSN, f.Payload)
			}
		}
		bodies = append(bodies, fillSegments(t, l, len(bodies)+1, 1)...)
	}
	mustClose(t, l)
}

// A torn group in a recycled segment is cut, and rot in it is named, as in any
// other: what stands behind it from before is nothing to either.
func TestRecycledTornOrRotten(t *testing.T) {
	for _, rot := range []bool{false, true} {
		disk := newDisk()
		o := testOptions(disk, "/wal")
		l, _, _, _ := mustOpen(t, o)
		n := len(fillSegments(t, l, 1, 3))
		if _, err := l.Drop(math.MaxUint32); err != nil {
			t.Fatal(err)
		}
		for l.Stats().Recycled == 0 || l.writer.pos == segment.HeaderBytes {
			n++
			mustAppend(t, l, numbered(n, n, 3000)...)
		}
		// On until the active one is recycled and has three groups.
		for h := (segment.Header{}); !h.Recycled; {
			n += len(fillSegments(t, l, n+1, 1))
			b := make([]byte, segment.HeaderBytes)
			if _, err := l.writer.seg.f.ReadAt(b, 0); err != nil {
				t.Fatal(err)
			}
			var err error
			if h, err = segment.ParseHeader(b); err != nil {
				t.Fatal(err)
			}
		}
		mustAppend(t, l, numbered(n+1, n+2, 1000)...)
		n += 2
		pos, name := l.writer.pos, l.writer.seg.name
		crash(l)
		at := pos - segment.FrameBytes(1000) // the last
		if rot {
			at -= segment.FrameBytes(1000)
		}
		change(t, disk, "/wal/"+name, func(b []byte) []byte { b[at+100] ^= 1; return b })
		var found replayed
		_, rec, err := Open(ctx, o, found.add)
		var d *DamageError
		switch {
		case rot && !errors.As(err, &d):
			t.Errorf("rot was not named: %v", err)
		case !rot && (err != nil || rec.Cut == nil || rec.Last != uint64(n-1)):
			t.Errorf("a torn write was not cut: %+v, %v", rec, err)
		}
	}
}

// A file that somebody else may read is not used again.
func TestDropOfWhatOthersHave(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "wal")
	l, _, _, _ := mustOpen(t, testOptions(vfs.OS, dir))
	fillSegments(t, l, 1, 3)
	old := l.droppable(math.MaxUint32)
	link := filepath.Join(t.TempDir(), "link")
	if err := os.Link(filepath.Join(dir, segmentName(old[0].ID)), link); err != nil {
		t.Fatal(err)
	}
	before, err := os.ReadFile(link)
	if err != nil {
		t.Fatal(err)
	}
	if !l.Lend(old[1].ID) || l.Lend(12345) {
		t.Error("Lend takes what is not there, or not what is")
	}
	if n, err := l.Drop(old[2].ID + 1); n != 3 || err != nil {
		t.Fatalf("Drop: %d, %v", n, err)
	}
	l.pool.mu.Lock()
	for _, f := range l.pool.files {
		if f.id != old[2].ID {
			t.Errorf("segment %d is to be used again", f.id)
		}
	}
	l.pool.mu.Unlock()
	for _, e := range old {
		if _, err := os.Stat(filepath.Join(dir, segmentName(e.ID))); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("segment %d still has its name: %v", e.ID, err)
		}
	}
	fillSegments(t, l, 100, 3)
	mustClose(t, l)
	if after, err := os.ReadFile(link); err != nil || string(after) != string(before) {
		t.Error("a dropped file that has another name was written")
	}
}

// Drop waits for who reads, and later readers are told.
func TestDropWaitsForReaders(t *testing.T) {
	l, _, _, _ := mustOpen(t, testOptions(newDisk(), "/wal"))
	fillSegments(t, l, 1, 1)
	seg := (*l.files.table.Load())[0]
	if _, err := l.files.acquire(seg); err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() { defer close(done); l.Drop(math.MaxUint32) }()
	waitFor(t, func() bool { l.files.mu.Lock(); defer l.files.mu.Unlock(); return seg.gone })
	select {
	case <-done:
		t.Error("Drop did not wait for a reader")
	case <-time.After(10 * time.Millisecond):
	}
	l.files.release(seg)
	<-done
	mustClose(t, l)
}

// What is not sealed, and what stands behind it, is not dropped.
func TestDropBounds(t *testing.T) {
	l, _, _, _ := mustOpen(t, testOptions(newDisk(), "/wal"))
	if n, err := l.Drop(math.MaxUint32); n != 0 || err != nil {
		t.Errorf("Drop of a new log: %d, %v", n, err)
	}
	fillSegments(t, l, 1, 2)
	first := (*l.files.table.Load())[0].id
	if n, err := l.Drop(first + 1); n != 1 || err != nil {
		t.Errorf("Drop of the first: %d, %v", n, err)
	}
	mustClose(t, l)
}

// A salt under which an earlier segment's frames would check is not taken.
func TestSaltOfRecycled(t *testing.T) {
	h := segment.FrameHeader{Kind: segment.Batch, LSN: 1, Count: 1}
	b := segment.AppendFrame(nil, &h, segment.NewKey(1), 4096, []byte("stale"))
	for salt := range uint64(1000) {
		_, err := segment.DecodeFrameHeader(b, segment.NewKey(salt), 4096)
		if (err == nil) != (segment.NewKey(salt) == segment.NewKey(1)) {
			t.Fatalf("under salt %d a frame with salt 1: %v", salt, err)
		}
	}
}

// Close waits for a Drop that is under way, and lets no other begin: two would
// write to the MANIFEST and the directory after the log was given back.
func TestCloseWaitsForDrop(t *testing.T) {
	disk := newDisk()
	o := testOptions(disk, "/wal")
	l, _, _, _ := mustOpen(t, o)
	fillSegments(t, l, 1, 3)
	l.dropping.Lock() // as a Drop that is under way
	closed := make(chan error)
	go func() { closed <- l.Close(t.Context()) }()
	waitFor(t, func() bool { l.mu.Lock(); defer l.mu.Unlock(); return l.closing })
	<-l.writerDone
	for range 10_000 {
		runtime.Gosched()
	}
	select {
	case err := <-closed:
		t.Fatalf("it did not wait: %v", err)
	default:
	}
	l.dropping.Unlock()
	if err := <-closed; err != nil {
		t.Fatal(err)
	}
	if n, err := l.Drop(math.MaxUint32); !errors.Is(err, ErrClosed) || n != 0 {
		t.Errorf("Drop of a closed log: %d, %v", n, err)
	}
}
