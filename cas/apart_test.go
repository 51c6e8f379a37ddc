package cas

import (
	"bytes"
	"context"
	"testing"
)

// What is put apart is in a pack however small it is, and is read back like any
// other; nothing at all is nowhere.
func TestPutApart(t *testing.T) {
	s := open(t, options(t, &fakeLedger{}, memDir(t)))
	for i, n := range []int{1, 100, InlineBytesMax, InlineBytesMax + 1, 200_000} {
		data := noise(uint64(i), n)
		ref, err := s.PutApart(context.Background(), bytes.NewReader(data))
		if err != nil || ref.Inline != nil || ref.Hint == (Hint{}) || ref.ID != Sum(data) {
			t.Fatalf("%d bytes: %v, %v", n, ref, err)
		}
		wantBytes(t, s, ref, data)
	}
	if ref, err := s.PutApart(context.Background(), bytes.NewReader(nil)); err != nil || ref.ID != EmptyID || ref.Hint != (Hint{}) {
		t.Errorf("nothing: %v, %v", ref, err)
	}
}
