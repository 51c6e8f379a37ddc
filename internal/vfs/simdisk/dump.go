package simdisk

import (
	"encoding/json"
	"fmt"
)

// dumped is a disk as it is written to a file.
type dumped struct {
	Options Options
	Nodes   []dumpedNode
	Ops     []dumpedOp `json:",omitempty"`
}

type dumpedNode struct {
	Dir          bool           `json:",omitempty"`
	Entries      map[string]int `json:",omitempty"`
	KeptEntries  map[string]int `json:",omitempty"`
	Now          dumpedContent
	Kept         dumpedContent
	Changes      []dumpedChange `json:",omitempty"`
	Astray       bool           `json:",omitempty"`
	Blocks       []uint64       `json:",omitempty"`
	Bad          []int64        `json:",omitempty"`
	LinksOfFiles int            `json:",omitempty"`
}

type dumpedContent struct {
	Size    int64
	Sectors map[int64][]byte `json:",omitempty"`
}

type dumpedChange struct {
	Size, Off, Len int64
	Cut            bool             `json:",omitempty"`
	Parts          map[int64][]byte // nil: zeros
}

type dumpedOp struct {
	Node, From, To   int // -1: none
	FromName, ToName string
}

// MarshalJSON writes all that the disk is, page cache included: a state that
// can be looked at again elsewhere.
func (d *Disk) MarshalJSON() ([]byte, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	out := dumped{Options: d.opts}
	for _, n := range d.nodes {
		out.Nodes = append(out.Nodes, dumpNode(n))
	}
	for _, op := range d.ops {
		out.Ops = append(out.Ops, dumpedOp{
			Node: number(op.node), From: number(op.fromDir), To: number(op.toDir), FromName: op.fromName, ToName: op.toName,
		})
	}
	return json.Marshal(out)
}

func number(n *node) int {
	if n == nil {
		return -1
	}
	return int(n.id)
}

func dumpNode(n *node) dumpedNode {
	out := dumpedNode{
		Dir: n.dir, Astray: n.astray, Now: dumpContent(&n.now), Kept: dumpContent(&n.kept), Blocks: n.blocks, Bad: n.bad, LinksOfFiles: n.links,
		Entries: dumpEntries(n.entries), KeptEntries: dumpEntries(n.keptEntries),
	}
	for _, ch := range n.changes {
		parts := map[int64][]byte{}
		for _, p := range ch.parts {
			parts[p.i] = p.s.bytes()
		}
		out.Changes = append(out.Changes, dumpedChange{Size: ch.size, Off: ch.off, Len: ch.len, Cut: ch.cut, Parts: parts})
	}
	return out
}

func (s sector) bytes() []byte {
	if s.p == nil {
		return nil
	}
	return s.p[:]
}

func dumpEntries(entries []entry) map[string]int {
	out := map[string]int{}
	for _, e := range entries {
		out[e.name] = int(e.node.id)
	}
	return out
}

func dumpContent(c *content) dumpedContent {
	out := dumpedContent{Size: c.size, Sectors: map[int64][]byte{}}
	for i := range c.sectors() {
		if s := c.at(i); s.p != nil {
			out.Sectors[i] = s.p[:]
		}
	}
	return out
}

// UnmarshalJSON is the inverse of MarshalJSON.
func (d *Disk) UnmarshalJSON(b []byte) error {
	var in dumped
	if err := json.Unmarshal(b, &in); err != nil {
		return err
	}
	*d = Disk{opts: in.Options}
	d.core = core{track: true, garbage: in.Options.Garbage, forget: in.Options.ForgetNames}
	for _, n := range in.Nodes {
		d.addNode(n.Dir)
	}
	if len(d.nodes) == 0 || !d.nodes[0].dir {
		return fmt.Errorf("simdisk: the dump has no root directory")
	}
	d.root = d.nodes[0]
	for i, n := range in.Nodes {
		if err := d.load(d.nodes[i], n); err != nil {
			return err
		}
	}
	for _, op := range in.Ops {
		o := nameOp{fromName: op.FromName, toName: op.ToName}
		for _, p := range []struct {
			to **node
			i  int
		}{{&o.node, op.Node}, {&o.fromDir, op.From}, {&o.toDir, op.To}} {
			if p.i >= len(d.nodes) {
				return fmt.Errorf("simdisk: the dump has no node %d", p.i)
			}
			if p.i >= 0 {
				*p.to = d.nodes[p.i]
			}
		}
		d.ops = append(d.ops, o)
	}
	d.count()
	return nil
}

func (d *Disk) load(n *node, in dumpedNode) error {
	n.astray, n.blocks, n.bad, n.links = in.Astray, in.Blocks, in.Bad, in.LinksOfFiles
	n.now, n.kept = d.loadContent(in.Now), d.loadContent(in.Kept)
	for _, ch := range in.Changes {
		c := &change{size: ch.Size, off: ch.Off, len: ch.Len, cut: ch.Cut}
		for i := int64(0); i*SectorBytes < ch.Size+SectorBytes || len(c.parts) < len(ch.Parts); i++ {
			if b, ok := ch.Parts[i]; ok {
				c.parts = append(c.parts, part{i, d.loadSector(i, b)})
			}
		}
		n.changes = append(n.changes, c)
	}
	for _, list := range []struct {
		to   *[]entry
		from map[string]int
	}{{&n.entries, in.Entries}, {&n.keptEntries, in.KeptEntries}} {
		for name, i := range list.from {
			if i < 0 || i >= len(d.nodes) {
				return fmt.Errorf("simdisk: the dump has no node %d", i)
			}
			*list.to = with(*list.to, name, d.nodes[i])
		}
	}
	return nil
}

func (d *Disk) loadContent(in dumpedContent) content {
	c := content{owner: new(owner)}
	for i, b := range in.Sectors {
		c.set(i, d.loadSector(i, b))
	}
	c.size = in.Size
	return c
}

func (d *Disk) loadSector(i int64, b []byte) sector {
	if len(b) != SectorBytes {
		return sector{}
	}
	return d.arena.sector(i, b)
}
