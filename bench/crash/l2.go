package crash

import (
	"math/rand/v2"
	"sync/atomic"

	"durafs/internal/vfs"
	"durafs/internal/vfs/simdisk"
)

// L2 lets every call of a driver's life fail, in each way. The process that met
// the failure goes on; what it acknowledged must be there when the next one
// opens, on the page cache as it is or after a power cut, and after a power cut
// of that one.
func L2(d *Driver, c Config) Report {
	r := newRun(d, c, "L2")
	r.until = (l2Patience + 1) * r.Budget
	calls, err := r.callsOf(d.first(r.Seed))
	if err != nil {
		return r.report()
	}
	var faults []fault
	for n, call := range calls {
		faults = append(faults, faultsOf(n, call, r.Seed)...)
	}
	rand.New(rand.NewPCG(r.Seed, 2)).Shuffle(len(faults), func(i, j int) { faults[i], faults[j] = faults[j], faults[i] })
	syncsFirst(faults)
	var done atomic.Int64
	r.each(len(faults), func(i int) {
		if r.elapsed() < l2Patience*r.Budget {
			done.Add(1)
			r.faulty(&faults[i], i)
		}
	})
	rep := r.report()
	rep.Calls, rep.First, rep.Deep = len(calls), len(faults), int(done.Load())
	return rep
}

// callsOf are all calls of a life in which nothing fails.
func (r *run) callsOf(l *Life) ([]vfs.Call, error) {
	var calls []vfs.Call
	l.SetFault(func(_ int, c vfs.Call) *simdisk.Fault {
		calls = append(calls, c)
		return nil
	})
	err := r.driver.live(l)
	if err != nil {
		r.fail(&Failure{Err: err, Story: []string{"no fault: the driver's first life"}})
	}
	return calls, err
}

// syncsFirst brings some faults to the front in which a sync fails once: what
// they lead to is judged however little time there is.
func syncsFirst(faults []fault) {
	const most = 12
	n := 0
	for i := range faults {
		if n < most && faults[i].syncOnce() {
			faults[n], faults[i] = faults[i], faults[n]
			n++
		}
	}
}

// l2Patience is how many budgets the faults of a driver may take; those that
// there is no time for are not counted as done.
const l2Patience = 2

// faulty leads a life with a fault, and those after it.
func (r *run) faulty(f *fault, i int) {
	l := r.driver.first(r.Seed)
	l.Faulty = true
	f.inject(l.Disk)
	journal := l.Record()
	r.lives.Add(1)
	if err := r.driver.live(l); err != nil {
		r.fail(&Failure{Err: err, Story: []string{"fault: " + f.String()}, Calls: transcript(journal, len(journal.Calls()))})
		return
	}
	if !r.restarted(f, i, l, journal) {
		return
	}
	// The power goes: at the end, and at some calls after the fault.
	end := len(journal.Calls())
	x := r.driver.Explore
	x.Mixes = 2
	x.From = end
	if r.deepTurn(i) {
		x.From, x.Every = firstFailure(journal), 3
	}
	e := journal.Explore(r.explore(l, x, uint64(i)<<20))
	for s := range e.States() {
		if r.enough() {
			return
		}
		promises := l.upTo(s.Calls)
		if err := r.judge(after(s.Disk().Forgetful(), 1, r.Seed, promises)); err != nil {
			s = s.Shrink(func(d *simdisk.Disk) bool { return r.driver.judge(after(d, 1, r.Seed, promises)) != nil })
			r.fail(&Failure{
				Err: err, Depth: 1, Promises: promises, Disk: s.Disk(),
				Story: []string{"fault: " + f.String(), "crash 1: " + s.String()}, Calls: transcript(journal, s.Calls),
			})
			return
		}
	}
}

// deepTurn says whether what follows on the i-th fault is cut at more places: as
// long as there is time, and for the first ones always.
func (r *run) deepTurn(i int) bool { return i%4 == 0 && r.elapsed() < r.Budget }

func firstFailure(j *simdisk.Journal) int {
	for i, c := range j.Calls() {
		if c.Err != nil && c.Op != vfs.OpRemove {
			return i
		}
	}
	return len(j.Calls())
}

// restarted starts a process on the page cache as it is, and cuts the power in
// its life.
func (r *run) restarted(f *fault, i int, l *Life, journal *simdisk.Journal) bool {
	warm := l.Clone()
	next := after(warm.Clone(), 1, r.Seed, l.Promises())
	inner := next.Record()
	story := []string{"fault: " + f.String(), "crash 1: the process ended; the page cache is there"}
	r.judged.Add(1)
	r.lives.Add(1)
	if err := r.driver.live(next); err != nil {
		r.fail(&Failure{Err: err, Depth: 1, Promises: l.Promises(), Disk: warm, Story: story, Calls: transcript(journal, len(journal.Calls()))})
		return false
	}
	x := r.driver.Explore
	x.Mixes, x.Every, x.From = 1, 7, i%7
	if !r.deepTurn(i) {
		x.From = len(inner.Calls())
	}
	e := inner.Explore(r.explore(next, x, uint64(i)<<20|1))
	for s := range e.States() {
		if r.enough() {
			return false
		}
		promises := next.upTo(s.Calls)
		if f.syncOnce() {
			r.restarts.Add(1)
		}
		if err := r.judge(after(s.Disk().Forgetful(), 2, r.Seed, promises)); err != nil {
			s = s.Shrink(func(d *simdisk.Disk) bool { return r.driver.judge(after(d, 2, r.Seed, promises)) != nil })
			calls := append(transcript(journal, len(journal.Calls())), "-- the process ended, the next one begins --")
			r.fail(&Failure{
				Err: err, Depth: 2, Promises: promises, Disk: s.Disk(),
				Story: append(story, "crash 2: "+s.String()), Calls: append(calls, transcript(inner, s.Calls)...),
			})
			return false
		}
	}
	return true
}
