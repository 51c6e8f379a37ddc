package crash

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"durafs/internal/vfs"
	"durafs/internal/vfs/simdisk"
)

// Failure is a state that a driver judged to be wrong.
type Failure struct {
	Driver string
	Layer  string
	Seed   uint64
	// Story tells how the state came about, crash by crash.
	Story []string
	// Calls are the system calls that led there.
	Calls []string
	// Promises are what was promised of the disk.
	Promises []Promise
	Depth    int
	Disk     *simdisk.Disk
	// Judged is the number of states that were judged when it was found.
	Judged int64
	Error  string
	Err    error `json:"-"`
	// File is where it was written, for Replay.
	File string `json:"-"`
}

func (f *Failure) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s, %s, seed %d: %s\n", f.Driver, f.Layer, f.Seed, f.Error)
	if f.File != "" {
		fmt.Fprintf(&b, "again: go test ./bench/crash -run '^TestReplay$' -args -replay %s\n", f.File)
	}
	for _, s := range f.Story {
		fmt.Fprintln(&b, s)
	}
	const most = 60
	calls := f.Calls
	if len(calls) > most {
		fmt.Fprintf(&b, "… %d calls\n", len(calls)-most)
		calls = calls[len(calls)-most:]
	}
	for _, c := range calls {
		fmt.Fprintln(&b, " ", c)
	}
	return b.String()
}

// shrunk is the failure of a state after the first crash.
func (r *run) shrunk(j *simdisk.Journal, t *task, err error) *Failure {
	f := &Failure{Err: err, Depth: 1, Promises: t.promises, Disk: t.disk, Story: []string{"crash 1: " + t.String()}}
	if t.warm {
		f.Calls = transcript(j, t.calls)
		return f
	}
	x := r.driver.Explore
	x.Seed, x.From, x.To = r.Seed, t.calls, t.calls+1
	e := j.Explore(x)
	for s := range e.States() {
		if s.Hash != t.hash {
			continue
		}
		s = s.Shrink(func(d *simdisk.Disk) bool {
			l := after(d, 1, r.Seed, t.promises)
			l.Record()
			return r.driver.live(l) != nil
		})
		f.Disk, f.Story = s.Disk(), []string{"crash 1: " + s.String()}
		break
	}
	f.Calls = transcript(j, t.calls)
	return f
}

func (t *task) String() string {
	if t.warm {
		return fmt.Sprintf("the process was killed after %d calls; the page cache is there", t.calls)
	}
	return fmt.Sprintf("the power went after %d calls", t.calls)
}

// shrunkDeep is the failure of a state after the second crash.
func (r *run) shrunkDeep(j *simdisk.Journal, t *task, l *Life, inner *simdisk.Journal, s *simdisk.State, err error) *Failure {
	promises := l.upTo(s.Calls)
	s = s.Shrink(func(d *simdisk.Disk) bool {
		return r.driver.judge(after(d, 2, r.Seed, promises)) != nil
	})
	calls := append(transcript(j, t.calls), "-- crash 1, recovery begins --")
	return &Failure{
		Err: err, Depth: 2, Promises: promises, Disk: s.Disk(),
		Story: []string{"crash 1: " + t.String(), "crash 2: " + s.String()},
		Calls: append(calls, transcript(inner, s.Calls)...),
	}
}

func transcript(j *simdisk.Journal, n int) []string {
	var lines []string
	for _, c := range j.Calls()[:n] {
		lines = append(lines, vfs.Call.String(c))
	}
	return lines
}

// fail notes a failure, and ends the run where there are enough.
func (r *run) fail(f *Failure) {
	f.Driver, f.Layer, f.Seed, f.Judged = r.driver.Name, r.layer, r.Seed, r.judged.Load()
	f.Error = f.Err.Error()
	r.mu.Lock()
	defer r.mu.Unlock()
	r.failures = append(r.failures, f)
	if len(r.failures) >= r.FailuresMax {
		r.done.Store(true)
	}
	if r.Dir != "" && f.Disk != nil {
		f.File = filepath.Join(r.Dir, fmt.Sprintf("crash-%s-%s-%d.json", r.driver.Name, r.layer, len(r.failures)))
		err := os.MkdirAll(r.Dir, 0o700)
		b, jsonErr := json.Marshal(f)
		if err = errors.Join(err, jsonErr); err == nil {
			err = os.WriteFile(f.File, b, 0o600)
		}
		if err != nil {
			f.File = ""
		}
	}
}

// Replay judges the state in a file that a failure left, with the driver of
// that name, and returns what is wrong with it.
func Replay(file string, drivers []*Driver) error {
	b, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	var f Failure
	if err := json.Unmarshal(b, &f); err != nil {
		return fmt.Errorf("%s: %w", file, err)
	}
	for _, d := range drivers {
		if d.Name == f.Driver && f.Disk != nil {
			return d.live(after(f.Disk, f.Depth, f.Seed, f.Promises))
		}
	}
	return fmt.Errorf("%s: there is no driver %q", file, f.Driver)
}
