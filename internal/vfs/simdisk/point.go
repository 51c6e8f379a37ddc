package simdisk

import (
	"slices"
)

// point is what is pending at one moment of a journal, laid out so that the
// hash of a choice among it is quick.
type point struct {
	core  *core
	dirty []dirtyFile
	parts int // in all of dirty
	sizes int // files with a choice of sizes

	// last is the file of the call before, if that was a write, and before what
	// it held before that.
	last   *node
	before content

	tree      []leaf // for the names in treeOf
	treeOf    []bool
	treeValid bool
	scratch   []uint64
}

// dirtyFile is a file with changes that are not durable.
type dirtyFile struct {
	n     *node
	first int     // number of its first part
	sizes []int64 // that it had; the durable one first
}

// leaf is a name that can be reached.
type leaf struct {
	path uint64 // hash of it
	n    *node
}

// load takes stock of a core.
func (pt *point) load(c *core) {
	pt.core, pt.dirty, pt.parts, pt.sizes, pt.treeValid = c, pt.dirty[:0], 0, 0, false
	for _, n := range c.nodes {
		if n == nil || len(n.changes) == 0 {
			continue
		}
		f := dirtyFile{n: n, first: pt.parts, sizes: []int64{n.kept.size}}
		for _, ch := range n.changes {
			pt.parts += len(ch.parts)
			if !slices.Contains(f.sizes, ch.size) {
				f.sizes = append(f.sizes, ch.size)
			}
		}
		if len(f.sizes) > 1 {
			pt.sizes++
		}
		pt.dirty = append(pt.dirty, f)
	}
}

// plan is a choice among what is pending.
type plan struct {
	names []bool  // the changes of names that are there
	parts []bool  // the parts of writes that are there
	sizes []int64 // of the dirty files
	// head, if not nil, is the beginning of the last write, which then counts
	// as not made: early is 1.
	head  *change
	early int
	// cold is what else may differ: garbage, by this seed.
	garbage uint64
}

func newPlan(pt *point) *plan {
	p := &plan{names: make([]bool, len(pt.core.ops)), parts: make([]bool, pt.parts), sizes: make([]int64, len(pt.dirty))}
	p.none(pt)
	return p
}

func (p *plan) clone() *plan {
	k := *p
	k.names, k.parts, k.sizes = slices.Clone(p.names), slices.Clone(p.parts), slices.Clone(p.sizes)
	return &k
}

func fill(b []bool, v bool) {
	for i := range b {
		b[i] = v
	}
}

// none lets nothing that is pending be there, all lets all, and sized all sizes
// without data.
func (p *plan) none(pt *point) {
	fill(p.names, false)
	p.noData(pt)
}

func (p *plan) noData(pt *point) {
	fill(p.parts, false)
	for i, f := range pt.dirty {
		p.sizes[i] = f.n.kept.size
	}
	p.head, p.early = nil, 0
}

func (p *plan) all(pt *point) {
	fill(p.names, true)
	p.allData(pt)
}

func (p *plan) allData(pt *point) {
	fill(p.parts, true)
	p.head, p.early = nil, 0
	p.lastSizes(pt)
}

func (p *plan) lastSizes(pt *point) {
	for i, f := range pt.dirty {
		p.sizes[i] = f.n.changes[len(f.n.changes)-1].size
	}
}

// partsOf is where the parts of a file's i-th change begin and end.
func (f *dirtyFile) partsOf(i int) (from, to int) {
	from = f.first
	for _, ch := range f.n.changes[:i] {
		from += len(ch.parts)
	}
	return from, from + len(f.n.changes[i].parts)
}

// hash is that of the state that a plan leads to.
func (pt *point) hash(p *plan) uint64 {
	pt.plant(p.names)
	var h uint64
	for i := range pt.scratch {
		pt.scratch[i] = 0
	}
	for len(pt.scratch) < len(pt.core.nodes) {
		pt.scratch = append(pt.scratch, 0)
	}
	for i := range pt.dirty {
		pt.scratch[pt.dirty[i].n.id] = pt.fileHash(p, i)
	}
	for _, l := range pt.tree {
		switch f := pt.scratch[l.n.id]; {
		case l.n.dir:
			h += mix(l.path, 1)
		case f != 0:
			h += mix(l.path, f)
		default:
			h += mix(l.path, l.n.kept.hash())
		}
	}
	return mix(h, p.garbage)
}

// fileHash is that of the i-th dirty file. Where a sector has several versions
// that are there, the last one counts.
func (pt *point) fileHash(p *plan, i int) uint64 {
	f := &pt.dirty[i]
	if f.simple(p, p.sizes[i]) {
		sum, at := f.n.kept.sum, f.first
		for _, ch := range f.n.changes {
			for k := range ch.parts {
				if p.parts[at+k] {
					q := &ch.parts[k]
					sum += q.s.h - f.n.kept.at(q.i).h
				}
			}
			at += len(ch.parts)
		}
		return hashFile(sum, p.sizes[i])
	}
	c := pt.content(p, i, nil)
	return c.hash()
}

// simple says that no sector can have two versions, and that nothing that is
// there lies behind the size.
func (f *dirtyFile) simple(p *plan, size int64) bool {
	if len(f.n.changes) > 1 && f.overlaps() || p.head != nil || size < f.n.kept.size {
		return false
	}
	at := f.first
	for _, ch := range f.n.changes {
		if n := len(ch.parts); n > 0 && (ch.parts[n-1].i+1)*SectorBytes > size {
			for k := range ch.parts {
				if p.parts[at+k] && (ch.parts[k].i+1)*SectorBytes > size {
					return false
				}
			}
		}
		at += len(ch.parts)
	}
	return true
}

// overlaps says that two changes may touch one sector.
func (f *dirtyFile) overlaps() bool {
	end := int64(-1)
	for _, ch := range f.n.changes {
		if len(ch.parts) == 0 {
			continue
		}
		if ch.parts[0].i <= end {
			return true
		}
		end = ch.parts[len(ch.parts)-1].i
	}
	return false
}

// content is the i-th dirty file as a plan has it.
func (pt *point) content(p *plan, i int, a *arena) content {
	f := &pt.dirty[i]
	c := f.n.kept
	c.own()
	at := f.first
	for _, ch := range f.n.changes {
		for k, q := range ch.parts {
			if p.parts[at+k] {
				c.set(q.i, q.s)
			}
		}
		at += len(ch.parts)
	}
	if p.head != nil && f.n == pt.last {
		for _, q := range p.head.parts {
			c.set(q.i, q.s)
		}
	}
	cutTo(&c, p.sizes[i], a)
	return c
}

// plant finds the names that can be reached if these changes are there.
func (pt *point) plant(names []bool) {
	if pt.treeValid && slices.Equal(pt.treeOf, names) {
		return
	}
	dirs := map[*node][]entry{}
	of := func(d *node) []entry {
		if e, ok := dirs[d]; ok {
			return e
		}
		return d.keptEntries
	}
	for i, op := range pt.core.ops {
		if !names[i] {
			continue
		}
		if op.fromDir != nil {
			dirs[op.fromDir] = without(of(op.fromDir), op.fromName)
		}
		if op.toDir != nil {
			dirs[op.toDir] = with(of(op.toDir), op.toName, op.node)
		}
	}
	pt.tree = pt.tree[:0]
	var down func(d *node, path uint64)
	down = func(d *node, path uint64) {
		for _, e := range of(d) {
			h := mix(path, hashName(e.name))
			pt.tree = append(pt.tree, leaf{h, e.node})
			if e.node.dir {
				down(e.node, h)
			}
		}
	}
	down(pt.core.root, 0)
	pt.treeOf, pt.treeValid = append(pt.treeOf[:0], names...), true
}

func hashName(s string) uint64 {
	h := uint64(len(s))
	for i := range len(s) {
		h = (h ^ uint64(s[i])) * 0x100000001b3
	}
	return h
}

// entriesUnder is a directory's names as a plan has them, for building.
func (pt *point) entriesUnder(d *node, names []bool) []entry {
	list := d.keptEntries
	for i, op := range pt.core.ops {
		if !names[i] {
			continue
		}
		if op.fromDir == d {
			list = without(list, op.fromName)
		}
		if op.toDir == d {
			list = with(list, op.toName, op.node)
		}
	}
	return list
}

// path is a node's name as a running process sees it, for messages.
func (c *core) path(n *node) string {
	var find func(d *node, path string) string
	find = func(d *node, path string) string {
		for _, e := range d.entries {
			at := path + "/" + e.name
			if e.node == n {
				return at
			}
			if e.node.dir {
				if p := find(e.node, at); p != "" {
					return p
				}
			}
		}
		return ""
	}
	if p := find(c.root, ""); p != "" {
		return p
	}
	return "(a file without a name)"
}
