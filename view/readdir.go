package view

import (
	"errors"
	"slices"

	"durafs/runs"
)

// Cookie tells where in a directory a listing goes on: behind the entry that
// has it. It is made of the entry's own number and not of its position, so it
// keeps its meaning while other entries come and go. 0 is the start.
type Cookie uint64

// The first cookies are left to "." and "..", which a kernel wants and this
// package does not list.
const (
	CookieDot     Cookie = 1
	CookieDotDot  Cookie = 2
	cookieEntries Cookie = 3
)

// Entry is one name in a directory.
type Entry struct {
	Name   string
	Node   Node
	Cookie Cookie
	// Attr is filled in where ReadDir was asked for it.
	Attr Attr
}

// ReadDir calls yield for the entries of dir behind cookie, in the order of
// their cookies, until yield answers false. With attrs each entry comes with
// its Attr; what is gone between the two is left out. Runs are listed by
// number, each found without looking at those before it.
func (v *View) ReadDir(dir Node, after Cookie, attrs bool, yield func(Entry) bool) error {
	if dir.Type()&modeDir == 0 {
		return ErrNotDir
	}
	l := lister{v: v, attrs: attrs, yield: yield}
	if after >= cookieEntries {
		l.from = uint64(after-cookieEntries) + 1
	}
	switch {
	case dir == Root:
		return l.root()
	case dir == RunsDir:
		return l.runs()
	case dir == ByDayDir:
		return l.days()
	case dir == ByThreadDir:
		return l.byThread()
	case dir == ByPhaseDir:
		return l.byPhase()
	case dir == ThreadsDir:
		return l.threads()
	case dir == JournalDir:
		return l.journals()
	case dir.Kind() == KindThread:
		return l.thread(dir)
	case dir.Kind() == KindGroup:
		return l.group(dir)
	case dir.Kind() == KindFixed:
		return l.phase(dir)
	}
	r, err := v.info(dir)
	if err != nil {
		return err
	}
	switch dir {
	case PayloadsDir(r.Ref):
		return l.payloads(r)
	case ToolsDir(r.Ref):
		return l.tools(r)
	case RunDir(r.Ref):
		return l.run(r)
	}
	return ErrNotExist
}

// unasked leaves an entry without its attributes where they cost more than a
// look at memory: whoever wants them asks about the entry.
func unasked() (Attr, error) { return Attr{}, errUnasked }

var errUnasked = errors.New("view: nobody asked yet")

// lister lists one directory, from the entry with the number from.
type lister struct {
	v     *View
	from  uint64
	attrs bool
	yield func(Entry) bool
}

// entry hands one entry out; attr is called only if its answer is wanted. An
// entry that cannot be asked about is listed all the same, since it is there,
// and whoever opens it gets the reason.
func (l *lister) entry(number uint64, name string, n Node, attr func() (Attr, error)) bool {
	e := Entry{Name: name, Node: n, Cookie: Cookie(number) + cookieEntries}
	if l.attrs {
		a, err := attr()
		switch {
		case err == ErrNotExist || err == ErrStale:
			return true
		case err != nil:
			a = Attr{}
		}
		e.Attr = a
	}
	return l.yield(e)
}

func (l *lister) root() error {
	for i := l.from; i < uint64(len(rootEntries)); i++ {
		e := rootEntries[i]
		if !l.entry(i, e.name, e.node, func() (Attr, error) { return l.v.Attr(e.node) }) {
			break
		}
	}
	return nil
}

func (l *lister) runs() error {
	newest := uint64(l.v.src.Newest())
	for number := max(l.from, 1); number <= newest; number++ {
		r, ok := l.v.src.Info(runs.Ref(number))
		if !ok {
			continue
		}
		n := RunDir(r.Ref)
		if !l.entry(number, r.ID, n, func() (Attr, error) { return l.v.runAttr(Attr{Node: n, Type: modeDir}, r) }) {
			break
		}
	}
	return nil
}

func (l *lister) days() error {
	for _, g := range l.v.days.from(l.v.src, uint32(min(l.from, dayMax+1)), dayMax) {
		n := dayDir(g.key)
		if !l.entry(uint64(g.key), dayName(g.key), n, func() (Attr, error) { return l.v.Attr(n) }) {
			break
		}
	}
	return nil
}

// group lists the runs of a day or of a thread.
func (l *lister) group(dir Node) error {
	refs, err := l.v.grouped(dir)
	if err != nil {
		return err
	}
	at, _ := slices.BinarySearch(refs, runs.Ref(min(l.from, 1<<runBits-1)))
	for _, ref := range refs[at:] {
		if r, ok := l.v.src.Info(ref); ok && !l.link(node(KindLink, uint32(ref), dir.file()), r) {
			break
		}
	}
	return nil
}

func (l *lister) link(n Node, r runs.Run) bool {
	return l.entry(uint64(r.Ref), r.ID, n, func() (Attr, error) { return l.v.runAttr(Attr{Node: n, Type: n.Type()}, r) })
}

// run lists a run's directory. Which of the optional files there are is known
// only with their attributes; those of the record cost its text, and are made
// only if they are wanted.
func (l *lister) run(r runs.Run) error {
	for file := max(l.from, fileRecord); file <= fileLast; file++ {
		n := runFileNode(r, uint32(file))
		attr := func() (Attr, error) { return l.v.runFile(r, uint32(file)) }
		if file == filePayload || file == fileLate {
			a, err := attr()
			if err == ErrNotExist {
				continue
			}
			if err == nil { // else it is there, and cannot be read
				n = a.Node
			}
			attr = func() (Attr, error) { return a, err }
		}
		if file == fileHistory { // its size costs a walk of the log
			attr = unasked
		}
		if !l.entry(file, runFiles[file], n, attr) {
			break
		}
	}
	return nil
}

func (l *lister) payloads(r runs.Run) error {
	list, err := l.v.lists.get(l.v.src, r)
	if err != nil {
		return err
	}
	at, _ := slices.BinarySearchFunc(list, uint32(min(l.from, FileMax+1)), byOrdinal)
	for _, p := range list[at:] {
		if !shown(p) {
			continue
		}
		name := payloadName(p.Name, p.Ordinal)
		if !l.entry(uint64(p.Ordinal), name, PayloadFile(r.Ref, p.Ordinal), func() (Attr, error) {
			return payloadAttr(r.Ref, p), nil
		}) {
			break
		}
	}
	return nil
}
