package runs

import "sync"

// addAll enters many runs at once: one after the other they would be put into
// slots all over the table, each a wait for memory. So they are sorted by where
// they belong, roughly, and each part of the table is filled by itself, two
// parts at a time. Their ids must not be there.
func (t *ids) addAll(nums []uint32, idOf func(num uint32) []byte) {
	t.reserve(t.used+len(nums), idOf)
	if len(nums) < bulkMin {
		for _, num := range nums {
			t.put(num, idOf(num))
		}
		t.used += len(nums)
		return
	}
	slots := make([]uint32, len(nums))
	inHalves(len(nums), func(from, to int) {
		for i := from; i < to; i++ {
			slots[i] = uint32(t.slot(idOf(nums[i])))
		}
	})
	partSlots := uint32(len(t.slots) / bulkParts)
	var ends [bulkParts + 1]int
	for _, s := range slots {
		ends[s/partSlots+1]++
	}
	for p := range bulkParts {
		ends[p+1] += ends[p]
	}
	sorted := make([]bulkSlot, len(nums))
	next := ends
	for i, s := range slots {
		p := s / partSlots
		sorted[next[p]] = bulkSlot{s, nums[i]}
		next[p]++
	}
	var over [bulkParts][]uint32
	inHalves(bulkParts, func(from, to int) {
		for p := from; p < to; p++ {
			over[p] = t.fill(sorted[ends[p]:ends[p+1]], (p+1)*int(partSlots))
		}
	})
	for _, list := range over {
		for _, num := range list {
			t.put(num, idOf(num))
		}
	}
	t.used += len(nums)
}

const (
	bulkMin   = 4096
	bulkParts = 64
)

type bulkSlot struct{ slot, num uint32 }

// fill puts runs into one part of the table, which ends at end, and returns
// those that find no place in it.
func (t *ids) fill(list []bulkSlot, end int) (over []uint32) {
	for _, b := range list {
		i := int(b.slot)
		for i < end && t.slots[i] != 0 {
			i++
		}
		if i == end {
			over = append(over, b.num)
			continue
		}
		t.slots[i] = b.num
	}
	return over
}

// inHalves runs do for both halves of n at the same time.
func inHalves(n int, do func(from, to int)) {
	atOnce(func() { do(0, n/2) }, func() { do(n/2, n) })
}

// atOnce runs both at the same time.
func atOnce(a, b func()) {
	var other sync.WaitGroup
	other.Go(b)
	a()
	other.Wait()
}
