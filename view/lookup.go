package view

import "durafs/runs"

// Lookup finds a name in a directory. A directory that cannot have entries
// any more is ErrStale or ErrNotExist as in Attr.
func (v *View) Lookup(dir Node, name string) (Attr, error) {
	if dir.Type()&modeDir == 0 {
		return Attr{}, ErrNotDir
	}
	if len(name) > NameBytesMax {
		return Attr{}, ErrNameTooLong
	}
	switch dir.Kind() {
	case KindRun:
		return v.lookupRun(dir, name)
	case KindThread:
		return v.lookupThread(dir, name)
	}
	n, err := v.child(dir, name)
	if err != nil {
		return Attr{}, err
	}
	return v.Attr(n)
}

// child finds a name in a directory that belongs to no run.
func (v *View) child(dir Node, name string) (Node, error) {
	switch {
	case dir == Root:
		return lookupRoot(name)
	case dir == RunsDir:
		if ref, ok := v.src.Lookup(name); ok {
			return RunDir(ref), nil
		}
	case dir == ByDayDir:
		if day, ok := parseDay(name); ok {
			return dayDir(day), nil
		}
	case dir == ByThreadDir:
		return v.lookupGroup(name)
	case dir == ByPhaseDir:
		if p, ok := runs.ParsePhase(name); ok {
			return PhaseDir(p), nil
		}
	case dir == ThreadsDir:
		return v.lookupThreads(name)
	case dir == JournalDir:
		return v.lookupJournal(name)
	}
	return v.lookupLink(dir, name)
}

func lookupRoot(name string) (Node, error) {
	for _, e := range rootEntries {
		if e.name == name {
			return e.node, nil
		}
	}
	return 0, ErrNotExist
}

var rootEntries = []struct {
	name string
	node Node
}{
	{"runs", RunsDir},
	{"by-day", ByDayDir},
	{"status", StatusFile},
	{"by-thread", ByThreadDir},
	{"by-phase", ByPhaseDir},
	{"threads", ThreadsDir},
	{"journal", JournalDir},
}

// lookupLink finds a run's link in a directory of links.
func (v *View) lookupLink(dir Node, name string) (Node, error) {
	ref, ok := v.src.Lookup(name)
	if !ok {
		return 0, ErrNotExist
	}
	r, ok := v.src.Info(ref)
	if !ok {
		return 0, ErrNotExist
	}
	for _, n := range [...]Node{dayLink(ref), threadLink(ref), phaseLink(r)} {
		if v.linkDir(n, r) == dir {
			return n, nil
		}
	}
	return 0, ErrNotExist
}

// linkDir is the directory that a link to r lies in; 0 where there is none.
func (v *View) linkDir(n Node, r runs.Run) Node {
	switch n {
	case dayLink(r.Ref):
		return dayDir(dayOf(r))
	case phaseLink(r):
		return PhaseDir(r.Phase)
	case threadLink(r.Ref):
		if g, ok := v.threadGroup(v.src.ThreadOf(r.Ref)); ok {
			return g
		}
	}
	return 0
}

// lookupRun finds a name in a run's directory or among its payloads.
func (v *View) lookupRun(dir Node, name string) (Attr, error) {
	r, err := v.info(dir)
	if err != nil {
		return Attr{}, err
	}
	if dir == PayloadsDir(r.Ref) {
		p, err := v.payloadByName(r, name)
		if err != nil {
			return Attr{}, err
		}
		return payloadAttr(r.Ref, p), nil
	}
	if dir == ToolsDir(r.Ref) {
		if call, ok := parseNumber(name); ok && call <= FileMax {
			return v.runAttr(Attr{Node: ToolFile(r.Ref, uint32(call))}, r)
		}
	}
	for file := fileRecord; dir == RunDir(r.Ref) && file <= fileLast; file++ {
		if runFiles[file] == name {
			return v.runFile(r, uint32(file))
		}
	}
	return Attr{}, ErrNotExist
}

var runFiles = [...]string{
	fileRecord:   "record",
	fileLog:      "log",
	filePayload:  "payload",
	filePayloads: "payloads",
	fileLate:     "late",
	fileHistory:  "history",
	fileTools:    "tools",
}

// runFile is a file in a run's directory, as of now.
func (v *View) runFile(r runs.Run, file uint32) (Attr, error) {
	n := runFileNode(r, file)
	if file != filePayload {
		return v.runAttr(Attr{Node: n, Type: n.Type()}, r)
	}
	p, ok, err := v.payload(r.Ref, runs.TerminalName)
	switch {
	case err != nil:
		return Attr{}, err
	case !ok || !ordinalFits(p.Ordinal):
		return Attr{}, ErrNotExist
	}
	return payloadAttr(r.Ref, p), nil
}

// runFileNode is its node, which for the terminal payload is not known without
// asking.
func runFileNode(r runs.Run, file uint32) Node {
	if file == fileLog {
		return LogFile(r.Ref, r.Generation)
	}
	return node(KindRun, uint32(r.Ref), file)
}

// info is what the index knows of the run that n belongs to. One whose admission
// was undone is ErrStale: another may have its id by now, and whoever remembers
// what the name meant has to look it up again.
func (v *View) info(n Node) (runs.Run, error) {
	r, ok := v.src.Info(n.run())
	switch {
	case ok:
		return r, nil
	case n.run() != 0 && n.run() <= v.src.Newest():
		return runs.Run{}, ErrStale
	}
	return runs.Run{}, ErrNotExist
}

// Run tells what is known of a run.
func (v *View) Run(ref runs.Ref) (runs.Run, bool) { return v.src.Info(ref) }

// Parent is the directory that n lies in: what ".." means there.
func (v *View) Parent(n Node) Node {
	switch n.Kind() {
	case KindRun:
		if n.file() == fileDir {
			return RunsDir
		}
		return RunDir(n.run())
	case KindLog:
		return RunDir(n.run())
	case KindPayload:
		return PayloadsDir(n.run()) // or the run's directory, for the terminal one
	case KindTool:
		return ToolsDir(n.run())
	case KindThread:
		if n.threadFile() != threadDir {
			return ThreadNode(n.lsn())
		}
		return ThreadsDir
	case KindGroup:
		if n.file() == groupThread {
			return ByThreadDir
		}
		return ByDayDir
	case KindLink:
		if r, ok := v.src.Info(n.run()); ok {
			if dir := v.linkDir(n, r); dir != 0 {
				return dir
			}
		}
	case KindFixed:
		if _, ok := phaseOf(n); ok {
			return ByPhaseDir
		}
		if n.isJournal() {
			return JournalDir
		}
	}
	return Root
}
