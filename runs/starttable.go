package runs

import (
	"encoding/binary"
	"slices"
)

// startTable finds the runs whose start had an idempotency key, by 32 bits of
// it: open addressing on one flat array. Whether it is the whole key their
// admissions say.
type startTable struct {
	slots []startSlot // a power of two, or none
	used  int
}

type startSlot struct{ print, num uint32 } // num 0: free

const startSlotsFirst = 64

func startPrint(key hash16) uint32 { return binary.LittleEndian.Uint32(key[:]) }

// candidates are the runs that may have been started with key, by number.
func (t *startTable) candidates(key hash16) (nums []uint32) {
	if len(t.slots) == 0 {
		return nil
	}
	print, mask := startPrint(key), len(t.slots)-1
	for i := int(print) & mask; t.slots[i].num != 0; i = (i + 1) & mask {
		if t.slots[i].print == print {
			nums = append(nums, t.slots[i].num)
		}
	}
	slices.Sort(nums)
	return nums
}

func (t *startTable) add(key hash16, num uint32) {
	if t.used >= len(t.slots)*3/4 {
		old := t.slots
		t.slots = make([]startSlot, max(startSlotsFirst, 2*len(old)))
		for _, s := range old {
			if s.num != 0 {
				t.put(s)
			}
		}
	}
	t.put(startSlot{startPrint(key), num})
	t.used++
}

// remove takes out a run, and moves those behind it that would not be found any
// more.
func (t *startTable) remove(key hash16, num uint32) {
	if len(t.slots) == 0 {
		return
	}
	mask := len(t.slots) - 1
	i := int(startPrint(key)) & mask
	for t.slots[i].num != num {
		if t.slots[i].num == 0 {
			return
		}
		i = (i + 1) & mask
	}
	t.slots[i] = startSlot{}
	t.used--
	for i = (i + 1) & mask; t.slots[i].num != 0; i = (i + 1) & mask {
		s := t.slots[i]
		t.slots[i] = startSlot{}
		t.put(s)
	}
}

func (t *startTable) put(s startSlot) {
	mask := len(t.slots) - 1
	i := int(s.print) & mask
	for t.slots[i].num != 0 {
		i = (i + 1) & mask
	}
	t.slots[i] = s
}

// startKey looks for an idempotency key among the runs; false if it has begun
// none. It reads the log where it has to. What it came to is kept in a, for
// the accept step to find out that it still holds: see startHolds.
func (s *Store) startKey(a *starting) (startKey, bool, error) {
	s.mu.RLock()
	sk, accepted := s.acc.starts.entries[a.key]
	nums := s.index.starts.candidates(a.key)
	s.mu.RUnlock()
	a.accepted, a.candidates, a.known = accepted, nums, startKey{}
	if accepted {
		a.known = sk
		return sk, true, nil
	}
	for _, num := range nums {
		adm, err := s.readAdmission(num)
		if err != nil {
			return startKey{}, false, err
		}
		if adm.keyed && adm.key == a.key {
			a.known = startKey{body: adm.body, num: num}
			return a.known, true, nil
		}
	}
	return startKey{}, false, nil
}

// startHolds reports whether what startKey came to still holds; mu is held. A
// start that was under way then may be published since, or refused.
func (s *Store) startHolds(a *starting) bool {
	sk, accepted := s.acc.starts.entries[a.key]
	if accepted {
		return sk == a.known
	}
	nums := s.index.starts.candidates(a.key)
	if a.accepted {
		return slices.Contains(nums, a.known.num)
	}
	return slices.Equal(nums, a.candidates)
}

// readAdmission reads the admission of a run.
func (s *Store) readAdmission(num uint32) (*admission, error) {
	at, err := s.admissionPlace(num)
	if err != nil {
		return nil, err
	}
	b, err := s.readBatch(at.pos())
	if err != nil {
		return nil, err
	}
	if int(at.entry) >= len(b.entries) || b.entries[at.entry].kind != kindAdmission {
		return nil, badBatch("it has no admission where the index says")
	}
	return parseAdmission(b.entries[at.entry])
}

func (s *Store) admissionPlace(num uint32) (place, error) {
	s.mu.RLock()
	c, i := s.index.at(num)
	tail := c.tail[i]
	var at place
	if r := s.index.recent[num]; r != nil {
		at = r.admission
	}
	s.mu.RUnlock()
	if at != (place{}) {
		return at, nil
	}
	sealed, err := s.sealed(num, tail)
	return sealed.admission, err
}
