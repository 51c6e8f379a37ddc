package simdisk

import (
	"fmt"
	"math/rand/v2"
	"strings"
)

// Disk is a disk in this state, on its own.
func (s *State) Disk() *Disk {
	e := s.e
	d := &Disk{opts: e.journal.opts}
	if s.Warm {
		d.core = e.core.clone()
		d.count()
		return d
	}
	d.core = core{track: true, garbage: e.core.garbage, forget: e.core.forget}
	b := builder{pt: &e.point, p: s.plan, made: make([]*node, len(e.core.nodes))}
	b.slab = make([]node, 0, len(e.point.tree)+1)
	e.point.plant(s.plan.names)
	d.root = b.dir(&d.core, e.core.root)
	if d.opts.CapacityBytes > 0 {
		d.count()
	}
	return d
}

// builder makes the nodes of a disk after a power cut.
type builder struct {
	pt   *point
	p    *plan
	made []*node
	slab []node
}

func (b *builder) node(c *core, old *node) *node {
	b.slab = append(b.slab, node{id: int32(len(c.nodes)), dir: old.dir})
	n := &b.slab[len(b.slab)-1]
	c.nodes = append(c.nodes, n)
	b.made[old.id] = n
	return n
}

func (b *builder) dir(c *core, old *node) *node {
	n := b.node(c, old)
	from := b.pt.entriesUnder(old, b.p.names)
	n.entries = make([]entry, len(from))
	for i, e := range from {
		k := b.made[e.node.id]
		switch {
		case k != nil: // a second name of it
		case e.node.dir:
			k = b.dir(c, e.node)
		default:
			k = b.file(c, e.node)
		}
		k.links++
		n.entries[i] = entry{e.name, k}
	}
	n.keptEntries = n.entries
	return n
}

func (b *builder) file(c *core, old *node) *node {
	n := b.node(c, old)
	n.kept = old.kept
	for i := range b.pt.dirty {
		if b.pt.dirty[i].n == old {
			n.kept = b.pt.content(b.p, i, &c.arena)
			if c.garbage {
				b.spoil(c, n, i)
			}
		}
	}
	n.now = n.kept
	n.blocks = append([]uint64(nil), old.blocks...)
	return n
}

// spoil fills what never became durable with garbage.
func (b *builder) spoil(c *core, n *node, i int) {
	f := &b.pt.dirty[i]
	there, at := map[int64]bool{}, f.first
	for _, ch := range f.n.changes {
		for k, q := range ch.parts {
			there[q.i] = there[q.i] || b.p.parts[at+k]
		}
		at += len(ch.parts)
	}
	rng := rand.New(rand.NewPCG(b.p.garbage, uint64(i)))
	for s := (f.n.kept.size + SectorBytes - 1) / SectorBytes; s*SectorBytes < n.kept.size; s++ {
		if there[s] {
			continue
		}
		var junk [SectorBytes]byte
		for k := range junk {
			junk[k] = byte(rng.Uint32())
		}
		n.kept.set(s, c.arena.sector(s, junk[:]))
	}
	cutTo(&n.kept, n.kept.size, &c.arena)
}

// String tells what of what was pending is there and what is lost.
func (s *State) String() string {
	var b strings.Builder
	if s.Warm {
		fmt.Fprintf(&b, "the process was killed after %d calls; the page cache is there\n", s.Calls)
		return b.String()
	}
	fmt.Fprintf(&b, "the power went after %d calls; of what was not durable:\n", s.Calls)
	pt, p := &s.e.point, s.plan
	for i, op := range pt.core.ops {
		fmt.Fprintf(&b, "  %s  %s\n", thereOrLost(p.names[i]), op.describe(pt.core))
	}
	for i := range pt.dirty {
		s.describeFile(&b, i)
	}
	return b.String()
}

func (s *State) describeFile(b *strings.Builder, i int) {
	pt, p := &s.e.point, s.plan
	f := &pt.dirty[i]
	name := pt.core.path(f.n)
	fmt.Fprintf(b, "  size   %s: %d of %v\n", name, p.sizes[i], f.sizes)
	at := f.first
	for k, ch := range f.n.changes {
		what := fmt.Sprintf("%s: write of %d bytes at %d", name, ch.len, ch.off)
		if ch.cut {
			what = fmt.Sprintf("%s: cut to %d", name, ch.size)
		}
		kept := p.parts[at : at+len(ch.parts)]
		at += len(ch.parts)
		switch {
		case p.head != nil && f.n == pt.last && k == len(f.n.changes)-1:
			fmt.Fprintf(b, "  begun  %s: its first %d bytes\n", what, p.head.len)
		case len(kept) == 0 || allAre(kept, kept[0]):
			fmt.Fprintf(b, "  %s  %s\n", thereOrLost(len(kept) == 0 || kept[0]), what)
		default:
			fmt.Fprintf(b, "  torn   %s: sectors", what)
			for j, q := range ch.parts {
				if kept[j] {
					fmt.Fprintf(b, " %d", q.i)
				}
			}
			fmt.Fprintln(b, " are there")
		}
	}
}

func thereOrLost(there bool) string {
	if there {
		return "there"
	}
	return "lost "
}

func allAre(b []bool, v bool) bool {
	for _, x := range b {
		if x != v {
			return false
		}
	}
	return true
}

func (op *nameOp) describe(c *core) string {
	switch {
	case op.toDir == nil:
		return "unlink " + c.pathIn(op.fromDir, op.fromName)
	case op.fromDir == nil:
		return "create " + c.pathIn(op.toDir, op.toName)
	}
	return "rename " + c.pathIn(op.fromDir, op.fromName) + " -> " + c.pathIn(op.toDir, op.toName)
}

func (c *core) pathIn(d *node, name string) string {
	if d == c.root {
		return "/" + name
	}
	return c.path(d) + "/" + name
}
