package vfs

import (
	"errors"
	"io/fs"
	"sync"
)

// Mode says what happens to a call that fails.
type Mode uint8

const (
	// NotDone: the call is not made.
	NotDone Mode = iota
	// Done: the call is made, and its error is a lie. So does a disk whose
	// answer got lost: what failed may have happened.
	Done
	// Half: the first half of a read or write is made; other calls are not
	// made.
	Half
)

// Modes are all of them, for tests that go through each.
var Modes = []Mode{NotDone, Done, Half}

func (m Mode) String() string {
	return [...]string{"not done", "done", "half done"}[m]
}

// Fault fails calls.
type Fault struct {
	// Ops are the calls that count, and Match narrows them; nil is no
	// narrowing. Match is called under a lock and must not use the FS.
	Ops   Op
	Match func(Call) bool
	// Nth is the number of the call that fails, the first is 1.
	Nth int
	// Sticky lets every call after the Nth fail too, until Clear: a disk that
	// is full, or gone.
	Sticky bool
	Mode   Mode
	// Err is what the call returns, wrapped in *fs.PathError.
	Err error
}

// Faulty is an FS whose calls fail as a test wants it. A test first runs
// without a fault and asks Count how many calls there were, and then runs
// again for each of them with that one failing.
type Faulty struct {
	FS

	// mu guards the fields below.
	mu     sync.Mutex
	faults []*faultState
	counts map[Op]int
	fired  []Call
}

type faultState struct {
	Fault
	seen int
}

// NewFaulty passes calls on to inner until a fault is injected.
func NewFaulty(inner FS) *Faulty {
	f := &Faulty{counts: map[Op]int{}}
	f.FS = Hooked(inner, f.around)
	return f
}

// Inject adds a fault; its count begins here. It panics on a fault that could
// never fire.
func (f *Faulty) Inject(fault Fault) {
	if fault.Nth < 1 || fault.Err == nil || fault.Ops&OpAll == 0 {
		panic("vfs: a fault needs Ops, Nth from 1 and Err")
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.faults = append(f.faults, &faultState{Fault: fault})
}

// Clear takes all faults away. Fired and Count keep what they have.
func (f *Faulty) Clear() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.faults = nil
}

// Count tells how many calls of these ops began so far.
func (f *Faulty) Count(ops Op) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	n := 0
	for op, c := range f.counts {
		if op&ops != 0 {
			n += c
		}
	}
	return n
}

// Fired returns the calls that failed by a fault. A test that injects and
// finds nothing here has tested nothing.
func (f *Faulty) Fired() []Call {
	f.mu.Lock()
	defer f.mu.Unlock()
	return append([]Call(nil), f.fired...)
}

func (f *Faulty) around(c Call, do func(int64) error) error {
	fault, hit := f.next(c)
	if !hit {
		return do(Whole)
	}
	switch {
	case fault.Mode == Done:
		if err := do(Whole); err != nil {
			return err // failed by itself
		}
	case fault.Mode == Half && c.Op&(OpRead|OpReadUncached|OpWrite) != 0:
		if err := do(c.Len / 2); err != nil {
			return err
		}
	}
	return pathError(c, fault.Err)
}

// next counts the call and finds the fault that hits it.
func (f *Faulty) next(c Call) (hit Fault, ok bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.counts[c.Op]++
	for _, s := range f.faults {
		if s.Ops&c.Op == 0 || (s.Match != nil && !s.Match(c)) {
			continue
		}
		s.seen++
		if !ok && (s.seen == s.Nth || (s.Sticky && s.seen > s.Nth)) {
			hit, ok = s.Fault, true
			c.Err = s.Err
			f.fired = append(f.fired, c)
		}
	}
	return hit, ok
}

func pathError(c Call, err error) error {
	var pe *fs.PathError
	if errors.As(err, &pe) {
		return err
	}
	return &fs.PathError{Op: c.Op.String(), Path: c.Name, Err: err}
}
