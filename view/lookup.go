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
	n, err := v.child(dir, name)
	if err != nil {
		return Attr{}, err
	}
	return v.Attr(n)
}

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
	case dir.Kind() == KindRun && dir.file() == fileDir:
		return v.lookupRun(dir, name)
	case dir == PayloadsDir(dir.run()):
		r, err := v.info(dir)
		if err != nil {
			return 0, err
		}
		p, err := v.payloadByName(r, name)
		return PayloadFile(r.Ref, p.Ordinal), err
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

// lookupRun finds a file of a run. Which of the optional ones there are is
// answered by Attr.
func (v *View) lookupRun(dir Node, name string) (Node, error) {
	r, err := v.info(dir)
	if err != nil {
		return 0, err
	}
	for file := fileRecord; file <= fileLate; file++ {
		if runFiles[file] == name {
			return v.runFile(r, uint32(file))
		}
	}
	return 0, ErrNotExist
}

var runFiles = [...]string{
	fileRecord:   "record",
	fileLog:      "log",
	filePayload:  "payload",
	filePayloads: "payloads",
	fileLate:     "late",
}

// runFile is the node of a file in a run's directory, as of now.
func (v *View) runFile(r runs.Run, file uint32) (Node, error) {
	switch file {
	case fileLog:
		return LogFile(r.Ref, r.Generation), nil
	case filePayload:
		p, ok, err := v.payload(r.Ref, runs.TerminalName)
		if err != nil || !ok || !ordinalFits(p.Ordinal) {
			return 0, orNotExist(err)
		}
		return PayloadFile(r.Ref, p.Ordinal), nil
	}
	return node(KindRun, uint32(r.Ref), file), nil
}

func orNotExist(err error) error {
	if err == nil {
		return ErrNotExist
	}
	return err
}

// info is what the index knows of the run that n belongs to.
func (v *View) info(n Node) (runs.Run, error) {
	r, ok := v.src.Info(n.run())
	if !ok {
		return runs.Run{}, ErrNotExist
	}
	return r, nil
}

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
