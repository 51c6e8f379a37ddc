package simdisk

import (
	"iter"
)

// Explore says which crash states of a journal are wanted. The zero value is
// made for workloads of some hundred calls.
type Explore struct {
	// Seed is that of the random mixes, of which there are Mixes at each call;
	// 0: 4, and -1: none.
	Seed  uint64
	Mixes int
	// ExhaustAtoms is up to how many sectors, sizes and names that are pending
	// all combinations are tried; 0: 6.
	ExhaustAtoms int
	// HeadBytes are lengths of the beginning of a write that are of interest,
	// say those of a header, beside the usual ones.
	HeadBytes []int64
	// From and To bound the calls, [From, To); To 0: all. Every is a stride over
	// them: 0 and 1 each.
	From, To, Every int
	// Kills yields, at each call, also the disk of a process that was killed
	// there, page cache and all (State.Warm).
	Kills bool
	// Seen, if not nil, says whether a state with this hash, after so many
	// calls, was met before, and notes it. nil: states of equal hash are one.
	Seen func(hash uint64, calls int) bool
}

// State is a disk as it may be found.
type State struct {
	// Calls is how many calls of the journal were made for certain.
	Calls int
	// Hash tells states apart, of one process; the number of calls is in it
	// only where Warm.
	Hash uint64
	// Warm says that only the process ended: the page cache is there.
	Warm bool

	e    *Explorer
	plan *plan
}

// Explorer goes through a journal. It is not for concurrent use.
type Explorer struct {
	Explore
	// Visited counts the states that were looked at, and Yielded those that had
	// not been met before.
	Visited, Yielded int

	journal *Journal
	core    core
	at      int // calls that are made on core
	point   point
	seen    map[uint64]bool
	yield   func(*State) bool
}

// Explore makes an explorer of the journal.
func (j *Journal) Explore(x Explore) *Explorer {
	if x.Mixes == 0 {
		x.Mixes = 4
	}
	if x.ExhaustAtoms == 0 {
		x.ExhaustAtoms = 6
	}
	if x.Every < 1 {
		x.Every = 1
	}
	if x.To == 0 || x.To > len(j.entries) {
		x.To = len(j.entries)
	}
	e := &Explorer{Explore: x, journal: j, core: j.base.clone()}
	if e.Seen == nil {
		e.seen = map[uint64]bool{}
		e.Seen = func(h uint64, _ int) bool {
			met := e.seen[h]
			e.seen[h] = true
			return met
		}
	}
	return e
}

// States yields the states, each until the next is asked for; State.Disk is
// good for longer. It can be ranged over once.
func (e *Explorer) States() iter.Seq[*State] {
	return func(yield func(*State) bool) {
		e.yield = yield
		for e.at <= e.To {
			if e.at >= e.From && (e.at-e.From)%e.Every == 0 && !e.visit() {
				return
			}
			if !e.step() {
				return
			}
		}
	}
}

// step makes the next call of the journal.
func (e *Explorer) step() bool {
	if e.at >= len(e.journal.entries) {
		return false
	}
	next := &e.journal.entries[e.at]
	e.point.last, e.point.before = nil, content{}
	if next.kind == entryWrite && !next.change.cut {
		n := e.core.nodes[next.node]
		e.point.last = n
		e.point.before = n.now
		n.owned = false
	}
	e.core.replay(next)
	e.at++
	return true
}

// visit yields the states at the calls made so far.
func (e *Explorer) visit() bool {
	e.point.load(&e.core)
	p := newPlan(&e.point)
	return e.fixed(p) && e.names(p) && e.heads(p) && e.mixes(p) && e.kills(p)
}

// try yields the state of a plan, unless it was met before. false ends it all.
func (e *Explorer) try(p *plan) bool {
	e.Visited++
	h := e.point.hash(p)
	if e.Seen(h, e.at-p.early) {
		return true
	}
	e.Yielded++
	return e.yield(&State{Calls: e.at - p.early, Hash: h, e: e, plan: p})
}
