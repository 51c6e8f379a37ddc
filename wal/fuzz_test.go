package wal

import (
	"bytes"
	"errors"
	"testing"

	"durafs/segment"
)

// FuzzManifestFrame: the frames of a manifest that check and make sense are
// written again as the same bytes, and another byte in them never says the same.
func FuzzManifestFrame(f *testing.F) {
	key := segment.NewKey(9)
	payload := appendEdits(nil, []edit{beginSnapshot(1), raiseHigh{Segment: 3, LSN: 9}, setSegment{ID: 3, Salt: 5, Size: 1 << 20}})
	h := segment.FrameHeader{Kind: segment.Manifest, LSN: 1, Count: 3}
	f.Add(segment.AppendFrame(nil, &h, key, segment.HeaderBytes, payload), 60, byte(1))
	f.Add([]byte{}, 0, byte(0))
	f.Fuzz(func(t *testing.T, b []byte, at int, flip byte) {
		read := func(b []byte) ([]byte, bool) {
			h, err := segment.DecodeFrameHeader(b, key, segment.HeaderBytes)
			if err != nil {
				return nil, false
			}
			p, err := h.CheckPayload(b, segment.HeaderBytes)
			if err != nil {
				return nil, false
			}
			edits, err := parseEdits(p)
			if err != nil {
				return nil, false
			}
			return segment.AppendFrame(nil, &h, key, segment.HeaderBytes, appendEdits(nil, edits)), true
		}
		again, ok := read(b)
		if !ok {
			return
		}
		if !bytes.HasPrefix(b, again) {
			t.Fatal("a frame that parses is written as other bytes")
		}
		if at < 0 || at >= len(again) || flip == 0 {
			return
		}
		c := bytes.Clone(again)
		c[at] ^= flip
		if _, ok := read(c); ok {
			t.Fatalf("byte %d changed, and the frame parses", at)
		}
	})
}

// FuzzLog: a log of arbitrary bytes is verified, opened to be read only and
// read, whatever they are.
func FuzzLog(f *testing.F) {
	disk := newDisk()
	l, _, _, _ := mustOpen(f, testOptions(disk, "/wal"))
	mustAppend(f, l, numbered(1, 8, 60)...)
	crash(l)
	man, seg := bytesOf(disk, "/wal/MANIFEST-A"), bytesOf(disk, "/wal/0000000001.seg")
	f.Add(man[:writtenBytes(man)], seg[:writtenBytes(seg)], 0, byte(0))
	f.Add(man[:writtenBytes(man)], seg[:writtenBytes(seg)], 4200, byte(1))
	f.Add([]byte{}, seg[:writtenBytes(seg)], 4160, byte(0x80))
	f.Fuzz(func(t *testing.T, man, seg []byte, at int, flip byte) {
		if len(man)+len(seg) > 1<<20 {
			return
		}
		if at >= 0 && at < len(seg) {
			seg = bytes.Clone(seg)
			seg[at] ^= flip
		}
		disk := newDisk()
		must0(disk.Mkdir("/wal"))
		put(disk, "/wal/MANIFEST-A", man)
		put(disk, "/wal/0000000001.seg", seg)
		Verify(ctx, disk, "/wal", nil, func(Finding) {})
		o := testOptions(disk, "/wal")
		o.ReadOnly, o.Damaged = errors.New("fuzz"), func(*DamageError) error { return nil }
		l, _, err := Open(ctx, o, func(Frame) error { return nil })
		if err != nil {
			return
		}
		for pos := (Position{1, segment.HeaderBytes}); ; {
			_, next, err := l.ReadBatch(pos, nil)
			if next == pos || err == ErrEnd {
				break
			}
			pos = next
		}
		crash(l)
	})
}
