package simdisk

// Shrink looks for a state at the same call that fails too and is closer to a
// plain one, where everything that is pending is there, or nothing: what is
// left as an exception is what matters. fails is called with many disks. The
// state that it returns is good until the next is asked of the Explorer.
func (s *State) Shrink(fails func(*Disk) bool) *State {
	if s.Warm {
		return s
	}
	full := s.shrink(true, fails)
	empty := s.shrink(false, fails)
	if full.exceptions(true) <= empty.exceptions(false) {
		return full
	}
	return empty
}

// shrink turns one choice after the other into what it is in the plain state,
// first those of whole changes.
func (s *State) shrink(there bool, fails func(*Disk) bool) *State {
	t := &State{Calls: s.Calls, Hash: s.Hash, e: s.e, plan: s.plan.clone()}
	pt := &s.e.point
	plain := t.plan.clone()
	if there {
		plain.all(pt)
	} else {
		plain.none(pt)
	}
	try := func(set func(p *plan)) {
		p := t.plan.clone()
		set(p)
		if pt.hash(p) == pt.hash(t.plan) {
			t.plan = p
			return
		}
		next := &State{Calls: s.e.at - p.early, Hash: pt.hash(p), e: s.e, plan: p}
		if fails(next.Disk()) {
			t = next
		}
	}
	if t.plan.head != nil {
		try(func(p *plan) { p.head, p.early = nil, 0 })
	}
	for i := range pt.dirty {
		f := &pt.dirty[i]
		try(func(p *plan) { p.sizes[i] = plain.sizes[i] })
		for k := range f.n.changes {
			from, to := f.partsOf(k)
			try(func(p *plan) { fill(p.parts[from:to], there) })
			for j := from; j < to && to-from > 1; j++ {
				if t.plan.parts[j] != there {
					try(func(p *plan) { p.parts[j] = there })
				}
			}
		}
	}
	for i := range plain.names {
		try(func(p *plan) { p.names[i] = there })
	}
	return t
}

// exceptions counts where a state is not the plain one.
func (s *State) exceptions(there bool) int {
	n := 0
	for _, v := range s.plan.names {
		if v != there {
			n++
		}
	}
	for _, v := range s.plan.parts {
		if v != there {
			n++
		}
	}
	if s.plan.head != nil {
		n++
	}
	return n
}
