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
	if dir.Kind() == KindRun {
		return v.lookupRun(dir, name)
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
	case dir.Kind() == KindDay:
		return v.lookupDay(dir, name)
	}
	return 0, ErrNotExist
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
}

func (v *View) lookupDay(dir Node, name string) (Node, error) {
	ref, ok := v.src.Lookup(name)
	if !ok {
		return 0, ErrNotExist
	}
	if r, ok := v.src.Info(ref); !ok || dayOf(r) != dir.day() {
		return 0, ErrNotExist
	}
	return dayLink(ref), nil
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
	for file := fileRecord; dir == RunDir(r.Ref) && file <= fileLate; file++ {
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
	case KindDay:
		return ByDayDir
	case KindDayLink:
		if r, ok := v.src.Info(n.run()); ok {
			return dayDir(dayOf(r))
		}
	}
	return Root
}
