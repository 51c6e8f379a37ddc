package cas

// The faults of package mutant that take more than a condition. None of this is
// in a usual build.

// countsAtOnce lets what is stored pass for durable.
func (at place) countsAtOnce() {
	at.p.mu.Lock()
	defer at.p.mu.Unlock()
	at.p.durable = max(at.p.durable, int64(at.hint.End))
}
