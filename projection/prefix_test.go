package projection

import (
	"errors"
	"io"
	"iter"
	"testing"
)

// rowsOf is a log of calls: positive is a claim in the next row, negative an
// outcome.
func rowsOf(calls ...int) iter.Seq2[Event[uint64, uint64], error] {
	return func(yield func(Event[uint64, uint64], error) bool) {
		for i, c := range calls {
			e := Event[uint64, uint64]{Call: uint64(max(c, -c)), Outcome: c < 0, At: uint64(i + 1)}
			if c == 0 {
				yield(e, io.ErrUnexpectedEOF)
				return
			}
			if !yield(e, nil) {
				return
			}
		}
	}
}

func TestPrefix(t *testing.T) {
	log := []int{1, 2, -1, 3, 3 /* again */, -2, -3, 4}
	for _, c := range []struct {
		kind CopyKind
		call uint64
		row  uint64
		err  error
	}{
		{CopyBranch, 1, 3, nil},
		{CopyBranch, 2, 6, nil},
		{CopyBranch, 3, 7, nil},
		{CopyBranch, 4, 0, ErrOpenCall},
		{CopyBranch, 5, 0, ErrNoCall},
		{CopyBefore, 1, 0, nil},
		{CopyBefore, 2, 1, nil},
		{CopyBefore, 3, 3, nil},
		{CopyRevise, 4, 7, nil},
		{CopyRevise, 5, 0, ErrNoCall},
		{"all", 1, 0, ErrCopyKind},
	} {
		row, err := Prefix(rowsOf(log...), c.kind, c.call)
		if row != c.row || !errors.Is(err, c.err) {
			t.Errorf("%s %d: row %d, %v; want %d, %v", c.kind, c.call, row, err, c.row, c.err)
		}
	}
	if row, err := Prefix(rowsOf(1, -1, 0), CopyBranch, 1); row != 2 || err != nil {
		t.Errorf("it read on: %d, %v", row, err)
	}
	if _, err := Prefix(rowsOf(1, 0, -1), CopyBranch, 1); err != io.ErrUnexpectedEOF {
		t.Errorf("an error of the log became %v", err)
	}
}

// The history of a copy is what the history of its source was there: a prefix
// of the log folds to a prefix of the calls, with the same results.
func TestPrefixIsAHistory(t *testing.T) {
	log := []int{1, 2, -1, 3, -2, -3, 4}
	for call := uint64(1); call <= 3; call++ {
		row, err := Prefix(rowsOf(log...), CopyBranch, call)
		if err != nil {
			t.Fatal(err)
		}
		whole, _ := Fold(rowsOf(log...))
		part, _ := Fold(rowsOf(log[:row]...))
		for i, p := range part {
			if p.Claim != whole[i].Claim || p.Settled && p != whole[i] || !p.Settled && whole[i].Settled && whole[i].Outcome <= row {
				t.Errorf("branch %d: call %d is %+v, in the source %+v", call, i+1, p, whole[i])
			}
		}
	}
}
