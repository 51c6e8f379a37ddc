package wal

import (
	"bytes"
	"testing"
)

// FuzzEdits: what parses as edits of the manifest appends to the same bytes,
// and applying it fails or not, but never panics.
func FuzzEdits(f *testing.F) {
	f.Add(appendEdits(nil, []edit{
		beginSnapshot(1),
		raiseHigh{Segment: 1, Pack: 2, LSN: 3, Dropped: 4, Numbers: Numbers{5, 6, 7}},
		setSegment{ID: 1, Salt: 2, Size: 100, State: segSealed, End: 50, Last: 7, Bytes: 80},
		setPack{Seq: 1, Nonce: 2, Sealed: true, Bytes: 3},
		dropPack(1), dropSegment(1),
	}))
	f.Add([]byte{kindBegin, 1, 0, 0, 0})
	f.Add([]byte{kindSetSegment})
	f.Fuzz(func(t *testing.T, b []byte) {
		edits, err := parseEdits(b)
		if err != nil {
			return
		}
		if got := appendEdits(nil, edits); !bytes.Equal(got, b) {
			t.Fatalf("%v is appended as other bytes", edits)
		}
		s := newManifestState()
		for _, e := range edits {
			if e.apply(&s) != nil {
				return
			}
		}
	})
}
