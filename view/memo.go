package view

import "sync"

// memoSlots is how many values a memo keeps, and memoWeightMax how much they
// weigh together, but for the one that was asked for last.
const (
	memoSlots     = 16
	memoWeightMax = 16 << 20 // bytes
)

// memo keeps what was worked out last: a kernel asks for a file's size, opens
// it and lists its directory in pieces, each of which would else work it out
// from the start. A key says all that its value depends on.
type memo[K comparable, V any] struct {
	mu    sync.Mutex
	slots [memoSlots]struct {
		key    K
		value  V
		weight int64 // 0 for an empty slot
	}
	turn int // the slot to be replaced next
}

// get answers what was kept under key, or makes it; weight is in bytes. What
// fails is not kept, and what has spoiled since is made anew.
func (m *memo[K, V]) get(key K, make func() (V, error), weight func(V) int64) (V, error) {
	if v, ok := m.cached(key); ok {
		if s, may := any(v).(interface{ spoiled() bool }); !may || !s.spoiled() {
			return v, nil
		}
	}
	v, err := make()
	if err == nil {
		m.keep(key, v, max(weight(v), 1))
	}
	return v, err
}

func (m *memo[K, V]) cached(key K) (v V, ok bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for i := range m.slots {
		if s := &m.slots[i]; s.weight > 0 && s.key == key {
			return s.value, true
		}
	}
	return v, false
}

func (m *memo[K, V]) keep(key K, v V, weight int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	kept := weight
	for back := range m.slots { // from the newest to the one whose slot this takes
		i := (m.turn + 2*memoSlots - 1 - back) % memoSlots
		if i == m.turn || m.slots[i].key == key || kept+m.slots[i].weight > memoWeightMax {
			clear(m.slots[i : i+1])
		}
		kept += m.slots[i].weight
	}
	s := &m.slots[m.turn]
	s.key, s.value, s.weight = key, v, weight
	m.turn = (m.turn + 1) % memoSlots
}
