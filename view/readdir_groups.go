package view

import (
	"cmp"
	"slices"

	"durafs/runs"
)

// grouped are the runs in a day's or a thread's directory.
func (v *View) grouped(dir Node) ([]runs.Ref, error) {
	if dir == dayDir(dir.day()) {
		if g, ok := v.days.find(v.src, dir.day()); ok {
			return g.refs, nil
		}
	}
	if dir != threadGroup(dir.run()) {
		return nil, ErrNotExist
	}
	name, err := v.groupName(dir)
	if err != nil {
		return nil, err
	}
	g, _ := v.threads.find(v.src, name)
	return g.refs, nil
}

// byThread lists the threads that have runs, by the first run of each.
func (l *lister) byThread() error {
	for from := l.from; from < 1<<runBits; {
		list := l.v.threads.from(l.v.src, uint32(from), listedAtOnce)
		for _, g := range list {
			first, ok := l.v.first(g.refs)
			if !ok {
				continue
			}
			n, name := threadGroup(first), labelName(g.key, threadPrefix, uint64(first))
			a := Attr{Node: n, Type: modeDir, Mtime: g.mtime, Live: true}
			if !l.entry(uint64(g.refs[0]), name, n, func() (Attr, error) { return a, nil }) {
				return nil
			}
		}
		if len(list) < listedAtOnce {
			return nil
		}
		from = uint64(list[len(list)-1].refs[0]) + 1
	}
	return nil
}

func (l *lister) byPhase() error {
	for p := runs.Phase(max(l.from, uint64(runs.Running))); p <= runs.Terminal; p++ {
		n := PhaseDir(p)
		if !l.entry(uint64(p), p.String(), n, func() (Attr, error) { return l.v.Attr(n) }) {
			break
		}
	}
	return nil
}

// phase lists the runs that are in a phase now.
func (l *lister) phase(dir Node) error {
	p, ok := phaseOf(dir)
	if !ok {
		return ErrNotExist
	}
	for from := l.from; from < 1<<runBits; {
		list := l.v.src.InPhase(p, runs.Ref(from), listedAtOnce)
		for _, ref := range list {
			r, ok := l.v.src.Info(ref)
			if ok && r.Phase == p && !l.link(phaseLink(r), r) {
				return nil
			}
		}
		if len(list) < listedAtOnce {
			return nil
		}
		from = uint64(list[len(list)-1]) + 1
	}
	return nil
}

// threads lists the threads that have messages, by the first message of each.
func (l *lister) threads() error {
	for from := l.from; ; {
		list := l.v.src.ThreadsFrom(from, listedAtOnce)
		for _, h := range list {
			if !l.entry(h.Number, labelName(h.Name, threadPrefix, h.Number), ThreadNode(h.Number), unasked) {
				return nil
			}
		}
		if len(list) < listedAtOnce {
			return nil
		}
		from = list[len(list)-1].Number + 1
	}
}

func (l *lister) thread(dir Node) error {
	if _, err := l.v.thread(dir); err != nil {
		return err
	}
	for file := max(l.from, threadText); file <= threadJSON; file++ {
		if !l.entry(file, threadFiles[file], threadNode(dir.lsn(), uint32(file)), unasked) {
			break
		}
	}
	return nil
}

// journals lists the journals by the numbers of their targets.
func (l *lister) journals() error {
	targets := l.v.src.JournalTargets()
	slices.SortFunc(targets, func(a, b runs.Target) int { return cmp.Compare(a.Number, b.Number) })
	for _, t := range targets {
		if uint64(t.Number) < l.from {
			continue
		}
		if !l.entry(uint64(t.Number), targetName(t), journalFile(t), unasked) {
			break
		}
	}
	return nil
}

// tools lists a run's calls. How many there are is known when the log was
// walked; see memo.
func (l *lister) tools(r runs.Run) error {
	calls, err := l.v.calls(r)
	if err != nil {
		return err
	}
	for call := max(l.from, 1); call <= uint64(min(calls.Len(), FileMax)); call++ {
		if !l.entry(call, callName(call), ToolFile(r.Ref, uint32(call)), unasked) {
			break
		}
	}
	return nil
}
