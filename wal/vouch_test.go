package wal

import (
	"errors"
	"testing"
	"time"

	"durafs/segment"
)

// When nothing has come for a while the manifest calls durable what is; once,
// and not while something comes.
func TestQuietVouches(t *testing.T) {
	inBubble(t, nil, func(t *testing.T, l *Log, _ *recorder) {
		noted := func() uint64 { return l.man.current().high.LSN }
		for range 5 {
			mustAppend(t, l, "row")
			time.Sleep(quietAfter / 2)
		}
		if noted() != 0 {
			t.Fatalf("LSN %d was noted in the midst of appending", noted())
		}
		for range 2 {
			time.Sleep(2 * quietAfter)
			if noted() != l.Durable() {
				t.Fatalf("LSN %d is noted, %d durable", noted(), l.Durable())
			}
			edits := l.Stats().ManifestEdits
			time.Sleep(100 * quietAfter)
			if l.Stats().ManifestEdits != edits {
				t.Fatal("the manifest is written where nothing has come")
			}
			mustAppend(t, l, "another")
		}
	})
}

// Rot of the very last group is named once it has become quiet, and taken for a
// write in flight before.
func TestRotOfTheLastGroup(t *testing.T) {
	for _, quiet := range []bool{false, true} {
		disk := newDisk()
		o := testOptions(disk, "/wal")
		o.QuietAfter = time.Millisecond
		if !quiet {
			o.QuietAfter = time.Hour
		}
		l, _, _, _ := mustOpen(t, o)
		mustAppend(t, l, "1", "2")
		last := mustAppend(t, l, "3")
		if quiet {
			waitFor(t, func() bool { return l.man.current().high.LSN == last.LSN() })
		}
		pos := l.writer.pos - segment.FrameBytes(1)
		name := l.writer.seg.name
		crash(l)
		change(t, disk, "/wal/"+name, func(b []byte) []byte {
			clear(b[pos : pos+segment.FrameBytes(1)])
			return b
		})
		var found replayed
		again, _, err := Open(ctx, o, found.add)
		var d *DamageError
		switch {
		case quiet && (!errors.As(err, &d) || d.LSNFrom != 3 || d.LSNTo != 3):
			t.Errorf("rot of what was vouched for: %v", err)
		case !quiet && err != nil:
			t.Errorf("a write that nothing vouches for: %v", err)
		}
		if err == nil {
			again.release()
		}
	}
}

// With padding each group begins on a block of its own, also behind what was
// carried on, and the segment's end needs no pad.
func TestPadding(t *testing.T) {
	const block = 4096
	for _, rounds := range []int{1, 2, 7} {
		disk := newDisk()
		o := testOptions(disk, "/wal")
		o.PadBytes = block
		var want []string
		for round := range 3 {
			l, _, frames, _ := mustOpen(t, o)
			checkBodies(t, frames, want)
			for i := range rounds {
				at := l.writer.pos
				if at%block != 0 && at+segment.FrameHeaderBytes < l.writer.seg.size {
					t.Fatalf("a group begins at %d", at)
				}
				// Of any length, also such that no pad fits before the boundary.
				want = append(want, numbered(len(want)+1, len(want)+1, 1000*i+round*8+block-2*segment.FrameHeaderBytes)...)
				mustAppend(t, l, want[len(want)-1])
			}
			crash(l)
		}
		l, _, frames, _ := mustOpen(t, o)
		checkBodies(t, frames, want)
		mustClose(t, l)
		sum, err := Verify(ctx, disk, "/wal", nil, func(f Finding) { t.Errorf("%+v", f) })
		if err != nil || sum.Last != uint64(len(want)) {
			t.Errorf("Verify: %+v, %v", sum, err)
		}
	}
	o := testOptions(newDisk(), "/wal")
	for _, n := range []int64{-1, 3, 8192} {
		o.PadBytes = n
		if _, _, err := Open(ctx, o, func(Frame) error { return nil }); err == nil {
			t.Errorf("padding to %d bytes was taken", n)
		}
	}
}
