package view

import (
	"cmp"
	"slices"
	"sync"

	"durafs/runs"
)

// shown tells whether a payload is listed in /payloads.
func shown(p runs.PayloadInfo) bool {
	return p.Source != runs.SourceResumeRequest && p.Name != runs.TerminalName && ordinalFits(p.Ordinal)
}

// payload finds one by its own name. ok is false if there is none.
func (v *View) payload(ref runs.Ref, name string) (p runs.PayloadInfo, ok bool, err error) {
	p, err = v.src.PayloadInfo(ref, name)
	switch runs.CodeOf(err) {
	case "":
		return p, err == nil, err
	case runs.UnknownPayload, runs.PayloadDeleted, runs.UnknownRun:
		return p, false, nil
	}
	return p, false, err
}

// payloadByOrdinal finds what a node stands for.
func (v *View) payloadByOrdinal(r runs.Run, ordinal uint32) (runs.PayloadInfo, error) {
	list, err := v.lists.get(v.src, r)
	if err != nil {
		return runs.PayloadInfo{}, err
	}
	i, ok := slices.BinarySearchFunc(list, ordinal, byOrdinal)
	if !ok || list[i].Source == runs.SourceResumeRequest {
		return runs.PayloadInfo{}, ErrNotExist
	}
	return list[i], nil
}

func byOrdinal(p runs.PayloadInfo, ordinal uint32) int { return cmp.Compare(p.Ordinal, ordinal) }

// payloadByName finds what a name in /payloads stands for.
func (v *View) payloadByName(r runs.Run, name string) (runs.PayloadInfo, error) {
	if ordinal, ok := parseOrdinal(name); ok {
		p, err := v.payloadByOrdinal(r, ordinal)
		if err == nil && (!shown(p) || payloadName(p.Name, p.Ordinal) != name) {
			err = ErrNotExist
		}
		return p, err
	}
	plain, ok := UnescapeName(name)
	if !ok {
		return runs.PayloadInfo{}, ErrNotExist
	}
	p, ok, err := v.payload(r.Ref, plain)
	if err == nil && (!ok || !shown(p)) {
		err = ErrNotExist
	}
	return p, err
}

// payloadListsMax is how many runs' lists are kept, and payloadsKeptMax how many
// payloads they have together, but for the list that was asked for last.
const (
	payloadListsMax = 16
	payloadsKeptMax = 1 << 18
)

// payloadLists keeps the lists of payloads that were asked for last: a kernel
// walks a directory in pieces and asks about each entry, and the list of each
// piece would else be read again from the start.
type payloadLists struct {
	mu    sync.Mutex
	lists [payloadListsMax]payloadList
	turn  int // the slot to be replaced next
}

// payloadList is a run's list as of the run's state in key.
type payloadList struct {
	key  listKey
	list []runs.PayloadInfo // by ordinal; not changed any more
}

// listKey changes with every change of the list: a payload takes an ordinal
// when it is stored, the terminal one is shown with a revision, deletions are
// counted, damage makes another generation.
type listKey struct {
	ref        runs.Ref
	payloads   uint32
	deleted    uint32
	generation uint32
	revision   uint64
}

func listKeyOf(r runs.Run) listKey {
	return listKey{r.Ref, r.Payloads, r.Deleted, r.Generation, r.Revision}
}

func (l *payloadLists) get(src Source, r runs.Run) ([]runs.PayloadInfo, error) {
	if r.Payloads == 0 {
		return nil, nil
	}
	key := listKeyOf(r)
	if list, ok := l.cached(key); ok {
		return list, nil
	}
	list, err := src.PayloadList(r.Ref)
	if err != nil {
		return nil, err
	}
	l.keep(key, list)
	return list, nil
}

func (l *payloadLists) cached(key listKey) ([]runs.PayloadInfo, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for i := range l.lists {
		if l.lists[i].key == key {
			return l.lists[i].list, true
		}
	}
	return nil, false
}

func (l *payloadLists) keep(key listKey, list []runs.PayloadInfo) {
	l.mu.Lock()
	defer l.mu.Unlock()
	kept := len(list)
	for i := range l.lists {
		if k := &l.lists[i]; k.key.ref == key.ref || kept+len(k.list) > payloadsKeptMax {
			*k = payloadList{}
		}
		kept += len(l.lists[i].list)
	}
	l.lists[l.turn] = payloadList{key, list}
	l.turn = (l.turn + 1) % payloadListsMax
}

// kept counts the payloads of the lists that are kept.
func (l *payloadLists) kept() (n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for i := range l.lists {
		n += len(l.lists[i].list)
	}
	return n
}
