package runs

import (
	"maps"
	"slices"
	"time"
)

// What the mount groups runs by. All of it comes from memory.

// ThreadOf is the thread that a run's labels name, "" for none.
func (s *Store) ThreadOf(ref Ref) string {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if s.index.phase(uint32(ref)) == PhaseNone {
		return ""
	}
	return string(s.index.label(uint32(ref), "thread"))
}

// InPhase lists runs that are in a phase, by number from the one from on, at
// most limit. Of runs that ended it looks at each that there is, behind from.
func (s *Store) InPhase(p Phase, from Ref, limit int) []Ref {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if live := s.index.live[p]; live != nil {
		return smallest(live, from, limit)
	}
	var list []Ref
	for num := max(uint32(from), 1); num <= s.index.newest && len(list) < limit; num++ {
		if s.index.phase(num) == p {
			list = append(list, Ref(num))
		}
	}
	return list
}

// smallest are the lowest numbers of a set that are from or higher.
func smallest(set map[uint32]struct{}, from Ref, limit int) []Ref {
	nums := slices.Sorted(maps.Keys(set))
	at, _ := slices.BinarySearch(nums, uint32(from))
	nums = nums[at:min(len(nums), at+limit)]
	list := make([]Ref, len(nums))
	for i, num := range nums {
		list[i] = Ref(num)
	}
	return list
}

// PhasedAt is when a run last got into another phase, or later: it never goes
// back.
func (s *Store) PhasedAt() time.Time {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return unixTime(s.index.phased)
}
