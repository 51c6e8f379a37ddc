package projection

import (
	"errors"
	"iter"
)

// A copy of a run begins with a committed prefix of its log. Where that ends is
// said by a call, never by a time.

// CopyKind says which prefix a copy takes.
type CopyKind string

// The kinds.
const (
	CopyBranch CopyKind = "branch" // through a call: its outcome is the last
	CopyBefore CopyKind = "before" // up to a call, without it
	CopyRevise CopyKind = "revise" // as before, and then another last message
)

// Errors of Prefix.
var (
	// ErrNoCall: the log has no such call.
	ErrNoCall = errors.New("projection: the log has no such call")
	// ErrOpenCall: a branch goes through a call, and this one has no outcome.
	ErrOpenCall = errors.New("projection: the call has no outcome yet")
	// ErrCopyKind: there is no such kind of copy.
	ErrCopyKind = errors.New("projection: no such kind of copy")
)

// Prefix is the last row of the log that a copy has, 0 for none; At of the
// events is the row of each. A call that is open there, because its outcome
// comes later in the log, has none in the copy: its history says so. Nothing
// behind the row that decides is read.
func Prefix(events iter.Seq2[Event[uint64, uint64], error], kind CopyKind, call uint64) (row uint64, err error) {
	if kind != CopyBranch && kind != CopyBefore && kind != CopyRevise {
		return 0, ErrCopyKind
	}
	claimed := false
	for e, err := range events {
		switch {
		case err != nil:
			return 0, err
		case e.Call != call:
		case !e.Outcome && kind != CopyBranch:
			return e.At - 1, nil
		case !e.Outcome:
			claimed = true
		case claimed:
			return e.At, nil
		}
	}
	if claimed {
		return 0, ErrOpenCall
	}
	return 0, ErrNoCall
}
