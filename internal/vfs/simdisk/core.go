package simdisk

import (
	"cmp"
	"slices"
	"strings"
)

// core is what is on the disk and in the page cache. A Disk and an Explorer
// each have one, and change it by the same entries of a journal.
type core struct {
	nodes []*node // by number; nil: gone
	root  *node
	ops   []nameOp // changes of names that are not durable, in order
	arena arena
	// track keeps changes until they are durable; garbage also those that
	// change nothing but whether a sector was ever written. forget is
	// Options.ForgetNames.
	track, garbage, forget bool
}

// node is a file or a directory.
type node struct {
	id  int32
	dir bool

	// Of a directory: its names as a running process sees them, and as they
	// are durable. Sorted; never changed in place.
	entries, keptEntries []entry

	// Of a file: what a running process reads, what the device has for
	// certain, and what was changed since.
	now, kept content
	changes   []*change
	owned     bool // nobody shares what now owns
	// astray says that after a failed sync now is not kept with the changes.
	astray bool

	links, open int
	blocks      []uint64 // a bit for each block that takes space
	bad         []int64  // blocks that cannot be read; never changed in place
}

// entry is a name in a directory.
type entry struct {
	name string
	node *node
}

// nameOp is a change of names: a node loses a name, gets one, or both.
type nameOp struct {
	node             *node
	fromDir, toDir   *node // nil: none
	fromName, toName string
}

func (c *core) addNode(dir bool) *node {
	n := &node{id: int32(len(c.nodes)), dir: dir}
	c.nodes = append(c.nodes, n)
	return n
}

func find(entries []entry, name string) (int, bool) {
	return slices.BinarySearchFunc(entries, name, func(e entry, name string) int { return cmp.Compare(e.name, name) })
}

func lookup(entries []entry, name string) *node {
	if i, ok := find(entries, name); ok {
		return entries[i].node
	}
	return nil
}

// with is entries with a name that stands for a node.
func with(entries []entry, name string, n *node) []entry {
	i, ok := find(entries, name)
	out := make([]entry, 0, len(entries)+1)
	out = append(append(out, entries[:i]...), entry{name, n})
	if ok {
		i++
	}
	return append(out, entries[i:]...)
}

// without is entries without a name.
func without(entries []entry, name string) []entry {
	i, ok := find(entries, name)
	if !ok {
		return entries
	}
	out := make([]entry, 0, len(entries)-1)
	return append(append(out, entries[:i]...), entries[i+1:]...)
}

// walk goes down a path. parent is the directory that holds, or would hold,
// the last name; nil where there is none, and then notDir tells why.
func (c *core) walk(path string) (parent, n *node, name string, notDir bool) {
	n = c.root
	rest := strings.Trim(path, "/")
	for rest != "" {
		if n == nil || !n.dir {
			return nil, nil, "", n != nil
		}
		parent = n
		name, rest, _ = strings.Cut(rest, "/")
		n = lookup(parent.entries, name)
	}
	return parent, n, name, false
}

// rename applies a change of names to what a running process sees.
func (c *core) rename(op *nameOp) {
	if op.fromDir != nil {
		op.fromDir.entries = without(op.fromDir.entries, op.fromName)
		op.node.links--
	}
	if op.toDir != nil {
		op.toDir.entries = with(op.toDir.entries, op.toName, op.node)
		op.node.links++
	}
	if c.track {
		c.ops = append(c.ops, *op)
	}
}

// write applies a change to what a running process reads.
func (c *core) write(n *node, ch *change) {
	n.owning().apply(ch)
	if c.track {
		n.changes = append(n.changes, ch)
	}
}

// owning is what a running process reads, to be changed.
func (n *node) owning() *content {
	if !n.owned {
		n.now.own()
		n.owned = true
	}
	return &n.now
}

// sync makes a file durable; with kept, the sync failed, and that is what the
// device has.
func (c *core) sync(n *node, kept *content) {
	switch {
	case !c.track:
		return
	case kept != nil:
		n.kept, n.astray = *kept, true
	case n.astray:
		n.kept = n.onDevice()
	default:
		n.kept, n.owned = n.now, false
	}
	n.changes = nil
}

// onDevice is what the device has once all that is dirty is written to it.
func (n *node) onDevice() content {
	k := n.kept
	k.own()
	for _, ch := range n.changes {
		k.apply(ch)
	}
	return k
}

// syncDir makes the names in a directory durable; with kept, the sync failed,
// and only these of the pending changes were.
func (c *core) syncDir(dir *node, kept []bool) {
	rest := c.ops[:0:0]
	for i, op := range c.ops {
		if op.fromDir != dir && op.toDir != dir {
			rest = append(rest, op)
			continue
		}
		if kept != nil && !kept[i] {
			if !c.forget {
				rest = append(rest, op)
			}
			continue
		}
		if op.toDir == dir && op.fromDir != nil && op.fromDir != dir {
			// The new name is there; whether the former is gone is its own
			// directory's matter.
			rest = append(rest, nameOp{node: op.node, fromDir: op.fromDir, fromName: op.fromName})
			op.fromDir = nil
		}
		op.keep()
	}
	c.ops = rest
}

// keep applies a change of names to what is durable.
func (op *nameOp) keep() {
	if op.fromDir != nil {
		op.fromDir.keptEntries = without(op.fromDir.keptEntries, op.fromName)
	}
	if op.toDir != nil {
		op.toDir.keptEntries = with(op.toDir.keptEntries, op.toName, op.node)
	}
}

// clone is an independent copy. Contents and lists of names are shared, and
// copied when they are changed.
func (c *core) clone() core {
	k := core{track: c.track, garbage: c.garbage, forget: c.forget, nodes: make([]*node, len(c.nodes)), ops: slices.Clone(c.ops)}
	slab := make([]node, len(c.nodes))
	for i, n := range c.nodes {
		if n == nil {
			continue
		}
		if n.owned { // not of a journal's beginning, which several may explore at once
			n.owned = false
		}
		slab[i] = *n
		slab[i].open = 0
		slab[i].changes = slices.Clone(n.changes)
		slab[i].blocks = slices.Clone(n.blocks)
		k.nodes[i] = &slab[i]
	}
	k.root = k.nodes[c.root.id]
	for _, n := range k.nodes {
		if n != nil && n.dir {
			n.entries, n.keptEntries = k.moved(n.entries), k.moved(n.keptEntries)
		}
	}
	for i := range k.ops {
		k.ops[i] = k.movedOp(k.ops[i])
	}
	return k
}

// moved is a list of names for this core's own nodes.
func (c *core) moved(entries []entry) []entry {
	out := make([]entry, len(entries))
	for i, e := range entries {
		out[i] = entry{e.name, c.nodes[e.node.id]}
	}
	return out
}

func (c *core) movedOp(op nameOp) nameOp {
	own := func(n *node) *node {
		if n == nil {
			return nil
		}
		return c.nodes[n.id]
	}
	op.node, op.fromDir, op.toDir = own(op.node), own(op.fromDir), own(op.toDir)
	return op
}
