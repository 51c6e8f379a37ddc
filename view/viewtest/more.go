package viewtest

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"durafs/runs"
)

// more is what the store has of calls, threads and journals; mu guards it.
type more struct {
	threads  []*thread // by number
	journals []*journal
	lsn      uint64
}

type thread struct {
	runs.ThreadHead
	messages []runs.Message
}

type journal struct {
	runs.Target
	rows []runs.JournalRow
}

// Call claims a call of a tool, and ends it with a result unless it is nil.
func (s *Store) Call(ref runs.Ref, name, args string, result []byte) {
	s.change(ref, runs.ChangedRecord|runs.ChangedLog, func(r *run) {
		c := runs.Call{
			Call: uint64(len(r.calls) + 1), CallID: fmt.Sprintf("c%d", len(r.calls)), Name: name,
			Safety: runs.ReadOnly, Attempt: 1, Args: json.RawMessage(args),
		}
		if result != nil {
			c.Result = &runs.Committed{Call: c.Call, Projection: result}
		}
		r.calls = append(slices.Clone(r.calls), c)
		r.LastSeq++
	})
}

// Post adds a user's turn to a thread.
func (s *Store) Post(name, text string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.more.lsn++
	at := slices.IndexFunc(s.more.threads, func(t *thread) bool { return t.Name == name })
	if at < 0 {
		at = len(s.more.threads)
		s.more.threads = append(s.more.threads, &thread{ThreadHead: runs.ThreadHead{Name: name, Number: s.more.lsn}})
	}
	t := s.more.threads[at]
	quoted, _ := json.Marshal(text)
	t.messages = append(slices.Clone(t.messages), runs.Message{LSN: s.more.lsn, At: s.now, Role: "user", Message: quoted})
	t.Messages, t.Last = len(t.messages), s.more.lsn
}

// Enrol makes a target that has a journal.
func (s *Store) Enrol(name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := uint32(len(s.more.journals))
	s.more.journals = append(s.more.journals, &journal{Target: runs.Target{Name: name, Generation: 1, Enrolled: true, Number: n}})
}

// Note adds a row to a target's journal.
func (s *Store) Note(target, row string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.more.lsn++
	j := s.journal(target)
	j.rows = append(slices.Clone(j.rows), runs.JournalRow{LSN: s.more.lsn, At: s.now, JSON: json.RawMessage(row)})
}

func (s *Store) journal(name string) *journal {
	for _, j := range s.more.journals {
		if j.Name == name {
			return j
		}
	}
	return nil
}

// lines are the lines of a history; calls are those of a run.
type (
	lines [][]byte
	calls []runs.Call
	talk  []runs.Message
)

func (l lines) Len() int                                 { return len(l) }
func (l lines) Append(dst []byte, i int) ([]byte, error) { return append(dst, l[i]...), nil }
func (c calls) Len() int                                 { return len(c) }
func (c calls) Call(number int) (runs.Call, error)       { return c[number-1], nil }
func (t talk) Len() int                                  { return len(t) }
func (t talk) Message(i int) (runs.Message, error)       { return t[i], nil }

// OpenHistory implements view.Source.
func (s *Store) OpenHistory(ref runs.Ref) (runs.HistoryLines, error) {
	if err := s.fail(ref, ""); err != nil {
		return nil, err
	}
	s.mu.RLock()
	defer s.mu.RUnlock()
	var l lines
	for _, c := range s.runs[ref].calls {
		b, err := json.Marshal(c)
		if err != nil {
			return nil, err
		}
		l = append(l, append(b, '\n'))
	}
	return l, nil
}

// OpenCalls implements view.Source.
func (s *Store) OpenCalls(ref runs.Ref) (runs.CallLog, error) {
	if err := s.fail(ref, ""); err != nil {
		return nil, err
	}
	s.mu.RLock()
	defer s.mu.RUnlock()
	return calls(s.runs[ref].calls), nil
}

// ThreadOf implements view.Source.
func (s *Store) ThreadOf(ref runs.Ref) string {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if r := s.at(ref); r != nil {
		return r.thread
	}
	return ""
}

// InPhase implements view.Source.
func (s *Store) InPhase(p runs.Phase, from runs.Ref, limit int) (list []runs.Ref) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	for n := int(max(from, 1)); n < len(s.runs) && len(list) < limit; n++ {
		if r := s.runs[n]; r != nil && r.Phase == p {
			list = append(list, runs.Ref(n))
		}
	}
	return list
}

// PhasedAt implements view.Source.
func (s *Store) PhasedAt() time.Time {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.now
}

// ThreadByName implements view.Source.
func (s *Store) ThreadByName(name string) (runs.ThreadHead, bool) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	for _, t := range s.more.threads {
		if t.Name == name {
			return t.ThreadHead, true
		}
	}
	return runs.ThreadHead{}, false
}

// ThreadsFrom implements view.Source.
func (s *Store) ThreadsFrom(number uint64, limit int) (list []runs.ThreadHead) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	for _, t := range s.more.threads {
		if t.Number >= number && len(list) < limit {
			list = append(list, t.ThreadHead)
		}
	}
	return list
}

// OpenThread implements view.Source.
func (s *Store) OpenThread(name string) (runs.Conversation, bool) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	for _, t := range s.more.threads {
		if t.Name == name {
			return talk(t.messages), true
		}
	}
	return nil, false
}

// ThreadLastAt implements view.Source.
func (s *Store) ThreadLastAt(name string) time.Time {
	c, ok := s.OpenThread(name)
	if !ok {
		return time.Time{}
	}
	t := c.(talk)
	return t[len(t)-1].At
}

// JournalTargets implements view.Source.
func (s *Store) JournalTargets() (list []runs.Target) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	for _, j := range s.more.journals {
		list = append(list, j.Target)
	}
	slices.SortFunc(list, func(a, b runs.Target) int { return cmp.Compare(a.Name, b.Name) })
	return list
}

// JournalVersion implements view.Source.
func (s *Store) JournalVersion(target string) uint64 {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if j := s.journal(target); j != nil && len(j.rows) > 0 {
		return j.rows[len(j.rows)-1].LSN
	}
	return 0
}

// Journal implements view.Source.
func (s *Store) Journal(_ runs.Caller, target string, after uint64) (rows []runs.JournalRow, err error) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	for _, r := range s.journal(target).rows {
		if r.LSN > after {
			r.JSON = bytes.Clone(r.JSON)
			rows = append(rows, r)
		}
	}
	return rows, nil
}
