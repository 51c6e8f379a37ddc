package runs

import (
	"math/bits"
	"sort"

	"durafs/wal"
)

// An extent is where a stretch of a run's log lies: rows from seq on, whose
// text begins at offset off of the rendered log, in the frame at pos and in
// frames of the run that follow it within extentSpanBytesMax of the segment.
// Frames are gathered until the stretch has extentTextBytesMax of text: a
// reader that wants a byte of it walks no further than that.
type extent struct {
	segment, offset uint32
	seq             uint32
	offLow, offHigh uint32
}

const (
	extentTextBytesMax = 64 << 10
	extentSpanBytesMax = 256 << 10
)

func makeExtent(pos wal.Position, seq uint32, off int64) extent {
	return extent{pos.Segment, pos.Offset, seq, uint32(off), uint32(off >> 32)}
}

func (e extent) pos() wal.Position { return wal.Position{Segment: e.segment, Offset: e.offset} }
func (e extent) off() int64        { return int64(e.offHigh)<<32 | int64(e.offLow) }

// takes reports whether rows of a frame at pos, whose text would end at off,
// may be gathered into e.
func (e extent) takes(pos wal.Position, end int64) bool {
	return pos.Segment == e.segment && pos.Offset > e.offset &&
		pos.Offset-e.offset <= extentSpanBytesMax && end-e.off() <= extentTextBytesMax
}

// holds reports whether a row of e may begin in a frame at pos.
func (e extent) holds(pos wal.Position) bool {
	return pos.Segment == e.segment && pos.Offset-e.offset <= extentSpanBytesMax
}

// list is a run's extents in the arena: a block of the class that fits n.
type list struct {
	block uint32
	n     uint32
}

// extents is an arena of lists of extents. A list is a block of 2^k extents;
// a list that outgrows its block moves to one of the next class, and its old
// block is used again. Blocks of a class share chunks, so that a short list
// costs its extents and nothing else.
type extents struct {
	classes [32]struct {
		chunks [][]extent
		blocks uint32
		free   []uint32
	}
}

const extentChunk = 4096 // extents per chunk of small blocks

func classOf(n uint32) int { return bits.Len32(n - 1) } // 1→0, 2→1, 3..4→2

// of is the run's extents; they may be read until the next push.
func (x *extents) of(l list) []extent {
	if l.n == 0 {
		return nil
	}
	return x.block(classOf(l.n), l.block)[:l.n]
}

func (x *extents) block(class int, b uint32) []extent {
	size := uint32(1) << class
	per := max(1, extentChunk/size)
	at := b % per * size
	return x.classes[class].chunks[b/per][at : at+size]
}

// push appends e to the list.
func (x *extents) push(l list, e extent) list {
	if l.n == 0 {
		l.block = x.alloc(0)
	} else if class := classOf(l.n); class != classOf(l.n+1) {
		b := x.alloc(class + 1)
		copy(x.block(class+1, b), x.of(l))
		x.classes[class].free = append(x.classes[class].free, l.block)
		l.block = b
	}
	l.n++
	x.of(l)[l.n-1] = e
	return l
}

// pop takes the last one away.
func (x *extents) pop(l list) list {
	if class := classOf(l.n); l.n == 1 || class != classOf(l.n-1) {
		old, rest := l, x.of(l)[:l.n-1]
		if l = (list{}); len(rest) > 0 {
			l = list{x.alloc(classOf(uint32(len(rest)))), uint32(len(rest))}
			copy(x.of(l), rest)
		}
		x.classes[class].free = append(x.classes[class].free, old.block)
		return l
	}
	l.n--
	return l
}

func (x *extents) alloc(class int) uint32 {
	c := &x.classes[class]
	if n := len(c.free); n > 0 {
		b := c.free[n-1]
		c.free = c.free[:n-1]
		return b
	}
	size := uint32(1) << class
	per := max(1, extentChunk/size)
	if c.blocks%per == 0 {
		c.chunks = append(c.chunks, make([]extent, per*size))
	}
	c.blocks++
	return c.blocks - 1
}

// lastExtent is the newest extent of a run.
func (x *index) lastExtent(num uint32) (e extent, ok bool) {
	es := x.extentsOf(num)
	if len(es) == 0 {
		return extent{}, false
	}
	return es[len(es)-1], true
}

// extentsOf are all extents of a run; they may be read until the next push.
func (x *index) extentsOf(num uint32) []extent {
	if d := x.damaged[num]; d != nil && d.log != nil {
		return d.log
	}
	c, i := x.at(num)
	return x.extents.of(c.extents[i])
}

func (x *index) pushExtent(num uint32, e extent) {
	if d := x.damaged[num]; d != nil && d.log != nil {
		d.log = append(d.log, e)
		return
	}
	c, i := x.at(num)
	c.extents[i] = x.extents.push(c.extents[i], e)
}

// popExtent takes the newest extent away.
func (x *index) popExtent(num uint32) {
	if d := x.damaged[num]; d != nil && d.log != nil {
		d.log = d.log[:len(d.log)-1]
		return
	}
	c, i := x.at(num)
	c.extents[i] = x.extents.pop(c.extents[i])
}

// byOffset is the index of the extent that holds rendered offset off.
func byOffset(es []extent, off int64) int {
	return sort.Search(len(es), func(i int) bool { return es[i].off() > off }) - 1
}

// bySeq is the index of the extent that holds the row seq.
func bySeq(es []extent, seq uint32) int {
	return sort.Search(len(es), func(i int) bool { return es[i].seq > seq }) - 1
}
