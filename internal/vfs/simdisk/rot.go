package simdisk

import (
	"fmt"
	"iter"
	"math/rand/v2"
	"strings"
)

// Damage is one way in which what is stored has rotted.
type Damage struct {
	// Kind is the way, the same for all of that kind, and File what it harms.
	Kind, File string
	// Off is where, 0 for a whole file; Other is the other file of a swap.
	Off   int64
	Other string
	seed  uint64
}

func (r Damage) String() string {
	if r.Kind == RotAstray {
		return fmt.Sprintf("%s at %d: %s, %s", r.File, r.Off, r.Kind, r.Other)
	}
	if r.Other != "" {
		return fmt.Sprintf("%s with %s: %s", r.File, r.Other, r.Kind)
	}
	return fmt.Sprintf("%s at %d: %s", r.File, r.Off, r.Kind)
}

// The kinds of damage.
const (
	RotBit     = "a bit is flipped"
	RotZeros   = "a sector is zeros"
	RotNoise   = "a sector is noise"
	RotPage    = "a block of 4 KiB is zeros"
	RotOther   = "a sector is another one of the file"
	RotCut     = "the file ends here"
	RotDeleted = "the file is gone"
	RotSwapped = "two files have each other's names"
	RotAstray  = "a block of 4 KiB is the other file's"
	RotUnread  = "a block of 4 KiB cannot be read"
)

// Damages yields every damage of the disk's files: each kind at each sector or
// block that is not zeros already, flips bits of each such sector, makes each
// such block unreadable, cuts each file in some places, deletes it, swaps it
// with the others of its directory, and lets each block of the next one stand in
// it. The same seed flips the same bits.
func (d *Disk) Damages(seed uint64, bits int) iter.Seq[Damage] {
	type file struct {
		name string
		n    *node
	}
	d.mu.Lock()
	var files []file
	var down func(dir *node, path string)
	down = func(dir *node, path string) {
		for _, e := range dir.entries {
			if e.node.dir {
				down(e.node, path+"/"+e.name)
			} else {
				files = append(files, file{path + "/" + e.name, e.node})
			}
		}
	}
	down(d.root, "")
	d.mu.Unlock()
	return func(yield func(Damage) bool) {
		for i, f := range files {
			if !damagesOf(f.name, &f.n.now, seed, bits, yield) {
				return
			}
			for k, g := range files[i+1:] {
				if dirOf(f.name) != dirOf(g.name) {
					continue
				}
				if !yield(Damage{Kind: RotSwapped, File: f.name, Other: g.name}) {
					return
				}
				if k == 0 && !(astray(f.name, g.name, &g.n.now, yield) && astray(g.name, f.name, &f.n.now, yield)) {
					return
				}
			}
		}
	}
}

// astray yields a write of each block of another file that went to the same
// place of this one.
func astray(name, other string, from *content, yield func(Damage) bool) bool {
	page := int64(-1)
	for i := range from.sectors() {
		if off := i * SectorBytes / BlockBytes * BlockBytes; from.at(i).p != nil && off != page {
			page = off
			if !yield(Damage{Kind: RotAstray, File: name, Other: other, Off: off}) {
				return false
			}
		}
	}
	return true
}

func dirOf(name string) string { return name[:strings.LastIndexByte(name, '/')] }

func damagesOf(name string, c *content, seed uint64, bits int, yield func(Damage) bool) bool {
	rng := rand.New(rand.NewPCG(seed, hashName(name)))
	page := int64(-1)
	for i := range c.sectors() {
		off := i * SectorBytes
		if c.at(i).p == nil {
			continue
		}
		for range bits {
			if !yield(Damage{Kind: RotBit, File: name, Off: off + rng.Int64N(SectorBytes), seed: rng.Uint64()}) {
				return false
			}
		}
		for _, kind := range []string{RotZeros, RotNoise, RotOther} {
			if !yield(Damage{Kind: kind, File: name, Off: off, seed: rng.Uint64()}) {
				return false
			}
		}
		if off/BlockBytes != page {
			page = off / BlockBytes
			for _, kind := range []string{RotPage, RotUnread, RotCut} {
				if !yield(Damage{Kind: kind, File: name, Off: page * BlockBytes}) {
					return false
				}
			}
		}
	}
	return (c.size == 0 || yield(Damage{Kind: RotCut, File: name, Off: c.size - 1})) && yield(Damage{Kind: RotDeleted, File: name})
}

// Damage lets what is stored rot. The page cache shows it too.
func (d *Disk) Damage(r Damage) {
	d.mu.Lock()
	defer d.mu.Unlock()
	parent, n, base, _ := d.walk(r.File)
	if n == nil {
		return
	}
	switch r.Kind {
	case RotDeleted:
		op := nameOp{node: n, fromDir: parent, fromName: base}
		op.both()
	case RotSwapped:
		_, other, otherBase, _ := d.walk(r.Other)
		for _, op := range []nameOp{{node: other, toDir: parent, toName: base}, {node: n, toDir: parent, toName: otherBase}} {
			op.both()
		}
	case RotUnread:
		n.bad = append(n.bad[:len(n.bad):len(n.bad)], r.Off/BlockBytes)
	case RotAstray:
		_, other, _, _ := d.walk(r.Other)
		for _, c := range []*content{&n.now, &n.kept} {
			c.own()
			for k := range int64(BlockBytes / SectorBytes) {
				c.set(r.Off/SectorBytes+k, other.now.at(r.Off/SectorBytes+k))
			}
			cutTo(c, c.size, &d.arena)
		}
	default:
		for _, c := range []*content{&n.now, &n.kept} {
			c.own()
			d.rot(c, r)
		}
	}
}

// both applies a change of names to what is seen and to what is durable.
func (op *nameOp) both() {
	op.keep()
	if op.fromDir != nil {
		op.fromDir.entries = without(op.fromDir.entries, op.fromName)
	}
	if op.toDir != nil {
		op.toDir.entries = with(op.toDir.entries, op.toName, op.node)
	}
}

func (d *Disk) rot(c *content, r Damage) {
	i := r.Off / SectorBytes
	switch r.Kind {
	case RotCut:
		cutTo(c, min(c.size, r.Off), &d.arena)
	case RotPage:
		for k := range int64(BlockBytes / SectorBytes) {
			c.set(i+k, sector{})
		}
	case RotZeros:
		c.set(i, sector{})
	case RotNoise:
		c.set(i, d.noise(i, r.seed))
	case RotOther:
		if n := min(c.sectors(), (c.size+SectorBytes-1)/SectorBytes); n > 1 {
			if s := c.at((i + 1 + int64(r.seed%uint64(n-1))) % n); s.p != nil {
				c.set(i, d.arena.sector(i, s.p[:]))
			} else {
				c.set(i, sector{})
			}
		}
	case RotBit:
		b := zeroSector
		if s := c.at(i); s.p != nil {
			b = *s.p
		}
		b[r.Off%SectorBytes] ^= 1 << (r.seed % 8)
		c.set(i, d.arena.sector(i, b[:]))
	}
}

func (d *Disk) noise(i int64, seed uint64) sector {
	rng := rand.New(rand.NewPCG(seed, uint64(i)))
	var b [SectorBytes]byte
	for k := range b {
		b[k] = byte(rng.Uint32())
	}
	return d.arena.sector(i, b[:])
}
