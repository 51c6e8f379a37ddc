package view

import (
	"io/fs"
	"time"

	"durafs/runs"
)

const modeDir = fs.ModeDir

// Attr tells what is known of a node. A node that stands for nothing is
// ErrNotExist; a log of an earlier generation, and what was of a run that is
// gone, ErrStale.
func (v *View) Attr(n Node) (Attr, error) {
	a := Attr{Node: n, Type: n.Type()}
	switch n.Kind() {
	case KindFixed:
		return v.fixedAttr(a)
	case KindGroup:
		return v.groupAttr(a)
	case KindThread:
		return v.threadAttr(a)
	}
	r, err := v.info(n)
	if err != nil {
		return Attr{}, err
	}
	return v.runAttr(a, r)
}

// AttrOf is Attr of a file that is open: its size is the handle's, and where
// that is of one moment nobody has to work out what it would be now.
func (v *View) AttrOf(n Node, h Handle) (Attr, error) {
	a := Attr{Node: n, Size: h.Size(), Live: true}
	switch n.Kind() {
	case KindFixed:
		a.Mtime = v.admitted.last(v.src)
		return a, nil
	case KindThread:
		head, err := v.thread(n)
		a.Mtime = v.src.ThreadLastAt(head.Name)
		return a, err
	case KindRun, KindTool:
		r, err := v.info(n)
		a.Mtime, a.Live = r.ChangedAt, !r.Sealed()
		return a, err
	}
	now, err := v.Attr(n)
	if err == ErrNotExist && n.Kind() == KindPayload { // it was deleted, and is read on
		a.Live, a.Sealed = false, true
		return a, nil
	}
	if err == nil && !now.Sealed {
		now.Size = a.Size
	}
	return now, err
}

func (v *View) fixedAttr(a Attr) (Attr, error) {
	a.Mtime, a.Live = v.admitted.last(v.src), true
	switch a.Node {
	case StatusFile:
		a.Size = int64(len(v.status()))
		return a, nil
	case ByPhaseDir:
		a.Mtime = v.src.PhasedAt()
		return a, nil
	case Root, RunsDir, ByDayDir, ByThreadDir, ThreadsDir, JournalDir:
		return a, nil
	}
	if _, ok := phaseOf(a.Node); ok {
		a.Mtime = v.src.PhasedAt()
		return a, nil
	}
	t, err := v.target(a.Node)
	if err != nil {
		return Attr{}, err
	}
	text, err := v.journal(t)
	a.Size = int64(len(text))
	return a, err
}

// groupAttr is of the directory of a day's or a thread's runs.
func (v *View) groupAttr(a Attr) (Attr, error) {
	a.Live = true
	if a.Node == dayDir(a.Node.day()) {
		g, ok := v.days.find(v.src, a.Node.day())
		if !ok {
			return Attr{}, ErrNotExist
		}
		a.Mtime = g.mtime
		return a, nil
	}
	if a.Node != threadGroup(a.Node.run()) {
		return Attr{}, ErrNotExist
	}
	name, err := v.groupName(a.Node)
	if err != nil {
		return Attr{}, err
	}
	g, _ := v.threads.find(v.src, name)
	a.Mtime = g.mtime
	return a, nil
}

// threadAttr is of a thread's directory or of a file in it.
func (v *View) threadAttr(a Attr) (Attr, error) {
	if a.Node.threadFile() > threadJSON {
		return Attr{}, ErrNotExist
	}
	h, err := v.thread(a.Node)
	if err != nil {
		return Attr{}, err
	}
	a.Mtime, a.Live = v.src.ThreadLastAt(h.Name), true
	if a.Node.threadFile() == threadDir {
		return a, nil
	}
	f, err := v.threadFile(a.Node)
	if err != nil {
		return Attr{}, err
	}
	a.Size = f.Size()
	return a, nil
}

// runAttr fills in what belongs to a run of which r is known.
func (v *View) runAttr(a Attr, r runs.Run) (Attr, error) {
	n := a.Node
	a.Mtime, a.Live = r.ChangedAt, !r.Sealed()
	switch {
	case n == RunDir(r.Ref), n == PayloadsDir(r.Ref), n == ToolsDir(r.Ref):
		return a, nil
	case n == HistoryFile(r.Ref):
		return v.historyAttr(a, r)
	case n.Kind() == KindTool && n == ToolFile(r.Ref, n.file()):
		text, err := v.call(r, n.file())
		a.Size = int64(len(text))
		return a, err
	case n == RecordFile(r.Ref):
		return v.recordAttr(a)
	case n == LateFile(r.Ref):
		if a.Size = r.LateBytes; r.LateBytes == 0 {
			return Attr{}, ErrNotExist
		}
		return a, nil
	case n.Kind() == KindLog:
		return logAttr(a, r)
	case n.Kind() == KindLink:
		return v.linkAttr(a, r)
	case n.Kind() == KindPayload && n == PayloadFile(r.Ref, n.file()):
		p, err := v.payloadByOrdinal(r, n.file())
		if err != nil {
			return Attr{}, err
		}
		return payloadAttr(r.Ref, p), nil
	}
	return Attr{}, ErrNotExist
}

func (v *View) historyAttr(a Attr, r runs.Run) (Attr, error) {
	f, err := v.history(r)
	if err != nil {
		return Attr{}, err
	}
	a.Size = f.Size()
	return a, nil
}

// linkAttr is of a link. What lies in a phase's directory moves.
func (v *View) linkAttr(a Attr, r runs.Run) (Attr, error) {
	if v.linkDir(a.Node, r) == 0 {
		return Attr{}, ErrNotExist
	}
	a.Size, a.Mtime, a.Live = int64(len(linkTarget(r))), r.StartedAt, a.Node == phaseLink(r)
	return a, nil
}

func (v *View) recordAttr(a Attr) (Attr, error) {
	text, err := v.record(a.Node.run())
	if err != nil {
		return Attr{}, err
	}
	a.Size = int64(len(text))
	return a, nil
}

func logAttr(a Attr, r runs.Run) (Attr, error) {
	switch want := LogFile(r.Ref, r.Generation); {
	case a.Node == want:
	case a.Node.run() == r.Ref && a.Node < want:
		return Attr{}, ErrStale
	default:
		return Attr{}, ErrNotExist
	}
	a.Size, a.Sealed = r.LogBytes, r.Sealed()
	return a, nil
}

func payloadAttr(ref runs.Ref, p runs.PayloadInfo) Attr {
	return Attr{Node: PayloadFile(ref, p.Ordinal), Size: p.Bytes, Mtime: p.At, Sealed: true}
}

// Readlink tells where a link points to.
func (v *View) Readlink(n Node) (string, error) {
	if n.Type() != fs.ModeSymlink {
		return "", ErrNotLink
	}
	r, err := v.info(n)
	if err != nil {
		return "", err
	}
	return linkTarget(r), nil
}

func linkTarget(r runs.Run) string { return "../../runs/" + r.ID }

// Permissions of the tree as its owner sees it; nobody writes.
const (
	dirPerm  fs.FileMode = 0o500
	filePerm fs.FileMode = 0o400
	linkPerm fs.FileMode = 0o777
)

// Mode is the node's complete file mode.
func (a Attr) Mode() fs.FileMode {
	switch a.Type {
	case fs.ModeDir:
		return a.Type | dirPerm
	case fs.ModeSymlink:
		return a.Type | linkPerm
	}
	return filePerm
}

// mtime is never before 1970, which some readers cannot say.
func (a Attr) mtime() time.Time {
	if a.Mtime.Unix() < 0 {
		return time.Unix(0, 0).UTC()
	}
	return a.Mtime
}
