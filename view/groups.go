package view

import (
	"cmp"
	"slices"
	"sync"
	"time"

	"durafs/runs"
)

// groups lists runs by something that a run is given once (its day, its
// thread). It reads on from where it stopped whenever it is asked: nothing has
// to tell it of a new run, and opening a store costs nothing here.
type groups[K comparable] struct {
	// of is what a run is grouped by; false if it is in no group. rank orders
	// the groups, and is stable but for a group that gets an earlier run.
	of   func(runs.Run) (K, bool)
	rank func(*group[K]) uint32

	// mu guards all below. A group's refs are appended to, or replaced as a
	// whole, so a slice taken under mu may be read without it.
	mu    sync.Mutex
	next  runs.Ref // the first run not yet seen, 0 for 1
	known map[K]*group[K]
	order []*group[K] // by rank

	// missing are numbers behind next that were no run when they were passed:
	// a start that was refused, or one whose number was published after a
	// higher one. They are asked for again until they are gapBack behind.
	missing []runs.Ref
}

// gapBack is how far behind the newest run a number may still be on its way;
// many times what the log keeps in flight.
const gapBack = 1 << 16

type group[K comparable] struct {
	key   K
	refs  []runs.Ref // ascending, never empty
	mtime time.Time
}

// catchUp reads the runs admitted since the last call. mu is held.
func (x *groups[K]) catchUp(src Source) {
	if x.known == nil {
		x.known, x.next = make(map[K]*group[K]), 1
	}
	x.missing = slices.DeleteFunc(x.missing, func(ref runs.Ref) bool {
		r, ok := src.Info(ref)
		if ok {
			x.add(r)
		}
		return ok || ref+gapBack < x.next
	})
	for newest := src.Newest(); x.next <= newest; x.next++ {
		if r, ok := src.Info(x.next); ok {
			x.add(r)
		} else {
			x.missing = append(x.missing, x.next)
		}
	}
}

func (x *groups[K]) add(r runs.Run) {
	key, ok := x.of(r)
	if !ok {
		return
	}
	g := x.known[key]
	switch {
	case g == nil:
		g = &group[K]{key: key, refs: []runs.Ref{r.Ref}}
		x.known[key] = g
		x.enter(g)
	case g.refs[len(g.refs)-1] < r.Ref:
		g.refs = append(g.refs, r.Ref)
	default:
		at, _ := slices.BinarySearch(g.refs, r.Ref)
		x.order = slices.Delete(x.order, x.at(x.rank(g)), x.at(x.rank(g))+1)
		g.refs = slices.Insert(slices.Clone(g.refs), at, r.Ref)
		x.enter(g)
	}
	g.mtime = later(g.mtime, r.StartedAt)
}

// enter puts a group in its place in the order.
func (x *groups[K]) enter(g *group[K]) {
	x.order = slices.Insert(x.order, x.at(x.rank(g)), g)
}

// at is the place of the first group whose rank is rank or higher.
func (x *groups[K]) at(rank uint32) int {
	at, _ := slices.BinarySearchFunc(x.order, rank, func(g *group[K], want uint32) int {
		return cmp.Compare(x.rank(g), want)
	})
	return at
}

// find tells the runs of a group and when the last one came.
func (x *groups[K]) find(src Source, key K) (group[K], bool) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.catchUp(src)
	g := x.known[key]
	if g == nil {
		return group[K]{}, false
	}
	return *g, true
}

// from lists groups from a rank on, at most limit.
func (x *groups[K]) from(src Source, rank uint32, limit int) []group[K] {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.catchUp(src)
	rest := x.order[x.at(rank):]
	list := make([]group[K], 0, min(limit, len(rest)))
	for _, g := range rest[:min(limit, len(rest))] {
		list = append(list, *g)
	}
	return list
}

// listedAtOnce is how many groups, threads or runs are taken from an index at a
// time, under its lock.
const listedAtOnce = 1024
