package crash

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"durafs/cas"
	"durafs/internal/vfs"
	"durafs/internal/vfs/simdisk"
	"durafs/runs"
	"durafs/wal"
)

// fullDisk is what befalls a life whose disk becomes full, and what it has to
// do about it.
type fullDisk struct {
	// barrier says that a barrier failed for lack of space too: then the process
	// may give up, as after any failed barrier.
	barrier bool
	// before is called when the life has done its work and the disk is still
	// full, right before there is space again.
	before func()

	// mu guards these: a life may have several callers.
	mu       sync.Mutex
	refusals int
	last     error // of the refusals
	found    error // the first thing that must not be

	// resumed is the life's own.
	resumed bool
}

// refused notes what a caller was told, and returns it. On a disk that is full
// every refusal has to be one that its caller can tell from others.
func (l *Life) refused(err error) error {
	if l.full == nil || err == nil {
		return err
	}
	l.full.mu.Lock()
	l.full.refusals++
	l.full.last = err
	l.full.mu.Unlock()
	if !l.full.allows(err) {
		l.wrong(fmt.Errorf("a refusal on a full disk is not told as one: %w", err))
	}
	return err
}

// notOpened notes that an open failed. Who starts a process is told by the
// operating system's own error what is missing.
func (l *Life) notOpened(err error) {
	if l.full != nil && errors.Is(err, syscall.ENOSPC) && !l.full.allows(err) {
		err = &wal.NoSpaceError{Err: err}
	}
	l.refused(err)
}

// mustEnd says that the disk is full and no more than that: what runs can be
// ended all the same.
func (l *Life) mustEnd() bool {
	return l.full != nil && !l.full.barrier && l.Filled()
}

// wrong notes what must not happen on a full disk; nil is nothing.
func (l *Life) wrong(err error) {
	l.full.mu.Lock()
	defer l.full.mu.Unlock()
	if l.full.found == nil {
		l.full.found = err
	}
}

// isWrong is what must not have happened, if something did.
func (f *fullDisk) isWrong() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.found
}

// allows says whether an error is one of those that a full disk may lead to.
func (f *fullDisk) allows(err error) bool {
	_, inLog := errors.AsType[*wal.NoSpaceError](err)
	_, inChunks := errors.AsType[*cas.NoSpaceError](err)
	switch {
	case inLog, inChunks, errors.Is(err, wal.ErrBusy):
		return true
	case runs.CodeOf(err) != "":
		return true // what was refused before is missing now
	case f.barrier:
		return errors.Is(err, wal.ErrPoisoned) || errors.Is(err, wal.ErrUnknown) || errors.Is(err, cas.ErrPoisoned)
	}
	return false
}

// resumes gives the disk its space back, if it became full, and lets the same
// process try until what was refused is done again.
func (l *Life) resumes(again func() error) {
	f := l.full
	if f == nil || f.resumed || !l.Filled() {
		return
	}
	f.resumed = true
	if f.before != nil {
		f.before()
	}
	l.SetCapacity(0)
	begin := time.Now()
	for pause := time.Millisecond; ; pause = min(2*pause, resumePauseMax) {
		err := l.refused(again())
		switch {
		case err == nil, f.barrier, f.isWrong() != nil:
			return
		case time.Since(begin) > resumeMax:
			l.wrong(fmt.Errorf("there is space again, and work does not go on by itself: %w", err))
			return
		}
		tick := time.NewTimer(pause)
		<-tick.C
	}
}

const (
	// resumeMax is how long a process may take to find out that there is space.
	resumeMax      = 15 * time.Second
	resumePauseMax = 4 * time.Millisecond
	// spaceRetry is how often a store on a full disk looks for space.
	spaceRetry = 4 * time.Millisecond
)

// filling is one way in which a disk becomes full.
type filling struct {
	call vfs.Call
	n    int
	// inodes: none of these is left either. barrier: the call, a barrier, finds
	// no space; some of what it was to write is there.
	inodes, barrier bool
}

func (f *filling) String() string {
	s := fmt.Sprintf("the disk is full from call %d, %v", f.n, f.call)
	switch {
	case f.inodes:
		s += ", and nothing can be created"
	case f.barrier:
		s += ", which is told so"
	}
	return s
}

// fillingsOf are the moments at which a disk may become full.
func fillingsOf(n int, c vfs.Call) []filling {
	switch {
	case c.Op == vfs.OpWrite:
		return []filling{{call: c, n: n}}
	case c.Op&(vfs.OpCreate|vfs.OpMkdir) != 0:
		return []filling{{call: c, n: n}, {call: c, n: n, inodes: true}}
	case c.Op == vfs.OpDatasync:
		return []filling{{call: c, n: n, barrier: true}}
	}
	return nil
}

// Full lets the disk become full at every write, every creation and every
// barrier of a driver's life. The life goes on: what has no room is refused as
// such, what runs is ended from what is set aside, and when there is space again
// the same process goes on by itself. Meanwhile, and then, a next process opens
// what there is, on the page cache as it is or after a power cut.
func Full(d *Driver, c Config) Report {
	r := newRun(d, c, "full")
	r.until = r.Budget
	if c.Workers == 0 {
		r.Workers = fullWorkers
	}
	l := d.first(r.Seed)
	l.full = &fullDisk{}
	calls, err := r.callsOf(l)
	if err != nil {
		return r.report()
	}
	var all []filling
	for n, call := range calls {
		all = append(all, fillingsOf(n, call)...)
	}
	rand.New(rand.NewPCG(r.Seed, 3)).Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	var done, opened atomic.Int64
	r.each(len(all), func(i int) {
		if r.elapsed() < r.Budget {
			done.Add(1)
			opened.Add(r.filled(&all[i], i))
		}
	})
	rep := r.report()
	rep.Calls, rep.First, rep.Deep, rep.Opened = len(calls), len(all), int(done.Load()), int(opened.Load())
	return rep
}

// fullWorkers lives are led at a time: most of each is a wait for space.
const fullWorkers = 16

// filled leads a life on a disk that becomes full, and those after it. opened
// counts the opens that found what they need on the full disk.
func (r *run) filled(f *filling, i int) (opened int64) {
	l := r.driver.first(r.Seed)
	l.Faulty = true
	var held []held
	hold := func() {
		if l.Filled() {
			held = append(held, heldOf(l))
		}
	}
	l.full = &fullDisk{barrier: f.barrier, before: hold}
	l.FillFrom(f.n, f.inodes)
	if f.barrier {
		one := fault{n: f.n, call: f.call, how: simdisk.Fault{Err: syscall.ENOSPC, Keep: simdisk.Keep{Kind: simdisk.KeepMix, Seed: r.Seed}}}
		one.inject(l.Disk)
	}
	journal := l.Record()
	r.lives.Add(1)
	if err := errors.Join(r.driver.live(l), l.full.isWrong()); err != nil {
		r.fail(&Failure{Err: err, Story: []string{f.String()}, Calls: transcript(journal, len(journal.Calls()))})
		return 0
	}
	hold()
	held = append(held, heldOf(l))
	for _, h := range held {
		ok, err := r.heldJudged(h)
		opened += ok
		if err != nil {
			r.fail(&Failure{Err: err, Depth: 1, Promises: h.promises, Disk: h.disk, Story: []string{f.String(), "then the next process opens it"}, Calls: transcript(journal, len(journal.Calls()))})
			return opened
		}
	}
	if i%fullCutEach == 0 {
		r.fullCut(f, i, l, journal)
	}
	return opened
}

// held is a disk and what was promised of it, at a moment of a life.
type held struct {
	disk     *simdisk.Disk
	promises []Promise
}

func heldOf(l *Life) held {
	l.mu.Lock()
	defer l.mu.Unlock()
	return held{l.Clone(), l.promises[:len(l.promises):len(l.promises)]}
}

// heldJudged opens a disk as it is, full or not, and once more with space.
func (r *run) heldJudged(h held) (opened int64, err error) {
	if h.disk.Filled() {
		full := after(h.disk.Clone(), 1, r.Seed, h.promises)
		full.Faulty, full.full = true, &fullDisk{}
		r.lives.Add(1)
		r.judged.Add(1)
		paid := r.paid(full.Disk) && !full.Inodeless()
		err := errors.Join(r.driver.judge(full), full.full.isWrong())
		if err == nil && paid && full.full.refusals > 0 {
			err = fmt.Errorf("it is not opened, though space was set aside: %w", full.full.last)
		}
		if err != nil {
			return 0, fmt.Errorf("while the disk is full: %w", err)
		}
		if full.full.refusals == 0 {
			opened = 1
		}
		h.disk = full.Clone() // what that open left
	}
	h.disk.SetCapacity(0)
	r.lives.Add(1)
	r.judged.Add(1)
	if err := r.driver.judge(after(h.disk, 1, r.Seed, h.promises)); err != nil {
		return opened, fmt.Errorf("with space again: %w", err)
	}
	return opened, nil
}

// paid tells whether all that is set aside for an open on a full disk is there:
// not where a driver sets nothing aside.
func (r *run) paid(disk *simdisk.Disk) bool {
	for name, bytes := range r.driver.Ballasts {
		if info, err := disk.Stat(name); err != nil || info.Size < bytes {
			return false
		}
	}
	return len(r.driver.Ballasts) > 0
}

// fullCutEach says after which of such lives the power is cut too: each 4th.
const fullCutEach = 4

// fullCut cuts the power in such a life, at places behind the call that filled
// the disk; what is left is opened on a disk that is full, and on one that is
// not.
func (r *run) fullCut(f *filling, i int, l *Life, journal *simdisk.Journal) {
	x := r.driver.Explore
	x.Mixes, x.Every = 1, 11
	x.From = min(firstFailure(journal), len(journal.Calls())-1) + i/fullCutEach%x.Every
	e := journal.Explore(r.explore(l, x, uint64(i)<<20))
	for s := range e.States() {
		if r.enough() {
			return
		}
		h := held{s.Disk().Forgetful(), l.upTo(s.Calls)}
		h.disk.Fill()
		if _, err := r.heldJudged(h); err != nil {
			r.fail(&Failure{
				Err: err, Depth: 1, Promises: h.promises, Disk: s.Disk(),
				Story: []string{f.String(), "crash 1: " + s.String()}, Calls: transcript(journal, s.Calls),
			})
			return
		}
	}
}
