package vfs

import (
	"fmt"
	"path"
	"strings"
	"sync"
)

// Recorder is an FS that passes every call on and keeps it, so that a test can
// say in which order the store made its system calls.
type Recorder struct {
	FS
	root string

	// mu guards seq and calls.
	mu    sync.Mutex
	seq   int
	calls []Call
}

// NewRecorder records the calls to inner. In what is recorded, names below the
// directory root are relative to it.
func NewRecorder(inner FS, root string) *Recorder {
	r := &Recorder{root: strings.TrimSuffix(root, "/")}
	r.FS = Hooked(inner, r.record)
	return r
}

func (r *Recorder) record(c Call, do func(int64) error) error {
	r.mu.Lock()
	r.seq++
	c.Begin = r.seq
	r.mu.Unlock()

	err := do(Whole)

	c.Name, c.To, c.Err = r.relative(c.Name), r.relative(c.To), err
	r.mu.Lock()
	defer r.mu.Unlock()
	r.seq++
	c.End = r.seq
	r.calls = append(r.calls, c)
	return err
}

func (r *Recorder) relative(name string) string {
	if rest, ok := strings.CutPrefix(name, r.root+"/"); ok {
		return rest
	}
	if name == r.root && name != "" {
		return "."
	}
	return name
}

// Calls returns what was recorded so far, in the order in which the calls
// returned.
func (r *Recorder) Calls() []Call {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]Call(nil), r.calls...)
}

// Reset forgets what was recorded.
func (r *Recorder) Reset() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.calls = nil
}

// String is all calls, one a line.
func (r *Recorder) String() string { return Transcript(r.Calls()) }

// Transcript writes calls one a line.
func Transcript(calls []Call) string {
	var b strings.Builder
	for _, c := range calls {
		fmt.Fprintln(&b, c)
	}
	return b.String()
}

// A Pattern selects calls: their ops, and what their name is like (path.Match
// on the recorded name; "" is any). A rename is also selected by its new name.
type Pattern struct {
	Ops  Op
	Name string
}

// Matches reports whether the pattern selects the call.
func (p Pattern) Matches(c Call) bool {
	if c.Op&p.Ops == 0 {
		return false
	}
	if p.Name == "" {
		return true
	}
	for _, name := range []string{c.Name, c.To} {
		if ok, _ := path.Match(p.Name, name); ok {
			return true
		}
	}
	return false
}

func (p Pattern) String() string {
	if p.Name == "" {
		return p.Ops.String()
	}
	return p.Ops.String() + " " + p.Name
}

// Find returns the calls that p selects, in the order in which they returned.
func (r *Recorder) Find(p Pattern) []Call {
	var found []Call
	for _, c := range r.Calls() {
		if p.Matches(c) {
			found = append(found, c)
		}
	}
	return found
}

// InOrder returns nil if there are successful calls, one for each step, of
// which each had returned before the next one began; else an error that names
// the first step that is missing and shows the transcript. Other calls may
// stand between.
func (r *Recorder) InOrder(steps ...Pattern) error {
	after := 0
	for i, p := range steps {
		best := -1
		for _, c := range r.Find(p) {
			if c.Err == nil && c.Begin > after && (best < 0 || c.End < best) {
				best = c.End
			}
		}
		if best < 0 {
			return fmt.Errorf("step %d, %v, is not there after the steps before it, in:\n%s", i+1, p, r)
		}
		after = best
	}
	return nil
}

// Precedes returns nil if before any call that later selects began, some
// successful call that earlier selects had returned; else an error that shows
// the transcript. It is also an error if later selects nothing, since then the
// test looks for the wrong call.
func (r *Recorder) Precedes(earlier, later Pattern) error {
	calls := r.Find(later)
	if len(calls) == 0 {
		return fmt.Errorf("no call is like %v in:\n%s", later, r)
	}
	for _, c := range calls {
		if !endedBefore(r.Find(earlier), c) {
			return fmt.Errorf("%v before %v did not happen in:\n%s", earlier, c, r)
		}
	}
	return nil
}

func endedBefore(calls []Call, later Call) bool {
	for _, c := range calls {
		if c.Err == nil && c.End < later.Begin {
			return true
		}
	}
	return false
}
