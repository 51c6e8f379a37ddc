package runs

import (
	"encoding/binary"
	"hash/maphash"
	"maps"
	"slices"
	"strings"
)

// text is an arena of short byte strings: chunks that are filled one after
// the other and never moved (but the first, which starts small), so that it
// neither copies when it grows nor shows the garbage collector a pointer per
// string.
type text struct {
	chunks [][]byte
}

const (
	textChunkBytes = 1 << 20
	textFirstBytes = 4 << 10
	textUnit       = 8 // strings begin at multiples of it: a reference has 32 bits and reaches 32 GiB
)

// add copies b, of at most textChunkBytes, and returns its reference.
func (t *text) add(b []byte) uint32 {
	last := len(t.chunks) - 1
	if last < 0 || len(t.chunks[last])+len(b) > textChunkBytes {
		// The first one grows to its size: a small store needs little.
		size := textChunkBytes
		if last < 0 {
			size = textFirstBytes
		}
		t.chunks = append(t.chunks, make([]byte, 0, size))
		last++
	}
	c := t.chunks[last]
	ref := uint32((last*textChunkBytes + len(c)) / textUnit)
	c = append(c, b...)
	for len(c)%textUnit != 0 {
		c = append(c, 0)
	}
	t.chunks[last] = c
	return ref
}

// from is the arena's bytes from ref on; what was added there says itself
// where it ends.
func (t *text) from(ref uint32) []byte {
	at := int(ref) * textUnit
	return t.chunks[at/textChunkBytes][at%textChunkBytes:]
}

// A run's text in the arena is its id, its parent's and its labels:
//
//	n      1 byte    length of the id as text; 0 for a UUID, as 16 bytes
//	id     n or 16
//	parent the same
//	count  1 byte    labels
//	       each: name length (1 byte), name, value length (uvarint), value
//
// with n = 255 for no parent. Labels stand in the order of their names.
func encodeText(id, parent string, labels Labels) []byte {
	b := appendTextID(nil, id)
	b = appendTextID(b, parent)
	b = append(b, byte(len(labels)))
	for _, k := range labels.names() {
		b = append(b, byte(len(k)))
		b = append(b, k...)
		b = binary.AppendUvarint(b, uint64(len(labels[k])))
		b = append(b, labels[k]...)
	}
	return b
}

const textNoID = 255

func appendTextID(b []byte, id string) []byte {
	switch {
	case id == "":
		return append(b, textNoID)
	case isUUID(id):
		b = append(b, 0)
		return appendUUID(b, id)
	}
	b = append(b, byte(len(id)))
	return append(b, id...)
}

func appendUUID(b []byte, id string) []byte {
	for i := 0; i < len(id); i++ {
		if id[i] == '-' {
			continue
		}
		b = append(b, unhex(id[i])<<4|unhex(id[i+1]))
		i++
	}
	return b
}

func unhex(c byte) byte {
	if c <= '9' {
		return c - '0'
	}
	return c - 'a' + 10
}

// cutTextID splits an id, as it stands in the arena, from what follows.
func cutTextID(b []byte) (id, rest []byte) {
	switch n := b[0]; n {
	case textNoID:
		return b[:1], b[1:]
	case 0:
		return b[:17], b[17:]
	default:
		return b[:1+int(n)], b[1+int(n):]
	}
}

// textID is the inverse of appendTextID.
func textID(b []byte) string {
	switch n := b[0]; n {
	case textNoID:
		return ""
	case 0:
		return uuidText(b[1:17])
	default:
		return string(b[1 : 1+int(n)])
	}
}

// eachLabel calls fn for the labels that stand in b, until it returns false.
func eachLabel(b []byte, fn func(name, value []byte) bool) {
	count := int(b[0])
	b = b[1:]
	for range count {
		n := int(b[0])
		name := b[1 : 1+n]
		b = b[1+n:]
		vn, w := binary.Uvarint(b)
		value := b[w : w+int(vn)]
		b = b[w+int(vn):]
		if !fn(name, value) {
			return
		}
	}
}

// names lists the labels' names in order.
func (l Labels) names() []string { return slices.SortedFunc(maps.Keys(l), strings.Compare) }

// ids finds run numbers by id: open addressing on one flat array of run
// numbers, whose ids are compared in the arena.
type ids struct {
	seed  maphash.Seed
	slots []uint32 // run numbers, 0 is free; a power of two
	used  int
}

func newIDs() ids { return ids{seed: maphash.MakeSeed(), slots: make([]uint32, 64)} }

// find returns the number of the run whose id is key (as in the arena), and 0
// if there is none.
func (t *ids) find(key []byte, idOf func(num uint32) []byte) uint32 {
	for i := t.slot(key); ; i = (i + 1) % len(t.slots) {
		num := t.slots[i]
		if num == 0 || string(idOf(num)) == string(key) {
			return num
		}
	}
}

// reserve makes room for n runs.
func (t *ids) reserve(n int, idOf func(num uint32) []byte) {
	size := len(t.slots)
	for size*3/4 <= n {
		size *= 2
	}
	t.resize(size, idOf)
}

func (t *ids) resize(size int, idOf func(num uint32) []byte) {
	if size == len(t.slots) {
		return
	}
	old := t.slots
	t.slots = make([]uint32, size)
	for _, n := range old {
		if n != 0 {
			t.put(n, idOf(n))
		}
	}
}

// add enters a run; its id must not be there.
func (t *ids) add(num uint32, idOf func(num uint32) []byte) {
	if t.used >= len(t.slots)*3/4 {
		t.resize(2*len(t.slots), idOf)
	}
	t.put(num, idOf(num))
	t.used++
}

func (t *ids) put(num uint32, key []byte) {
	i := t.slot(key)
	for t.slots[i] != 0 {
		i = (i + 1) % len(t.slots)
	}
	t.slots[i] = num
}

// remove takes out a run, and moves those behind it that would not be found
// any more.
func (t *ids) remove(num uint32, idOf func(num uint32) []byte) {
	i := t.slot(idOf(num))
	for t.slots[i] != num {
		if t.slots[i] == 0 {
			return
		}
		i = (i + 1) % len(t.slots)
	}
	t.slots[i] = 0
	t.used--
	for i = (i + 1) % len(t.slots); t.slots[i] != 0; i = (i + 1) % len(t.slots) {
		n := t.slots[i]
		t.slots[i] = 0
		t.put(n, idOf(n))
	}
}

func (t *ids) slot(key []byte) int {
	return int(maphash.Bytes(t.seed, key) & uint64(len(t.slots)-1))
}

// validArenaText reports whether b is a text of the arena, and nothing else: whoever
// reads it there need not look where it ends.
func validArenaText(b []byte) bool {
	b, ok := skipTextID(b, false)
	if ok {
		b, ok = skipTextID(b, true)
	}
	if !ok || len(b) == 0 || b[0] > LabelsMax {
		return false
	}
	count := int(b[0])
	b = b[1:]
	for range count {
		if len(b) == 0 || len(b) < 1+int(b[0]) {
			return false
		}
		b = b[1+int(b[0]):]
		n, w := binary.Uvarint(b)
		if w <= 0 || n > LabelBytesMax || len(b) < w+int(n) {
			return false
		}
		b = b[w+int(n):]
	}
	return len(b) == 0
}

// skipTextID is what follows an id; absent says that there may be none.
func skipTextID(b []byte, absent bool) (rest []byte, ok bool) {
	if len(b) == 0 {
		return nil, false
	}
	n := 1 + int(b[0])
	switch b[0] {
	case textNoID:
		return b[1:], absent
	case 0:
		n = 17
	}
	if len(b) < n || n > 1+execIDBytesMax {
		return nil, false
	}
	return b[n:], true
}

const execIDBytesMax = len("exec_") + execSuffixBytesMax
