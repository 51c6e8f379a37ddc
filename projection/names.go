package projection

import (
	"bytes"
	"hash/maphash"

	"durafs/internal/jsonscan"
)

// Of two members with one name, one reader takes the first and another the
// last; so a name may be there once. Names are compared by what they say.

// names finds a name that is twice in an object. It holds those of the objects
// that are open, one behind the other: at most NodesMax, as each has a value.
type names struct {
	open []name
	// table finds a name of a large object by its hash: the upper half of the
	// hash, so that names are rarely compared, and 1 + its number.
	table []uint64
	a, b  []byte // names with escapes, as they are said
}

// name is a name's literal in the text.
type name struct {
	from, to uint32
	escaped  bool
}

// pairwiseMax is up to how many names comparing all with all is faster.
const pairwiseMax = 8

var nameSeed = maphash.MakeSeed() // or a tool could make them collide

// twice looks among the names from base on. It is where the second of two
// stands, or -1.
func (n *names) twice(src []byte, base int) int {
	set := n.open[base:]
	if len(set) > pairwiseMax {
		return n.hashed(src, set)
	}
	for i := 1; i < len(set); i++ {
		for j := range i {
			if n.same(src, set[i], set[j]) {
				return int(set[i].from)
			}
		}
	}
	return -1
}

func (n *names) hashed(src []byte, set []name) int {
	slots := 16
	for slots < 2*len(set) {
		slots *= 2
	}
	if len(n.table) < slots {
		n.table = make([]uint64, slots)
	}
	table := n.table[:slots]
	clear(table)
	mask := uint64(slots - 1)
	for i, m := range set {
		hash := maphash.Bytes(nameSeed, n.said(src, m, &n.a))
		at := hash & mask
		for ; table[at] != 0; at = (at + 1) & mask {
			if (table[at]^hash)>>32 == 0 && n.same(src, set[uint32(table[at])-1], m) {
				return int(m.from)
			}
		}
		table[at] = hash>>32<<32 | uint64(i+1)
	}
	return -1
}

func (n *names) same(src []byte, x, y name) bool {
	if !x.escaped && !y.escaped {
		return x.to-x.from == y.to-y.from && bytes.Equal(src[x.from:x.to], src[y.from:y.to])
	}
	return bytes.Equal(n.said(src, x, &n.a), n.said(src, y, &n.b))
}

// said is what a name says; buf holds it if that is not how it is written.
func (n *names) said(src []byte, m name, buf *[]byte) []byte {
	if !m.escaped {
		return src[m.from+1 : m.to-1]
	}
	*buf = jsonscan.AppendSaid((*buf)[:0], src[m.from:m.to])
	return *buf
}
