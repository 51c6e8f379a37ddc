package crash

import (
	"cmp"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"durafs/internal/vfs/simdisk"
)

// Config bounds a run.
type Config struct {
	Seed uint64
	// Budget is how long the lives beyond the first crash may take, for each
	// driver; 0: 5 s. Those after the first crash may take ten times that.
	Budget time.Duration
	// StatesMax ends a driver's run when so many distinct states were judged;
	// 0: never.
	StatesMax int64
	// Workers is how many lives are led at a time; 0: one for each processor.
	Workers int
	// FailuresMax ends a run; 0: 1.
	FailuresMax int
	// Dir is where failures are written; "": nowhere.
	Dir string
	// Progress, if not nil, is called now and then.
	Progress func(Report)
}

// l1Patience is how many budgets the states after the first crash may take, on
// a machine that is busy.
const l1Patience = 4

// tasksMax bounds the states after a first crash that are kept to be judged;
// of more each has the same chance.
const tasksMax = 8 << 10

// task is a state after the first crash.
type task struct {
	disk     *simdisk.Disk
	calls    int
	hash     uint64
	warm     bool
	promises []Promise
}

// run is the run of one driver in one layer.
type run struct {
	Config
	driver *Driver
	layer  string
	begin  time.Time

	visited, judged, lives, restarts atomic.Int64
	done                             atomic.Bool
	// until is when even a life that was begun is not followed any further.
	until time.Duration

	// mu guards these.
	mu       sync.Mutex
	failures []*Failure
	seen     [64]seenShard
}

type seenShard struct {
	mu  sync.Mutex
	met map[uint64]struct{}
}

// met notes a state, and tells whether it was noted before.
func (r *run) met(h uint64) bool {
	s := &r.seen[h%64]
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, ok := s.met[h]; ok {
		return true
	}
	if s.met == nil {
		s.met = map[uint64]struct{}{}
	}
	s.met[h] = struct{}{}
	return false
}

// combine makes one number of two.
func combine(a, b uint64) uint64 { return (a ^ b*0x9e3779b97f4a7c15) * 0xff51afd7ed558ccd }

// explore is how the states after a life are found: equal ones of which as much
// is promised are one.
func (r *run) explore(l *Life, x simdisk.Explore, salt uint64) simdisk.Explore {
	x.Seed = r.Seed
	x.Seen = func(h uint64, calls int) bool {
		r.visited.Add(1)
		return r.met(combine(h, uint64(len(l.upTo(calls)))<<8+salt))
	}
	return x
}

// L1 cuts the power everywhere in a driver's life, and everywhere in the
// recoveries from that.
func L1(d *Driver, c Config) Report {
	r := newRun(d, c, "L1")
	l := d.first(r.Seed)
	journal := l.Record()
	if err := d.live(l); err != nil {
		r.fail(&Failure{Err: err, Story: []string{"no crash: the driver's first life"}})
		return r.report()
	}
	x := d.Explore
	x.Kills = true
	var tasks []task
	met, dice := 0, rand.New(rand.NewPCG(r.Seed, 2))
	e := journal.Explore(r.explore(l, x, 1))
	for s := range e.States() {
		at := met
		if met++; met > tasksMax {
			if at = dice.IntN(met); at >= tasksMax {
				continue
			}
		} else {
			tasks = append(tasks, task{})
		}
		tasks[at] = task{s.Disk(), s.Calls, s.Hash, s.Warm, l.upTo(s.Calls)}
	}
	// First each for itself, then deeper in an order that is spread.
	found := r.elapsed() // to find them takes as long as it takes
	var first atomic.Int64
	r.each(len(tasks), func(i int) {
		if r.elapsed()-found < l1Patience*r.Budget {
			first.Add(1)
			r.shallow(journal, &tasks[i])
		}
	})
	spread(tasks, r.Seed)
	r.until = r.elapsed() + r.Budget
	var deep atomic.Int64
	r.each(len(tasks), func(i int) {
		if !r.enough() {
			deep.Add(1)
			r.deeper(journal, &tasks[i])
		}
	})
	rep := r.report()
	rep.Calls, rep.First, rep.Deep = len(journal.Calls()), int(first.Load()), int(deep.Load())
	rep.Skipped = met - rep.First
	return rep
}

// enough says that a run is over, or that there is no time left.
func (r *run) enough() bool { return r.done.Load() || r.elapsed() >= r.until }

// spread brings tasks into an order of which each beginning is a fair sample,
// with those of a killed process first: they are few.
func spread(tasks []task, seed uint64) {
	rand.New(rand.NewPCG(seed, 1)).Shuffle(len(tasks), func(i, j int) { tasks[i], tasks[j] = tasks[j], tasks[i] })
	slices.SortStableFunc(tasks, func(a, b task) int { return cmp.Compare(a.rank(), b.rank()) })
}

func (t *task) rank() int {
	if t.warm {
		return 0
	}
	return 1
}

// each calls fn for all numbers below n, from several goroutines.
func (r *run) each(n int, fn func(i int)) {
	var next atomic.Int64
	var wg sync.WaitGroup
	for range r.Workers {
		wg.Go(func() {
			for !r.done.Load() {
				i := int(next.Add(1)) - 1
				if i >= n {
					return
				}
				fn(i)
			}
		})
	}
	wg.Wait()
}

// shallow judges a state after one crash.
func (r *run) shallow(j *simdisk.Journal, t *task) {
	l := after(t.disk.Clone(), 1, r.Seed, t.promises)
	if !t.warm {
		l.Forgetful()
	}
	if err := r.judge(l); err != nil {
		r.fail(r.shrunk(j, t, err))
	}
}

// deeper lets a life go on after a crash, and cuts that.
func (r *run) deeper(j *simdisk.Journal, t *task) {
	l := after(t.disk.Clone(), 1, r.Seed, t.promises)
	inner := l.Record()
	r.lives.Add(1)
	if err := r.driver.live(l); err != nil {
		r.fail(r.shrunk(j, t, err))
		return
	}
	x := r.driver.Explore
	x.Mixes = 2
	e := inner.Explore(r.explore(l, x, 2))
	for s := range e.States() {
		if r.enough() {
			return
		}
		next := after(s.Disk().Forgetful(), 2, r.Seed, l.upTo(s.Calls))
		if err := r.judge(next); err != nil {
			r.fail(r.shrunkDeep(j, t, l, inner, s, err))
			return
		}
	}
}

func (r *run) judge(l *Life) error {
	r.lives.Add(1)
	if r.StatesMax > 0 && r.judged.Load() >= r.StatesMax {
		r.done.Store(true)
	}
	r.judged.Add(1)
	return r.driver.judge(l)
}
