package simdisk

import (
	"math/rand/v2"
	"slices"
)

// namesExhaustMax is up to how many pending changes of names every subset is
// tried.
const namesExhaustMax = 6

// fixed tries what is tried at every call: all combinations where they are few,
// else those that find most.
func (e *Explorer) fixed(p *plan) bool {
	pt := &e.point
	p.none(pt)
	if !e.try(p) {
		return false
	}
	p.all(pt)
	if !e.try(p) {
		return false
	}
	if n := len(p.names) + pt.parts + pt.sizes; n <= e.ExhaustAtoms {
		return e.exhaust(p)
	}
	return e.oneByOne(p)
}

// exhaust tries all combinations.
func (e *Explorer) exhaust(p *plan) bool {
	pt := &e.point
	atoms := len(p.names) + len(p.parts)
	for bits := range 1 << atoms {
		for i := range p.names {
			p.names[i] = bits>>i&1 != 0
		}
		for i := range p.parts {
			p.parts[i] = bits>>(len(p.names)+i)&1 != 0
		}
		if !e.eachSizes(p, 0, pt) {
			return false
		}
	}
	return true
}

func (e *Explorer) eachSizes(p *plan, i int, pt *point) bool {
	if i == len(pt.dirty) {
		return e.try(p)
	}
	for _, size := range pt.dirty[i].sizes {
		p.sizes[i] = size
		if !e.eachSizes(p, i+1, pt) {
			return false
		}
	}
	return true
}

// oneByOne tries for each change that it is the only one there, the only one
// missing, and the last one there; and each size.
func (e *Explorer) oneByOne(p *plan) bool {
	pt := &e.point
	for i := range p.names {
		for _, v := range []bool{true, false} {
			if v {
				p.none(pt)
			} else {
				p.all(pt)
			}
			p.names[i] = v
			if !e.try(p) {
				return false
			}
		}
	}
	for fi := range pt.dirty {
		if !e.changesOf(p, fi) || !e.sizesOf(p, fi) {
			return false
		}
	}
	return true
}

func (e *Explorer) changesOf(p *plan, fi int) bool {
	pt, f := &e.point, &e.point.dirty[fi]
	from := f.first
	for _, ch := range f.n.changes {
		to := from + len(ch.parts)
		p.none(pt)
		fill(p.names, true)
		fill(p.parts[from:to], true)
		p.sizes[fi] = ch.size
		if !e.try(p) {
			return false
		}
		p.all(pt)
		fill(p.parts[from:to], false)
		if !e.try(p) {
			return false
		}
		p.all(pt) // up to this one, in this file
		fill(p.parts[to:f.first+f.count()], false)
		p.sizes[fi] = ch.size
		if !e.try(p) {
			return false
		}
		from = to
	}
	return true
}

func (f *dirtyFile) count() int {
	n := 0
	for _, ch := range f.n.changes {
		n += len(ch.parts)
	}
	return n
}

func (e *Explorer) sizesOf(p *plan, fi int) bool {
	pt := &e.point
	for _, size := range pt.dirty[fi].sizes {
		p.none(pt)
		fill(p.names, true)
		p.sizes[fi] = size
		if !e.try(p) {
			return false
		}
		p.all(pt)
		p.sizes[fi] = size
		if !e.try(p) {
			return false
		}
	}
	return true
}

// names tries every subset of the changes of names where they are not too many.
func (e *Explorer) names(p *plan) bool {
	pt := &e.point
	if len(p.names) == 0 || len(p.names) > namesExhaustMax {
		return true
	}
	for bits := range 1 << len(p.names) {
		for i := range p.names {
			p.names[i] = bits>>i&1 != 0
		}
		p.noData(pt)
		if !e.try(p) {
			return false
		}
		p.lastSizes(pt)
		if !e.try(p) {
			return false
		}
		p.allData(pt)
		if !e.try(p) {
			return false
		}
	}
	return true
}

// heads tries beginnings of the last write, and parts of it.
func (e *Explorer) heads(p *plan) bool {
	pt := &e.point
	if pt.last == nil {
		return true
	}
	fi := slices.IndexFunc(pt.dirty, func(f dirtyFile) bool { return f.n == pt.last })
	if fi < 0 {
		return true
	}
	f := &pt.dirty[fi]
	from, to := f.partsOf(len(f.n.changes) - 1)
	for i := from; i < to && to-from > 1; i++ {
		p.all(pt)
		p.parts[i] = false
		if !e.try(p) {
			return false
		}
		fill(p.parts[from:to], false)
		p.parts[i] = true
		if !e.try(p) {
			return false
		}
	}
	ch := f.n.changes[len(f.n.changes)-1]
	for _, n := range e.headLengths(ch) {
		head := e.core.arena.firstBytes(ch, &pt.before, n)
		for _, rest := range []bool{true, false} {
			if rest {
				p.all(pt)
			} else {
				p.none(pt)
				fill(p.names, true)
			}
			fill(p.parts[from:to], false)
			p.head, p.early = head, 1
			p.sizes[fi] = head.size
			if !e.try(p) {
				return false
			}
		}
	}
	p.head, p.early = nil, 0
	return true
}

// headLengths are the lengths of the beginning of a write that are tried.
func (e *Explorer) headLengths(ch *change) []int64 {
	list := append([]int64{1, 8, ch.len / 2, ch.len - 1}, e.HeadBytes...)
	for at, k := SectorBytes-ch.off%SectorBytes, 0; at < ch.len && k < 4; at, k = at+SectorBytes, k+1 {
		list = append(list, at-1, at, at+1)
	}
	slices.Sort(list)
	list = slices.Compact(list)
	return slices.DeleteFunc(list, func(n int64) bool { return n < 1 || n >= ch.len })
}

// mixes tries random choices.
func (e *Explorer) mixes(p *plan) bool {
	pt := &e.point
	if len(p.names)+pt.parts+pt.sizes <= e.ExhaustAtoms && !e.core.garbage {
		return true
	}
	for k := range e.Mixes {
		rng := rand.New(rand.NewPCG(e.Seed, uint64(e.at)<<16|uint64(k)))
		odds := rng.Float64()
		for i := range p.names {
			p.names[i] = rng.Float64() < odds
		}
		for i := range p.parts {
			p.parts[i] = rng.Float64() < odds
		}
		for i, f := range pt.dirty {
			p.sizes[i] = f.sizes[rng.IntN(len(f.sizes))]
		}
		if e.core.garbage {
			p.garbage = rng.Uint64()
		}
		if !e.try(p) {
			return false
		}
		p.garbage = 0
	}
	return true
}

// kills tries the disk of a process that was killed here, or in the middle of
// the last write.
func (e *Explorer) kills(p *plan) bool {
	if !e.Kills {
		return true
	}
	pt := &e.point
	p.none(pt)
	nothing := pt.hash(p)
	p.all(pt)
	h := mix(mix(pt.hash(p), nothing), uint64(len(p.parts)+len(p.names))<<8|1)
	e.Visited++
	if e.Seen(h, e.at) {
		return true
	}
	e.Yielded++
	return e.yield(&State{Calls: e.at, Hash: h, Warm: true, e: e})
}
