package view

import (
	"strings"

	"durafs/runs"
)

// byThread groups runs by the thread that their labels name.
func byThread(src Source) groups[string] {
	return groups[string]{
		of: func(r runs.Run) (string, bool) {
			name := src.ThreadOf(r.Ref)
			return name, name != ""
		},
		rank: func(g *group[string]) uint32 { return uint32(g.refs[0]) },
	}
}

// threadGroup is the directory of the runs in a thread; false if there is none
// any more.
func (v *View) threadGroup(name string) (Node, bool) {
	if name == "" {
		return 0, false
	}
	g, ok := v.threads.find(v.src, name)
	if !ok {
		return 0, false
	}
	first, ok := v.first(g.refs)
	return threadGroup(first), ok
}

// first is the first run that there is; those before it were undone.
func (v *View) first(refs []runs.Ref) (runs.Ref, bool) {
	for _, ref := range refs {
		if _, ok := v.src.Info(ref); ok {
			return ref, true
		}
	}
	return 0, false
}

// groupName is the name of the group's thread.
func (v *View) groupName(n Node) (string, error) {
	name := v.src.ThreadOf(n.run())
	switch g, ok := v.threadGroup(name); {
	case !ok:
		return "", ErrNotExist
	case g != n: // an earlier run of the thread was published since, or this one undone
		return "", ErrStale
	}
	return name, nil
}

// A label whose escaped form is too long to be a name is shown by the number
// behind it instead, as the names of payloads are.
const (
	threadPrefix = "%thread-"
	targetPrefix = "%target-"
)

func labelName(label, prefix string, number uint64) string {
	if s := EscapeName(label); len(s) <= NameBytesMax {
		return s
	}
	return prefix + callName(number)
}

// parseLabel is the inverse of labelName: a label, or the number of one.
func parseLabel(name, prefix string) (label string, number uint64, ok bool) {
	if digits, by := strings.CutPrefix(name, prefix); by {
		number, ok = parseNumber(digits)
		return "", number, ok
	}
	label, ok = UnescapeName(name)
	return label, 0, ok
}

// lookupGroup finds a thread's directory in /by-thread.
func (v *View) lookupGroup(name string) (Node, error) {
	label, number, ok := parseLabel(name, threadPrefix)
	if ok && label == "" && number < 1<<runBits {
		label = v.src.ThreadOf(runs.Ref(number))
	}
	n, found := v.threadGroup(label)
	if !ok || !found || labelName(label, threadPrefix, uint64(n.run())) != name {
		return 0, ErrNotExist
	}
	return n, nil
}

// lookupThreads finds a thread in /threads.
func (v *View) lookupThreads(name string) (Node, error) {
	label, number, ok := parseLabel(name, threadPrefix)
	if ok && label == "" {
		if h, err := v.thread(ThreadNode(number)); err == nil {
			label = h.Name
		}
	}
	h, found := v.src.ThreadByName(label)
	if !ok || !found || labelName(label, threadPrefix, h.Number) != name {
		return 0, ErrNotExist
	}
	return ThreadNode(h.Number), nil
}

// lookupThread finds a file in a thread's directory.
func (v *View) lookupThread(dir Node, name string) (Attr, error) {
	for file := uint32(threadText); file <= threadJSON; file++ {
		if threadFiles[file] == name {
			return v.Attr(threadNode(dir.lsn(), file))
		}
	}
	_, err := v.thread(dir)
	if err == nil {
		err = ErrNotExist
	}
	return Attr{}, err
}

// lookupJournal finds a journal by its target.
func (v *View) lookupJournal(name string) (Node, error) {
	label, number, ok := parseLabel(name, targetPrefix)
	for _, t := range v.src.JournalTargets() {
		if ok && (t.Name == label || label == "" && uint64(t.Number) == number) && targetName(t) == name {
			return journalFile(t), nil
		}
	}
	return 0, ErrNotExist
}

func targetName(t runs.Target) string { return labelName(t.Name, targetPrefix, uint64(t.Number)) }
