package runs

import (
	"context"
)

// policyName is the name of the one policy there is.
const policyName = "retention"

// Policy is the policy of retention in force.
func (s *Store) Policy() PolicyState {
	s.mu.RLock()
	x := s.index.settings
	s.mu.RUnlock()
	return x.policy()
}

func (x *settings) policy() PolicyState {
	text, said := x.policies[policyName]
	if !said {
		return PolicyState{Policy: DefaultPolicy, Default: true}
	}
	return ParsePolicy(text)
}

// PolicyChange says what of the policy is to be different; nil: as it is.
type PolicyChange struct {
	RetainAll  *bool
	ThreadRuns *int64
	Runs       *int64
	LogBytes   *int64
}

// saidPolicy is a policy as it stands in the log.
type saidPolicy struct {
	Policy
	ByUID uint32 `json:"by_uid"`
}

// SetPolicy changes the policy of retention; it is durable when it returns, and
// nothing is compacted by it. What the change leaves out stays as it is in
// force, so that whoever changes one number does not let go of what another
// keeps. replayed: there was nothing to change. Needs an owner.
func (s *Store) SetPolicy(ctx context.Context, c Caller, ch PolicyChange) (now PolicyState, replayed bool, err error) {
	if r := ch.check(); r != nil {
		return PolicyState{}, false, r
	}
	err = s.set(ctx, c, func(x *settings) (*setting, *Refusal) {
		was := x.policy()
		next := ch.of(was.Policy)
		now = was
		if replayed = next == was.Policy && !was.Default && was.FellBack == nil && was.MigratedFrom == ""; replayed {
			return nil, nil
		}
		now = PolicyState{Policy: next, ByUID: &c.UID}
		return &setting{setPolicy, policyName, mustJSON(saidPolicy{next, c.UID})}, nil
	})
	return now, replayed, err
}

// check refuses numbers that a policy does not take.
func (ch *PolicyChange) check() *Refusal {
	given := map[string]*int64{"thread_runs": ch.ThreadRuns, "runs": ch.Runs, "log_bytes": ch.LogBytes}
	for _, b := range new(Policy).bounds() {
		if n := given[b.name]; n != nil && !b.takes(*n) {
			r := fieldRefusal(BadPolicy, b.name, "%s is %d, and 1 to %d are taken", b.name, *n, b.max)
			r.Size, r.Limit = *n, b.max
			return r
		}
	}
	return nil
}

// of is p with the change.
func (ch *PolicyChange) of(p Policy) Policy {
	p.Stamp = RetentionStamp
	if ch.RetainAll != nil {
		p.RetainAll = *ch.RetainAll
	}
	given := map[string]*int64{"thread_runs": ch.ThreadRuns, "runs": ch.Runs, "log_bytes": ch.LogBytes}
	for _, b := range p.bounds() {
		if n := given[b.name]; n != nil {
			b.set(*n)
		}
	}
	return p
}

// Due is what the policy in force would have give way now.
type Due struct {
	Runs  int    `json:"runs"`
	Rows  uint64 `json:"rows"`
	Bytes int64  `json:"bytes"` // of these rows, as they are shown
	// Oldest are the first of them, at most DueShownMax.
	Oldest []string `json:"oldest,omitempty"`
}

// DueShownMax bounds Due.Oldest.
const DueShownMax = 100

// PolicyDue decides which runs' logs are beyond the policy in force. It decides
// from memory, reads nothing and changes nothing: no log gives way yet. Its time
// grows with the number of runs. Needs an owner.
func (s *Store) PolicyDue(c Caller) (Due, error) {
	if !c.owns() {
		return Due{}, refuse(NotOwner, "what is due is not this caller's to read")
	}
	refs := s.Policy().DueForCompaction(s.retained()) // it takes long where there are many: nobody waits for it
	s.mu.RLock()
	defer s.mu.RUnlock()
	x := &s.index
	var due Due
	for _, ref := range refs {
		cols, i := x.at(uint32(ref))
		due.Runs++
		due.Rows += uint64(cols.lastSeq[i])
		due.Bytes += cols.logBytes[i]
		if due.Runs <= DueShownMax {
			due.Oldest = append(due.Oldest, x.id(uint32(ref)))
		}
	}
	return due, nil
}

// retained lists all runs as the decision sees them, a chunk at a time.
func (s *Store) retained() (runs []RetainedRun) {
	for from, more := 0, true; more; from += listChunk {
		s.mu.RLock()
		all := s.index.byAdmit
		for _, num := range all[min(from, len(all)):min(from+listChunk, len(all))] {
			if s.index.phase(num) != PhaseNone { // its admission was not undone
				runs = append(runs, s.index.retained(num))
			}
		}
		more = from+listChunk < len(all)
		s.mu.RUnlock()
	}
	return runs
}

// retained is a run as the decision sees it. A damaged run is kept: what is left
// of it is evidence.
func (x *index) retained(num uint32) RetainedRun {
	c, i := x.at(num)
	return RetainedRun{
		Ref: Ref(num), Thread: string(x.label(num, "thread")), LogBytes: c.logBytes[i],
		Keep:      !c.phase[i].sealed() || c.flags[i]&flagPinned != 0 || x.damaged[num] != nil,
		Compacted: c.flags[i]&flagCompacted != 0,
	}
}
