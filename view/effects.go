package view

import "durafs/runs"

// Effect is what a kernel that remembers answers has to be told.
type Effect struct {
	What What
	Node Node
	// Name is set for StaleName: the name in the directory Node.
	Name string
}

// What got stale.
type What uint8

const (
	// StaleAttr: size and times of Node changed; bytes that were read are
	// right as they are.
	StaleAttr What = iota
	// StaleData: bytes of Node that were cached are to be dropped.
	StaleData
	// StaleName: Name in the directory Node appeared or means another node.
	StaleName
)

// Effects tells what a change made stale. Names that nobody can be expected to
// have asked for before they were there (ids, days, names of payloads) are not
// among them: that such a name is missing must not be remembered.
func (v *View) Effects(c runs.Change, yield func(Effect)) {
	attr := func(n Node) { yield(Effect{What: StaleAttr, Node: n}) }
	r, ok := v.src.Info(c.Ref)
	if !ok {
		if c.Kinds&runs.ChangedRemoved != 0 { // its admission was undone
			for _, n := range []Node{RunsDir, ByDayDir, ByThreadDir, ByPhaseDir, RunDir(c.Ref), RecordFile(c.Ref), PayloadsDir(c.Ref)} {
				attr(n)
			}
		}
		return
	}
	if c.Kinds&runs.ChangedAdmitted != 0 {
		attr(RunsDir)
		attr(ByDayDir)
		attr(dayDir(dayOf(r)))
		attr(ByThreadDir)
	}
	if c.Kinds&(runs.ChangedAdmitted|runs.ChangedPhase|runs.ChangedDamaged) != 0 {
		v.phaseEffects(c, r, yield)
	}
	if c.Kinds&runs.ChangedDamaged != 0 {
		yield(Effect{What: StaleName, Node: RunDir(r.Ref), Name: runFiles[fileLog]})
	}
	if c.Kinds&(runs.ChangedLog|runs.ChangedSealed) != 0 {
		attr(LogFile(r.Ref, r.Generation))
	}
	if c.Kinds&runs.ChangedPayload != 0 {
		attr(PayloadsDir(r.Ref))
	}
	for _, p := range c.Deleted { // its attributes stay good for those who have it open
		yield(Effect{What: StaleName, Node: PayloadsDir(r.Ref), Name: payloadName(p.Name, p.Ordinal)})
	}
	if c.Kinds&(runs.ChangedPayload|runs.ChangedSealed) != 0 {
		// The terminal payload is stored before the run ends, and is shown
		// when it did.
		yield(Effect{What: StaleName, Node: RunDir(r.Ref), Name: runFiles[filePayload]})
	}
	if c.Kinds&runs.ChangedLate != 0 {
		attr(LateFile(r.Ref))
		yield(Effect{What: StaleName, Node: RunDir(r.Ref), Name: runFiles[fileLate]})
	}
	if c.Kinds&runs.ChangedSealed != 0 {
		attr(HistoryFile(r.Ref)) // until then nobody remembers its size
		yield(Effect{What: StaleData, Node: LogFile(r.Ref, r.Generation)})
	}
	attr(RecordFile(r.Ref))
	attr(RunDir(r.Ref))
}

// phaseEffects tells that a run's link is in the directory of its phase now, and
// not in any other; which one it has left nobody says.
func (v *View) phaseEffects(c runs.Change, r runs.Run, yield func(Effect)) {
	yield(Effect{What: StaleAttr, Node: ByPhaseDir})
	for p := runs.Running; p <= runs.Terminal; p++ {
		yield(Effect{What: StaleAttr, Node: PhaseDir(p)})
		if p != r.Phase && c.Kinds&(runs.ChangedPhase|runs.ChangedDamaged) != 0 {
			yield(Effect{What: StaleName, Node: PhaseDir(p), Name: r.ID})
		}
	}
}

// NegativeName tells whether a directory answers for the appearance of a name:
// only then may its absence be remembered.
func NegativeName(dir Node, name string) bool {
	return dir.Kind() == KindRun && dir.file() == fileDir &&
		(name == runFiles[filePayload] || name == runFiles[fileLate])
}
