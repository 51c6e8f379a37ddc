// Package viewtest is a store in memory for tests of what shows stores: it
// publishes what it is told at once, and announces it like the real one.
package viewtest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"sync"
	"time"

	"durafs/runs"
	"durafs/view"
)

// Store implements view.Source. Its methods may be called concurrently.
type Store struct {
	mu     sync.RWMutex
	runs   []*run // by number, from 1; nil for a number that is no run
	ids    map[string]runs.Ref
	listen func([]runs.Change)
	now    time.Time
	more   more // calls, threads, journals

	// Fail, where set before use, is asked before each read of a payload or a
	// log, and before a payload is found by name, with the run and the
	// payload's name ("" for the log).
	Fail func(ref runs.Ref, name string) error
}

type run struct {
	runs.Run
	log, late []byte
	infos     []runs.PayloadInfo
	bodies    map[string][]byte
	thread    string
	calls     []runs.Call
}

var _ view.Source = (*Store)(nil)

// New makes an empty store whose time starts at now and goes on by a
// millisecond with each change.
func New(now time.Time) *Store {
	return &Store{runs: []*run{nil}, ids: map[string]runs.Ref{}, now: now}
}

// ID is a run's id of the usual form, made of a number.
func ID(n int) string { return fmt.Sprintf("01890000-0000-7000-8000-%012x", n) }

// SetTime jumps to another time.
func (s *Store) SetTime(now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.now = now
}

// Start admits a run.
func (s *Store) Start(id string) runs.Ref { return s.StartIn(id, "") }

// StartIn admits a run of a thread.
func (s *Store) StartIn(id, thread string) runs.Ref {
	ref := s.Reserve()
	s.startAt(ref, id, thread)
	return ref
}

// Reserve takes a number for a run that StartAt may admit later.
func (s *Store) Reserve() runs.Ref {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.runs = append(s.runs, nil)
	return runs.Ref(len(s.runs) - 1)
}

// StartAt admits a run under a number that was reserved.
func (s *Store) StartAt(ref runs.Ref, id string) { s.startAt(ref, id, "") }

func (s *Store) startAt(ref runs.Ref, id, thread string) {
	s.mu.Lock()
	r := &run{bodies: map[string][]byte{}, thread: thread}
	r.Ref, r.ID, r.Phase, r.StartedAt = ref, id, runs.Running, s.now
	s.runs[ref], s.ids[id] = r, ref
	s.mu.Unlock()
	s.change(ref, runs.ChangedAdmitted|runs.ChangedRecord, func(*run) {})
}

// Remove undoes the admission of a run, and frees its id.
func (s *Store) Remove(ref runs.Ref) {
	s.mu.Lock()
	delete(s.ids, s.runs[ref].ID)
	s.runs[ref] = nil
	listen := s.listen
	s.mu.Unlock()
	if listen != nil {
		listen([]runs.Change{{Ref: ref, Kinds: runs.ChangedRemoved}})
	}
}

// change edits a run and announces it once it is visible.
func (s *Store) change(ref runs.Ref, kinds runs.ChangeKinds, edit func(*run)) {
	s.tell(runs.Change{Ref: ref, Kinds: kinds}, edit)
}

func (s *Store) tell(c runs.Change, edit func(*run)) {
	s.mu.Lock()
	r := s.runs[c.Ref]
	edit(r)
	s.now = s.now.Add(time.Millisecond)
	r.ChangedAt = s.now
	r.Revision++
	listen := s.listen
	s.mu.Unlock()
	if listen != nil {
		listen([]runs.Change{c})
	}
}

// Append appends one row to the log; a newline is added.
func (s *Store) Append(ref runs.Ref, row string) {
	s.change(ref, runs.ChangedLog, func(r *run) {
		// Readers hold shorter slices of the same array: bytes are only added.
		r.log = append(append(r.log, row...), '\n')
		r.LogBytes = int64(len(r.log))
		r.Rows++
		r.LastSeq++
	})
}

// Late adds one late write.
func (s *Store) Late(ref runs.Ref, row string) {
	s.change(ref, runs.ChangedLate|runs.ChangedRecord, func(r *run) {
		r.late = append(append(r.late, row...), '\n')
		r.LateBytes = int64(len(r.late))
		r.LateRows++
	})
}

// Put stores a payload.
func (s *Store) Put(ref runs.Ref, name string, source runs.Source, body []byte) {
	s.change(ref, runs.ChangedPayload|runs.ChangedRecord, func(r *run) { s.put(r, name, source, body) })
}

// DeletePayload deletes a payload.
func (s *Store) DeletePayload(ref runs.Ref, name string) {
	s.mu.RLock()
	i := slices.IndexFunc(s.runs[ref].infos, func(p runs.PayloadInfo) bool { return p.Name == name })
	gone := runs.Deleted{Name: name, Ordinal: s.runs[ref].infos[i].Ordinal}
	s.mu.RUnlock()
	s.tell(runs.Change{Ref: ref, Kinds: runs.ChangedPayload | runs.ChangedDeleted | runs.ChangedLog, Deleted: []runs.Deleted{gone}}, func(r *run) {
		r.infos = slices.Delete(r.infos, i, i+1)
		delete(r.bodies, name)
		r.Deleted++
	})
}

func (s *Store) put(r *run, name string, source runs.Source, body []byte) {
	r.infos = append(r.infos, runs.PayloadInfo{
		Name: name, Bytes: int64(len(body)), Source: source, Ordinal: r.Payloads, At: s.now,
	})
	r.bodies[name] = body
	r.Payloads++
}

// Settle ends a run, with a terminal payload unless it is nil.
func (s *Store) Settle(ref runs.Ref, payload []byte) {
	kinds := runs.ChangedRecord | runs.ChangedSealed | runs.ChangedPhase
	if payload != nil {
		kinds |= runs.ChangedPayload
	}
	s.change(ref, kinds, func(r *run) {
		if payload != nil {
			s.put(r, runs.TerminalName, runs.SourceTerminal, payload)
		}
		r.Phase = runs.Terminal
	})
}

// Move gets a run into another phase.
func (s *Store) Move(ref runs.Ref, p runs.Phase) {
	s.change(ref, runs.ChangedRecord|runs.ChangedPhase, func(r *run) { r.Phase = p })
}

// ReplaceLog gives a run a log of the next generation.
func (s *Store) ReplaceLog(ref runs.Ref, log string) {
	s.change(ref, runs.ChangedLog|runs.ChangedRecord, func(r *run) {
		r.log, r.LogBytes = []byte(log), int64(len(log))
		r.Generation++
	})
}

// Log is what the run's log holds.
func (s *Store) Log(ref runs.Ref) []byte {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return bytes.Clone(s.runs[ref].log)
}

func (s *Store) at(ref runs.Ref) *run {
	if int(ref) >= len(s.runs) {
		return nil
	}
	return s.runs[ref]
}

// Lookup implements view.Source.
func (s *Store) Lookup(id string) (runs.Ref, bool) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	ref, ok := s.ids[id]
	return ref, ok
}

// Info implements view.Source.
func (s *Store) Info(ref runs.Ref) (runs.Run, bool) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if r := s.at(ref); r != nil {
		return r.Run, true
	}
	return runs.Run{}, false
}

// Newest implements view.Source.
func (s *Store) Newest() runs.Ref {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return runs.Ref(len(s.runs) - 1)
}

// Record implements view.Source.
func (s *Store) Record(ref runs.Ref) (*runs.Record, error) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	r := s.at(ref)
	if r == nil {
		return nil, &runs.Refusal{Code: runs.UnknownRun, Detail: "no such run"}
	}
	return &runs.Record{
		ID: r.ID, Phase: r.Phase.String(), Revision: r.Revision,
		StartedAt: r.StartedAt, ChangedAt: r.ChangedAt, HeartbeatAt: r.ChangedAt,
		Preview: "say <hello> & wait", LateRows: r.LateRows,
		Log: runs.LogInfo{Rows: r.Rows, Bytes: r.LogBytes, LastSeq: r.LastSeq},
	}, nil
}

// ReadLogAt implements view.Source.
func (s *Store) ReadLogAt(ref runs.Ref, p []byte, off int64) (int, error) {
	return s.readAt(ref, p, off, func(r *run) []byte { return r.log })
}

// ReadLateAt implements view.Source.
func (s *Store) ReadLateAt(ref runs.Ref, p []byte, off int64) (int, error) {
	return s.readAt(ref, p, off, func(r *run) []byte { return r.late })
}

func (s *Store) readAt(ref runs.Ref, p []byte, off int64, of func(*run) []byte) (int, error) {
	if err := s.fail(ref, ""); err != nil {
		return 0, err
	}
	s.mu.RLock()
	b := of(s.runs[ref])
	s.mu.RUnlock()
	return bytes.NewReader(b).ReadAt(p, off)
}

func (s *Store) fail(ref runs.Ref, name string) error {
	if s.Fail == nil {
		return nil
	}
	return s.Fail(ref, name)
}

// PayloadList implements view.Source.
func (s *Store) PayloadList(ref runs.Ref) ([]runs.PayloadInfo, error) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	var list []runs.PayloadInfo
	for _, p := range s.runs[ref].infos {
		if p.Source != runs.SourceResumeRequest {
			list = append(list, p)
		}
	}
	return list, nil
}

// PayloadInfo implements view.Source.
func (s *Store) PayloadInfo(ref runs.Ref, name string) (runs.PayloadInfo, error) {
	if err := s.fail(ref, name); err != nil {
		return runs.PayloadInfo{}, err
	}
	s.mu.RLock()
	defer s.mu.RUnlock()
	for _, p := range s.runs[ref].infos {
		if p.Name == name {
			return p, nil
		}
	}
	return runs.PayloadInfo{}, &runs.Refusal{Code: runs.UnknownPayload, Detail: "no such payload"}
}

// OpenPayload implements view.Source.
func (s *Store) OpenPayload(ref runs.Ref, name string) (runs.PayloadReader, error) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	body, ok := s.runs[ref].bodies[name]
	if !ok {
		return nil, &runs.Refusal{Code: runs.UnknownPayload, Detail: "no such payload"}
	}
	return &reader{bytes.NewReader(body), func() error { return s.fail(ref, name) }}, nil
}

type reader struct {
	*bytes.Reader
	fail func() error
}

func (r *reader) ReadAt(p []byte, off int64) (int, error) {
	if err := r.fail(); err != nil {
		return 0, err
	}
	return r.Reader.ReadAt(p, off)
}

// Listen implements view.Source.
func (s *Store) Listen(fn func([]runs.Change)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.listen = fn
}

// RecordText is the record as the tree shows it.
func (s *Store) RecordText(ref runs.Ref) []byte {
	rec, err := s.Record(ref)
	if err != nil {
		panic(err) // the caller made the run
	}
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	if err := e.Encode(rec); err != nil {
		panic(err)
	}
	return b.Bytes()
}

var _ io.ReaderAt = (*reader)(nil)
