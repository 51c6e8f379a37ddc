package runs

// recent is where a run's parts lie in segments that are not sealed. It goes
// as they are sealed: then their footers tell. Lists are only appended to, and
// replaced when they are cut, so that a reader may keep what it has seen.
type recent struct {
	extents   []extent
	payloads  []namedPlace
	late      []lateRow
	deleted   []namedPlace // where payloads were deleted
	admission place        // zero: it lies in a sealed segment
}

type namedPlace struct {
	name hash16
	at   place
}

func (x *index) recentOf(num uint32) *recent {
	r := x.recent[num]
	if r == nil {
		r = new(recent)
		x.recent[num] = r
	}
	return r
}

// forget drops what lies in the segment seg, which is sealed and the first of
// those that the lists tell of.
func (x *index) forget(num, seg uint32) {
	r := x.recent[num]
	if r == nil {
		return
	}
	r.extents = behind(r.extents, func(e extent) bool { return e.segment == seg })
	r.payloads = behind(r.payloads, func(p namedPlace) bool { return p.at.segment == seg })
	r.late = behind(r.late, func(l lateRow) bool { return l.at.segment == seg })
	r.deleted = behind(r.deleted, func(p namedPlace) bool { return p.at.segment == seg })
	if r.admission.segment == seg {
		r.admission = place{}
	}
	if len(r.extents) == 0 && len(r.payloads) == 0 && len(r.late) == 0 && len(r.deleted) == 0 && r.admission == (place{}) {
		delete(x.recent, num)
	}
}

// behind is a copy of what follows the elements that are gone.
func behind[E any](list []E, gone func(E) bool) []E {
	n := 0
	for n < len(list) && gone(list[n]) {
		n++
	}
	if n == 0 {
		return list
	}
	return append([]E(nil), list[n:]...)
}
