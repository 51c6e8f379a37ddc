package wal

import (
	"bytes"
	"errors"
	"slices"
	"testing"

	"durafs/segment"
)

// A frame that checks and is not understood is from a later version. It never
// counts as the end of the log, wherever it stands: what it holds would be
// cut, or its segment dropped.
func TestLaterFrames(t *testing.T) {
	for name, segments := range map[string][][]mark{
		"the last":               {{{1, 0, ""}, {2, 1, ""}, {3, 2, "later"}}},
		"first of a segment":     {{{1, 0, ""}, {2, 1, ""}}, {{3, 2, "later"}, {4, 3, "later"}}},
		"behind a torn one":      {{{1, 0, ""}, {2, 1, "payload"}, {3, 2, "later"}}},
		"in a segment behind it": {{{1, 0, ""}, {2, 1, "payload"}}, {{3, 2, "later"}}},
	} {
		t.Run(name, func(t *testing.T) {
			disk, o := handmade(t, segments...)
			before := contents(disk)
			if _, _, err := Open(ctx, o, func(Frame) error { return nil }); !errors.Is(err, ErrUnknownFlag) {
				t.Errorf("Open: %v", err)
			}
			if !slices.Equal(before, contents(disk)) {
				t.Error("a refused open changed something")
			}
			if _, err := Verify(ctx, disk, "/wal", nil, func(Finding) {}); !errors.Is(err, ErrUnknownFlag) {
				t.Errorf("Verify: %v", err)
			}
		})
	}
}

// So it is with an edit of the manifest, also when it is the last one, which
// would else pass for one that was in flight.
func TestLaterEdits(t *testing.T) {
	setState := setSegment{ID: 1, Salt: 2, Size: 100, State: segSealed + 1}.append(nil)
	for name, payload := range map[string][]byte{
		"kind":  {kindHigh + 1, 1, 2, 3},
		"state": setState,
		"pack":  append(append([]byte{kindSetPack}, make([]byte, 12)...), append([]byte{2}, make([]byte, 40)...)...),
	} {
		t.Run(name, func(t *testing.T) {
			disk := written(t)
			for _, copy := range manifestNames {
				change(t, disk, "/wal/"+copy, func(b []byte) []byte { return appendToManifest(t, b, payload) })
			}
			before := contents(disk)
			if _, _, err := Open(ctx, testOptions(disk, "/wal"), func(Frame) error { return nil }); !errors.Is(err, ErrUnknownFlag) {
				t.Errorf("Open: %v", err)
			}
			if _, err := Verify(ctx, disk, "/wal", nil, func(Finding) {}); !errors.Is(err, ErrUnknownFlag) {
				t.Errorf("Verify: %v", err)
			}
			if !slices.Equal(before, contents(disk)) {
				t.Error("a refused open changed something")
			}
		})
	}
}

// An edit that checks and cannot be applied was never written by this version:
// that is damage, and not the end of the manifest.
func TestImpossibleEdit(t *testing.T) {
	disk := written(t)
	for _, copy := range manifestNames {
		change(t, disk, "/wal/"+copy, func(b []byte) []byte {
			return appendToManifest(t, b, dropSegment(4000).append(nil))
		})
	}
	wantDamage(t, disk, "MANIFEST-A")
}

// appendToManifest adds a frame with one edit to a copy.
func appendToManifest(t *testing.T, b, payload []byte) []byte {
	t.Helper()
	h, err := segment.ParseHeader(b)
	if err != nil {
		t.Fatal(err)
	}
	key := segment.NewKey(h.Salt)
	w := segment.NewWalker(bytes.NewReader(b).ReadAt, key, segment.HeaderBytes, int64(len(b)), 0)
	w.FreeStart()
	for err == nil {
		_, err = w.Next()
	}
	fh := segment.FrameHeader{Kind: segment.Manifest, LSN: w.LSN + 1, Durable: w.LSN, Count: 1, Prev: w.Prev}
	frame := segment.AppendFrame(nil, &fh, key, w.Offset(), payload)
	return append(append(bytes.Clone(b[:w.Offset()]), frame...), b[min(int64(len(b)), w.Offset()+int64(len(frame))):]...)
}
