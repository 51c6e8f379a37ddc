package wal

import (
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"durafs/internal/vfs"
	"durafs/segment"
)

// A sector of a segment that is full cannot be read any more, before it was
// sealed. The batch whose header says that it was there is lost; the segment is
// sealed all the same, and so are those behind it. When the sector can be read
// again nothing is wrong with it.
func TestSealOverUnreadable(t *testing.T) {
	for what, at := range map[string]int64{"a payload": 2 * 4096, "the header of the file": 0} {
		t.Run(what, func(t *testing.T) {
			disk := newDisk()
			var bad atomic.Bool
			o := testOptions(vfs.Hooked(disk, func(c vfs.Call, do func(int64) error) error {
				reads := c.Op&(vfs.OpRead|vfs.OpReadUncached) != 0
				if reads && bad.Load() && strings.HasSuffix(c.Name, segmentName(1)) && c.Off < at+4096 && c.Off+c.Len > at {
					return syscall.EIO
				}
				return do(vfs.Whole)
			}), "/wal")
			b := &bodies{}
			l := b.open(t, o)
			lost := []uint64{1}
			if at == 0 {
				lost = nil
			}
			mustAppend(t, l, strings.Repeat("of several sectors ", 500))
			bad.Store(true)
			rest := numbered(2, 60, 900)
			mustAppend(t, l, rest...)
			mustClose(t, l)
			if !slices.Equal(b.lost, lost) {
				t.Errorf("lost: %v, want %v", b.lost, lost)
			}
			if len(b.sealed) < 4 || b.sealed[0] != 1 {
				t.Fatalf("sealed: %v", b.sealed)
			}
			for _, e := range l.man.current().segments {
				if e.State != segSealed || (e.B3 == [32]byte{}) != (e.ID == 1) {
					t.Errorf("segment %d: state %d, BLAKE3 %x", e.ID, e.State, e.B3)
				}
			}
			again := &bodies{}
			l = again.open(t, o)
			if len(again.walks) > 0 || len(again.got) != len(rest)+1-len(lost) {
				t.Errorf("opened by walking %v, with %d batches", again.walks, len(again.got))
			}
			if _, _, err := l.ReadBatch(Position{1, segment.HeaderBytes}, nil); (err != nil) != (lost != nil) {
				t.Errorf("reading what was there: %v", err)
			}
			mustClose(t, l)
			if found, _ := findings(t, o.FS, o.Dir); len(found) == 0 {
				t.Error("verify finds nothing")
			}
			bad.Store(false)
			if found, _ := findings(t, o.FS, o.Dir); len(found) > 0 {
				t.Errorf("it can be read again, and verify finds %v", found)
			}
		})
	}
}
