package runs

import (
	"sort"
	"strconv"
	"strings"
)

// Bounds of a page.
const (
	ListLimitDefault = 50
	ListLimitMax     = 1000
	// textScanMax is how many records one page reads to search their text;
	// then the page ends, with a cursor to go on from.
	textScanMax = 5000
)

// List reads a page of records, newest first in the order of the runs'
// admissions. A page may be short, or empty, with a cursor: then the search
// goes on there. An agent sees what its uid started.
func (s *Store) List(c Caller, q ListQuery) (Page, error) {
	l, err := newListing(c, q)
	if err != nil {
		return Page{}, err
	}
	page := Page{Policy: s.Policy().Policy, Runs: []*Record{}}
	for scanned := 0; len(page.Runs) < l.limit; {
		m, ok := s.nextMatch(l)
		if !ok {
			return page, nil
		}
		rec, _, err := s.recordFor(Caller{UID: c.UID, Owner: c.Owner}, uint32(m))
		if err != nil {
			return Page{}, err
		}
		if l.text == "" || strings.Contains(strings.ToLower(rec.Preview), l.text) {
			page.Runs = append(page.Runs, rec)
		}
		if scanned++; scanned == textScanMax {
			break
		}
	}
	if s.hasMore(l) {
		page.Next = strconv.FormatUint(l.before, 10)
	}
	return page, nil
}

// listing is a list under way.
type listing struct {
	before uint64 // admissions below it are still to be looked at; 0: all
	limit  int
	phase  Phase
	parent []byte
	text   string
	labels Labels
	uid    *uint32

	// unfinished are the runs that were in the phase asked for when the list
	// began, where that phase is not final.
	unfinished []uint32
}

func newListing(c Caller, q ListQuery) (*listing, error) {
	l := &listing{limit: q.Limit, uid: q.UID, text: strings.ToLower(q.Text), labels: Labels{}}
	for k, v := range q.Labels {
		l.labels[k] = v
	}
	if q.Thread != "" {
		l.labels["thread"] = q.Thread
	}
	if l.limit <= 0 {
		l.limit = ListLimitDefault
	}
	l.limit = min(l.limit, ListLimitMax)
	if q.After != "" {
		n, err := strconv.ParseUint(q.After, 10, 64)
		if err != nil || n == 0 || strconv.FormatUint(n, 10) != q.After {
			r := refuse(BadCursor, "%s is no cursor", quote(q.After))
			r.Field = "after"
			return nil, r
		}
		l.before = n
	}
	if q.Phase != "" {
		p, ok := ParsePhase(q.Phase)
		if !ok {
			r := refuse(BadPhase, "%s is no phase", quote(q.Phase))
			r.Field = "phase"
			return nil, r
		}
		l.phase = p
	}
	if q.Parent != "" {
		if _, err := ParseID(q.Parent); err != nil {
			return nil, err
		}
		l.parent = appendTextID(nil, q.Parent)
	}
	if !c.Owner {
		if l.uid != nil && *l.uid != c.UID {
			return nil, refuse(NotOwner, "the runs of uid %d are not this caller's to list", *l.uid)
		}
		l.uid = &c.UID
	}
	return l, nil
}

// among is the shortest list that the runs looked for are in, in the order of
// their admissions.
func (l *listing) among(x *index) []uint32 {
	best := x.byAdmit
	try := func(list []uint32) {
		if len(list) < len(best) {
			best = list
		}
	}
	if l.phase != PhaseNone && !l.phase.sealed() {
		if l.unfinished == nil {
			l.unfinished = append([]uint32{}, x.inPhase(l.phase)...)
		}
		try(l.unfinished)
	}
	if l.uid != nil {
		try(x.linked(x.userKey(*l.uid)))
	}
	if l.parent != nil {
		try(x.linked(x.linkKey(linkParent, l.parent)))
	}
	for k, v := range l.labels {
		try(x.linked(x.linkKey(linkLabel, []byte(k), []byte(v))))
	}
	return best
}

// hasMore reports whether there is something left to look at.
func (s *Store) hasMore(l *listing) bool {
	s.mu.RLock()
	defer s.mu.RUnlock()
	among := l.among(&s.index)
	return len(among) > 0 && l.before > s.index.admission(among[0])
}

// listChunk is how many runs are looked at under one lock.
const listChunk = 8192

// nextMatch finds the next run that the index says to match, and moves the
// listing behind it.
func (s *Store) nextMatch(l *listing) (Ref, bool) {
	for {
		num, more := s.scanChunk(l)
		if num != 0 || !more {
			return Ref(num), num != 0
		}
	}
}

func (s *Store) scanChunk(l *listing) (num uint32, more bool) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	x := &s.index
	among := l.among(x)
	end := len(among)
	if l.before != 0 {
		end = sort.Search(len(among), func(i int) bool { return x.admission(among[i]) >= l.before })
	}
	for i := end - 1; i >= 0 && i >= end-listChunk; i-- {
		n := among[i]
		l.before = x.admission(n)
		if l.matches(x, n) {
			return n, true
		}
	}
	return 0, end > listChunk
}

func (x *index) admission(num uint32) uint64 {
	c, i := x.at(num)
	return c.admission[i]
}

func (l *listing) matches(x *index, num uint32) bool {
	c, i := x.at(num)
	switch {
	case c.phase[i] == PhaseNone: // its admission was undone
		return false
	case l.phase != PhaseNone && c.phase[i] != l.phase:
		return false
	case l.uid != nil && c.uid[i] != *l.uid:
		return false
	case l.parent != nil && string(x.parent(num)) != string(l.parent):
		return false
	}
	if thread, ok := l.labels["thread"]; ok && c.thread[i] != x.threadHash(thread) {
		return false
	}
	for k, v := range l.labels {
		if have := x.label(num, k); have == nil || string(have) != v {
			return false
		}
	}
	return true
}
