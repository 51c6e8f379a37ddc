package runs

import (
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

// gathers reports whether rows of a frame at pos, whose text would end at end,
// belong to the last of es, and begin no new one.
func gathers(es []extent, pos wal.Position, end int64) bool {
	if len(es) == 0 {
		return false
	}
	last := es[len(es)-1]
	return last.pos() == pos || last.takes(pos, end)
}

// lastExtent is the newest extent of a run, as far as it is in memory.
func (x *index) lastExtent(num uint32) (e extent, ok bool) {
	es := x.memoryExtents(num)
	if len(es) == 0 {
		return extent{}, false
	}
	return es[len(es)-1], true
}

// memoryExtents are the extents of a run that are in memory: those behind the
// sealed segments, or all where whole is true. They may be read until the next
// push.
func (x *index) memoryExtents(num uint32) []extent {
	es, _ := x.extentsNow(num)
	return es
}

func (x *index) extentsNow(num uint32) (es []extent, whole bool) {
	if d := x.damaged[num]; d != nil && d.log != nil {
		return d.log, true
	}
	if r := x.recent[num]; r != nil {
		return r.extents[:len(r.extents):len(r.extents)], false
	}
	return nil, false
}

func (x *index) pushExtent(num uint32, e extent) {
	if d := x.damaged[num]; d != nil && d.log != nil {
		d.log = append(d.log, e)
		return
	}
	r := x.recentOf(num)
	r.extents = append(r.extents, e)
}

// popExtent takes the newest extent away, which is in memory.
func (x *index) popExtent(num uint32) {
	if d := x.damaged[num]; d != nil && d.log != nil {
		d.log = d.log[:len(d.log)-1]
		return
	}
	r := x.recentOf(num)
	r.extents = append([]extent(nil), r.extents[:len(r.extents)-1]...)
}

// byOffset is the index of the extent that holds rendered offset off.
func byOffset(es []extent, off int64) int {
	return sort.Search(len(es), func(i int) bool { return es[i].off() > off }) - 1
}

// bySeq is the index of the extent that holds the row seq.
func bySeq(es []extent, seq uint32) int {
	return sort.Search(len(es), func(i int) bool { return es[i].seq > seq }) - 1
}
