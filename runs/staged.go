package runs

// A run may have rows and payloads before it is admitted: those that a copy
// takes over, which can be more than one batch holds. Each batch of them
// begins with a staged entry. Nobody sees them, since the run has no id and no
// phase yet; the one batch with its admission makes all of them visible. What
// was never admitted is forgotten at the next boot, and its number is not given
// again.

// stages reports whether what b has of the run is of one to come.
func (b *batch) stages(run uint32) bool {
	return b.entries[0].kind == kindStaged && b.entries[0].run == run
}

// known reports whether entries of the run may follow: it was admitted, or is
// to come.
func (x *index) known(num uint32) bool {
	if x.phase(num) != PhaseNone {
		return true
	}
	_, ok := x.staged[num]
	return ok
}

// applyStaged enters that what stands beside e in b is of a run to come.
func (x *index) applyStaged(b *batch, e entry) error {
	if x.phase(e.run) != PhaseNone {
		return badBatch("it stages rows of run %d, which was admitted", e.run)
	}
	if x.known(e.run) {
		return nil
	}
	x.grow(e.run)
	x.staged[e.run] = struct{}{}
	x.newest = max(x.newest, e.run)
	return x.foundBefore(b, e.run)
}

// unstage ends that a run is to come: it was admitted.
func (x *index) unstage(b *batch, num uint32) error {
	_, staged := x.staged[num]
	delete(x.staged, num)
	if staged {
		return nil
	}
	return x.foundBefore(b, num)
}

// foundBefore notes that everything of a run before its batch b is lost, where
// something is: the run is damaged, and b tells how much it was.
func (x *index) foundBefore(b *batch, num uint32) error {
	r := b.stamp.runs[b.stamp.find(num)]
	if x.damaged[num] == nil || r.seq <= 1 && r.ordinal == 0 {
		return nil
	}
	x.loseOf(num, 0)
	return x.found(num, r.seq, r.ordinal)
}

// dropStaged forgets a run that will not come. Where something of it is lost
// that may have been its admission, it counts as a run that nobody can name. In
// which segment it was last seen stays, for the footers of those to come.
func (x *index) dropStaged(num uint32) {
	if _, ok := x.staged[num]; !ok {
		return
	}
	delete(x.staged, num)
	if r := x.recent[num]; r != nil {
		for _, p := range r.payloads {
			delete(x.names, p.name)
		}
		delete(x.recent, num)
	}
	if d := x.damaged[num]; d != nil && d.loss != nil {
		x.damaged[num] = &damage{apart: true}
	} else {
		delete(x.damaged, num)
	}
	c, i := x.at(num)
	tail := c.tail[i]
	x.bytes -= c.bytes(i)
	c.clear(i)
	c.tail[i] = tail
}

// dropAllStaged forgets what a former boot has begun to copy and not admitted.
func (x *index) dropAllStaged() {
	for num := range x.staged {
		x.dropStaged(num)
	}
}
