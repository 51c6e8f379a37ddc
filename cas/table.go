package cas

import (
	"encoding/binary"
	"sync"
)

// table remembers where the records of recent packs are, so that a chunk need
// not be stored again: 16 bytes a slot, at most 80 % of them used, so 20 bytes a record.
// It holds eight bytes of an id, which make a hit likely and not certain: the
// full id stands in the record.
//
// It has two halves. When the young one is full it becomes the old one, whose
// content is forgotten; by then an index file has it (indexer.go).
type table struct {
	mu         sync.RWMutex
	young, old half
	max        int // chunks in a half
}

type half struct {
	slots []slot // a power of two
	used  int
}

type slot struct {
	mark  uint64 // of the id; 0: empty
	place uint64 // pack's number, offset / 8
}

func slotOf(id ID, seq uint32, off int64) slot {
	return slot{markOf(id), uint64(seq)<<32 | uint64(off/recordAlign)}
}

// splitPlace is the inverse of what slotOf makes of a pack's number and offset.
func splitPlace(place uint64) (seq uint32, off int64) {
	return uint32(place >> 32), int64(uint32(place)) * recordAlign
}

func newTable(max int) *table { return &table{max: max} }

func markOf(id ID) uint64 {
	return max(binary.LittleEndian.Uint64(id[:8]), 1)
}

// find calls visit for every place that may hold id, the youngest half first,
// until visit returns true.
func (t *table) find(id ID, visit func(seq uint32, off int64) bool) {
	for _, place := range t.places(id) {
		if visit(splitPlace(place)) {
			return
		}
	}
}

func (t *table) places(id ID) []uint64 {
	t.mu.RLock()
	defer t.mu.RUnlock()
	return t.old.places(id, t.young.places(id, nil))
}

func (t *table) add(s slot) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.young.used >= t.max {
		t.old, t.young = t.young, half{}
	}
	t.young.add(s)
}

func (h *half) places(id ID, to []uint64) []uint64 {
	if h.used == 0 {
		return to
	}
	mark, mask := markOf(id), uint64(len(h.slots)-1)
	for i := mark & mask; h.slots[i].mark != 0; i = (i + 1) & mask {
		if h.slots[i].mark == mark {
			to = append(to, h.slots[i].place)
		}
	}
	return to
}

func (h *half) add(s slot) {
	if 5*(h.used+1) > 4*len(h.slots) {
		h.grow()
	}
	mask := uint64(len(h.slots) - 1)
	i := s.mark & mask
	for h.slots[i].mark != 0 {
		i = (i + 1) & mask
	}
	h.slots[i] = s
	h.used++
}

func (h *half) grow() {
	was := h.slots
	*h = half{slots: make([]slot, max(1024, 2*len(was)))}
	for _, s := range was {
		if s.mark != 0 {
			h.add(s)
		}
	}
}
