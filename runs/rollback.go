package runs

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"durafs/cas"
	"durafs/wal"
)

// removal is the body of a removed entry, JSON: the admission of a run is
// undone. Applying it takes away, in this order, all that the admission made:
// idempotency key, thread's turn, payload names, the journal's row, the index
// entry, and the record. What others wrote since stays.
type removal struct {
	ID     string `json:"id"`
	Labels Labels `json:"labels,omitempty"`
	UID    uint32 `json:"uid"`
	Key    string `json:"key,omitempty"` // of the start, hashed
	// The receipt: which journal the admission has written to, in which batch.
	Journal   string `json:"journal"`
	Admission uint64 `json:"admission"`
}

func (r *removal) entry(run uint32) entry {
	return entry{kind: kindRemoved, run: run, body: mustJSON(r)}
}

func parseRemoval(e entry) (*removal, error) {
	r := new(removal)
	if err := json.Unmarshal(e.body, r); err != nil || r.ID == "" || r.Journal == "" || r.Admission == 0 {
		return nil, badBatch("a removal of it is not as it should be")
	}
	return r, nil
}

// outOfSpace reports whether err is the one cause that lets an admission be
// undone: no room, by the word of the kernel or of the store's own bounds.
func outOfSpace(err error) bool {
	_, inLog := errors.AsType[*wal.NoSpaceError](err)
	_, inChunks := errors.AsType[*cas.NoSpaceError](err)
	return inLog || inChunks || overQuota(err)
}

// denied returns err, and remembers of an active run that a write of its agent
// found no room.
func (s *Store) denied(num uint32, err error) error {
	if err == nil || !outOfSpace(err) {
		return err
	}
	if !overQuota(err) {
		s.strain()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if l := s.acc.runs[num]; l != nil {
		l.denied = true
	}
	return err
}

// Rollback undoes the admission of a run that could not even begin: this
// daemon has turned away a write of it for want of space, and nothing that its
// agent wrote was ever accepted. Afterwards the run was never there, its id is
// free, and what others wrote meanwhile stays. Where that cannot be proved it is
// refused, and everything stays as it is. Needs the writer token.
func (s *Store) Rollback(ctx context.Context, c Caller, id string) error {
	num, epoch, err := s.gate(ctx, c, id, evRollback)
	if err != nil {
		return err
	}
	was, err := s.current(num)
	if err != nil {
		return err
	}
	gone, wrote, err := s.removalOf(num, was)
	if err != nil {
		return err
	}
	b := newBatch(num, gone.entry(num))
	err = s.do(ctx, wal.Reserved, func(lsn uint64) wal.Decision {
		l := s.view(num)
		if r := s.fence(l, c, epoch, evRollback); r != nil {
			return l.answer(r)
		}
		if r := s.mayRollback(l, was, gone, wrote); r != nil {
			return l.answer(r)
		}
		return s.accept(l, lsn, b)
	})
	if err != nil {
		return err
	}
	s.mu.RLock()
	defer s.mu.RUnlock()
	if left := s.index.remnants(num, gone); len(left) > 0 {
		return fmt.Errorf("runs: the run %s was rolled back, and of it there is still: %v", id, left)
	}
	return nil
}

// removalOf reads what the admission has made from its batch, and whether the
// agent has a row in the log: also of a former life of the daemon.
func (s *Store) removalOf(num uint32, rec *record) (gone *removal, wrote bool, err error) {
	gone = &removal{ID: rec.ID, Labels: rec.Labels, UID: rec.uid, Journal: rec.Target}
	err = s.walkEntries(num, func(_ *batch, e entry) error {
		if wrote = e.kind == kindRow && e.flags&rowByStore == 0; wrote {
			return errStop
		}
		if e.kind != kindAdmission {
			return nil
		}
		a, err := parseAdmission(e)
		if err == nil && a.keyed {
			gone.Key = hex.EncodeToString(a.key[:])
		}
		return err
	})
	if errors.Is(err, errStop) {
		err = nil
	}
	s.mu.RLock()
	gone.Admission = s.index.admission(num)
	s.mu.RUnlock()
	return gone, wrote, err
}

// mayRollback checks what must be proved; mu is held.
func (s *Store) mayRollback(l *live, was *record, gone *removal, wrote bool) *Refusal {
	why, ownPayloads := "", uint32(0)
	if was.Resume.Available {
		ownPayloads = 1
	}
	ring := s.index.journals[gone.Journal]
	switch {
	case was.CopiedFrom != "":
		why = "it is a copy"
	case !l.denied:
		why = "no write of it was turned away for want of space in this life of the daemon"
	case wrote || l.wrote != 0 || l.ordinals > ownPayloads:
		why = "its agent has written to it"
	case l.revision != was.revision || was.Progress > 0 || len(was.OpenCalls) > 0:
		why = "it has made progress"
	case was.Resume.Attempt > 0 || was.Pinned:
		why = "an owner has decided about it"
	case s.acc.settings.targetGone(was) != "":
		why = "the target of its journal has changed since"
	case ring == nil || !ring.has(gone.Admission):
		why = "its row of the journal has left it"
	default:
		return nil
	}
	r := refuse(RollbackRefused, "the admission of the run %s is not undone: %s", was.ID, why)
	r.Phase, r.Revision, r.ETag = l.phase.String(), l.revision, etag(l.admission, l.revision)
	return r
}

func (j *journal) has(lsn uint64) bool {
	return slices.ContainsFunc(j.ordinary.live(), func(p journalPlace) bool { return p.lsn == lsn })
}

// applyRemoval takes a run out of the index.
func (x *index) applyRemoval(e entry, lsn uint64) error {
	gone, err := parseRemoval(e)
	if err != nil {
		return err
	}
	x.forgetInThread(gone.Labels["thread"], e.run)
	if j := x.journals[gone.Journal]; j != nil {
		j.remove(gone.Admission, lsn)
	}
	return x.applyRemovalOfRun(e, lsn)
}

// applyRemovalOfRun is applyRemoval without what is of the whole store.
func (x *index) applyRemovalOfRun(e entry, _ uint64) error {
	gone, err := parseRemoval(e)
	if err != nil {
		return err
	}
	num := e.run
	if x.find(gone.ID) != num || x.admission(num) != gone.Admission {
		return badBatch("it removes the run %s, which is another one", gone.ID)
	}
	if key, err := hex.DecodeString(gone.Key); err == nil && len(key) == len(hash16{}) {
		x.starts.remove(hash16(key), num)
	}
	delete(x.names, nameHash(num, resumeRequestName))
	delete(x.recent, num)
	delete(x.late, num)
	delete(x.outboxes, num)
	delete(x.deleted, num)
	x.ids.remove(num, x.idBytes)
	if at := slices.Index(x.byAdmit, num); at >= 0 {
		x.byAdmit = slices.Delete(x.byAdmit, at, at+1)
		if at < x.links.done {
			x.links.done--
		}
	}
	x.setPhase(num, PhaseNone)
	c, i := x.at(num)
	x.bytes -= c.bytes(i)
	c.clear(i)
	return nil
}

// clear forgets a row of the columns.
func (c *columns) clear(i int) {
	c.flags[i], c.revision[i], c.epoch[i], c.uid[i], c.text[i], c.thread[i] = 0, 0, 0, 0, 0, 0
	c.record[i], c.admission[i], c.started[i], c.changed[i], c.heartbeat[i] = place{}, 0, 0, 0, 0
	c.lastSeq[i], c.payloads[i], c.tail[i], c.logBytes[i], c.otherBytes[i] = 0, 0, 0, 0, 0
}

// neverThere returns err, that a start found no room, when it is sure that
// nothing of it is left, accepted or published: not its number, id, key, lock,
// row or message. What it has put into the chunk store belongs to nothing, and is
// reclaimed like all that is so. num is still this start's own.
func (s *Store) neverThere(num uint32, rec *record, a *starting, err error) error {
	gone := &removal{ID: rec.ID, Labels: rec.Labels, Journal: rec.Target}
	if a.keyed() {
		gone.Key = hex.EncodeToString(a.key[:])
	}
	s.mu.RLock()
	defer s.mu.RUnlock()
	left := s.index.remnants(num, gone)
	if s.acc.runs[num] != nil || s.acc.ids.entries[rec.ID] == num || s.acc.starts.entries[a.key].num == num {
		left = append(left, "what was accepted")
	}
	if l := s.locks[rec.Lock]; l != nil {
		if _, holds := l.holders[num]; holds {
			left = append(left, "its lock")
		}
	}
	if len(left) == 0 {
		return err
	}
	s.logger.Error("a start that found no room has left something", "run", rec.ID, "left", left, "error", err)
	return fmt.Errorf("runs: the start of %s found no room, and of it there is still: %v", rec.ID, left)
}

// remnants names what is left of a run that was removed: nothing, or there is
// a fault.
func (x *index) remnants(num uint32, gone *removal) (left []string) {
	see := func(there bool, what string) {
		if there {
			left = append(left, what)
		}
	}
	see(x.find(gone.ID) == num, "its id")
	see(x.phase(num) != PhaseNone, "its phase")
	see(slices.Contains(x.byAdmit, num), "its place in the list")
	_, late := x.late[num]
	see(late, "late writes")
	see(x.names[nameHash(num, resumeRequestName)] != (place{}) || x.recent[num] != nil, "a payload")
	for _, live := range x.live {
		_, ok := live[num]
		see(ok, "its place among the live")
	}
	if t := x.threads[gone.Labels["thread"]]; t != nil {
		see(slices.ContainsFunc(t.messages, func(m message) bool { return m.run == num }), "a message")
	}
	if j := x.journals[gone.Journal]; j != nil {
		see(j.has(gone.Admission), "a row of the journal")
	}
	if key, err := hex.DecodeString(gone.Key); err == nil && len(key) == len(hash16{}) {
		see(slices.Contains(x.starts.candidates(hash16(key)), num), "its idempotency key")
	}
	return left
}
