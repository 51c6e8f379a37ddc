package runs

import (
	"bytes"
	"context"
	"crypto/rand"
	"time"

	"github.com/zeebo/blake3"

	"durafs/cas"
	"durafs/wal"
)

// Bounds of a start.
const (
	LeaseDefault    = 45 * time.Second
	LeaseMax        = 24 * time.Hour
	MessageBytesMax = 256 << 10 // of a message of a thread
)

// targetMaster is the journal that is always there.
const targetMaster = "master"

// classNone is the worst replay safety of a run that has claimed nothing.
const classNone = "read-only"

// Start admits a run: all of it or nothing is durable when it returns. One that
// found no room has left nothing: see neverThere.
//
// With an IdempotencyKey that is known and the same body it answers the run of
// the first time: to the same uid, while the run has made no progress, with a
// new epoch and its token, so that of two workers with one key the earlier one
// is fenced; later without a token, so that a restarted agent cannot pass for
// its former self. A run that a restart interrupted meanwhile stays so: whoever
// has the token attaches.
func (s *Store) Start(ctx context.Context, c Caller, r StartRequest) (Started, error) {
	a, err := s.newStarting(c, r, "start\x00")
	if err != nil {
		return Started{}, err
	}
	return s.begin(ctx, a)
}

// newStarting checks a start; scope tells its idempotency key from others.
func (s *Store) newStarting(c Caller, r StartRequest, scope string) (*starting, error) {
	if err := checkStart(&r); err != nil {
		return nil, err
	}
	if err := s.log.ReadOnly(); err != nil {
		return nil, err
	}
	a := &starting{caller: c, req: r, until: s.clock.Boot() + r.LockWait}
	if r.IdempotencyKey != "" {
		sum := blake3.Sum256(append([]byte(scope), r.IdempotencyKey...))
		a.key = hash16(sum[:16])
		a.bodyHash = hash16(r.BodyHash[:16])
	}
	return a, nil
}

// begin admits a run, or answers with the one that its key has begun.
func (s *Store) begin(ctx context.Context, a *starting) (Started, error) {
	if a.req.ResumeRequest != nil || a.copy != nil {
		defer s.cas.Hold()()
	}
	var started Started
	err := retry(ctx, func() (done bool, err error) {
		num, err := s.startedAs(a)
		if err != nil {
			return false, err
		}
		if num != 0 {
			started, done, err = s.startAgain(ctx, a, num)
			return done, err
		}
		started, done, err = s.startNew(ctx, a)
		return done, err
	})
	return started, err
}

// starting is a start under way.
type starting struct {
	caller        Caller
	req           StartRequest
	key, bodyHash hash16
	copy          *copying      // nil for a run of its own
	resume        *cas.Ref      // where the resume request was put
	until         time.Duration // boot time up to which it waits for its lock

	// What looking for the key came to: see startKey.
	known      startKey
	accepted   bool // it was under way
	candidates []uint32
}

func (a *starting) keyed() bool { return a.req.IdempotencyKey != "" }

// startNew admits the run, unless its key or id turns out to be taken. Not
// done: the key has come into use meanwhile.
func (s *Store) startNew(ctx context.Context, a *starting) (Started, bool, error) {
	if a.req.ID != "" && s.taken(a.req.ID) {
		err := s.do(ctx, wal.Reserved, func(uint64) wal.Decision { return s.refuseTaken(a.req.ID) })
		if err != nil {
			return Started{}, true, err
		}
	}
	if err := s.noRoomNow(0, int64(len(a.req.ResumeRequest)), "run"); err != nil {
		return Started{}, true, err
	}
	if err := s.putResume(ctx, a); err != nil {
		return Started{}, true, err
	}
	if a.copy != nil {
		if err := a.copy.stage(ctx, a); err != nil {
			return Started{}, true, err
		}
	}
	turn, leave, err := s.waitLock(ctx, a.req.Lock, s.lockParent(a), a.until-s.clock.Boot())
	if err != nil {
		return Started{}, true, err
	}
	defer leave()
	lockParent := s.lockParent(a)
	l := a.copy.live()
	if l == nil {
		l = &live{num: s.numbers.Add(1)}
	}
	num, rec := l.num, s.firstRecord(a)
	if rec.Lock != "" {
		rec.LockParent = lockParent
	}
	s.mu.RLock()
	target := s.acc.settings.target(rec.Target)
	s.mu.RUnlock()
	rec.TargetGen = target.Generation
	b := newBatch(num, s.startEntries(a, num, rec)...)
	if size := len(b.Body) + stampRunBytes + stampTailBytes; size > wal.BatchBytesMax {
		return Started{}, true, tooLarge("start", int64(size), wal.BatchBytesMax)
	}
	token := s.token(num, rec.epoch, purposeWriter)
	overtaken, given := false, false
	err = s.do(a.copy.waits(ctx), wal.Ordinary, func(lsn uint64) wal.Decision {
		if a.keyed() && !s.startHolds(a) {
			overtaken = true
			return wal.Decision{}
		}
		if s.find(rec.ID) != 0 {
			return s.refuseTaken(rec.ID)
		}
		if err := a.copy.broken(); err != nil {
			return wal.Decision{Err: err}
		}
		switch now := s.acc.settings.target(rec.Target); {
		case now != target:
			overtaken = true
			return wal.Decision{}
		case !now.Enrolled:
			return wal.Decision{After: s.acc.settingsLSN, Err: targetNotEnrolled(rec.Target)}
		}
		if holder, ok := s.enters(rec.Lock, lockParent, turn); !ok {
			if overtaken = a.until > s.clock.Boot(); overtaken { // by another start, or an attach; wait again
				return wal.Decision{}
			}
			l := s.view(holder)
			return l.answer(s.lockHeld(rec.Lock, holder))
		}
		if r := s.noRoom(l, "run", b); r != nil {
			return wal.Decision{Err: r}
		}
		s.acc.ids.add(rec.ID, num, lsn)
		if a.keyed() {
			s.acc.starts.add(a.key, startKey{body: a.bodyHash, num: num}, lsn)
		}
		d := s.accept(l, lsn, b)
		l.token, given = token, true
		return d
	})
	if outOfSpace(err) && a.copy == nil {
		err = s.neverThere(num, rec, a, err)
	}
	if !given && a.copy == nil { // nobody has heard of the number
		s.numbers.CompareAndSwap(num, num-1)
	}
	if err != nil || overtaken {
		return Started{}, err != nil, err
	}
	a.copy.admitted()
	st, err := s.started(num, rec.epoch, a.caller)
	return st, true, err
}

func (s *Store) taken(id string) bool {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.find(id) != 0
}

// refuseTaken is the decision for an id that a run has; mu is held.
func (s *Store) refuseTaken(id string) wal.Decision {
	num := s.find(id)
	if num == 0 {
		return wal.Decision{}
	}
	l := s.view(num)
	if l.gone() { // it is being rolled back
		return wal.Decision{Err: wal.ErrBusy}
	}
	r := refuse(RunExists, "the run %s exists and is %s", id, l.phase)
	r.Field, r.Holder, r.Phase = "id", id, l.phase.String()
	return l.answer(r)
}

// putResume makes the resume request durable, or finds it small enough for
// the batch.
func (s *Store) putResume(ctx context.Context, a *starting) error {
	if a.req.ResumeRequest == nil || a.resume != nil {
		return nil
	}
	ref, err := s.cas.Put(ctx, bytes.NewReader(a.req.ResumeRequest))
	if err != nil {
		return err
	}
	a.resume = &ref
	return nil
}

func (s *Store) firstRecord(a *starting) *record {
	r := &a.req
	rec := &record{
		revision: 1, epoch: 1, uid: a.caller.UID, phase: Running,
		ID: r.ID, BootID: s.bootID, LeaseMS: r.Lease.Milliseconds(), Class: classNone,
		Labels: s.inherited(a.caller, r.Parent, r.Labels), Parent: r.Parent,
		Preview: taskPreview(r.Task), Binding: r.Binding,
		Resume: ResumeInfo{Available: r.ResumeRequest != nil}, Target: r.Target, Lock: r.Lock,
	}
	if rec.ID == "" {
		rec.ID = newID(s.clock)
	}
	if a.copy != nil {
		a.copy.inherit(rec)
	}
	return rec
}

// lockParent is the parent through which a start may enter a lock that is held:
// one whose run the starter could list, else naming a holder would be enough.
func (s *Store) lockParent(a *starting) string {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if l := s.view(s.find(a.req.Parent)); a.req.Parent == "" || l.gone() || !a.caller.Owner && l.uid != a.caller.UID {
		return ""
	}
	return a.req.Parent
}

// inherited are a run's labels and those of its parent that it does not set
// itself, as far as there is room. Nothing else comes from a parent, and
// nothing at all from one whose labels the caller could not list.
func (s *Store) inherited(c Caller, parent string, own Labels) Labels {
	labels := make(Labels, len(own))
	for k, v := range own {
		labels[k] = v
	}
	if parent == "" {
		return labels
	}
	s.mu.RLock()
	defer s.mu.RUnlock()
	if num := s.index.find(parent); num != 0 && (c.Owner || s.index.startedBy(num) == c.UID) {
		s.index.labels(num, func(k, v []byte) bool {
			if _, ok := labels[string(k)]; !ok && len(labels) < LabelsMax {
				labels[string(k)] = string(v)
			}
			return true
		})
	}
	return labels
}

// startEntries are the entries of the one batch of a start. The receipt of the
// admission is in it: the stamp's journal LSN is what the journal was before,
// this batch's LSN what it is after, and the journal entry what was added.
func (s *Store) startEntries(a *starting, num uint32, rec *record) []entry {
	adm := &admission{
		keyed: a.keyed(), key: a.key, body: a.bodyHash,
		id: rec.ID, parent: rec.Parent, labels: rec.Labels, target: rec.Target,
	}
	must(rand.Read(adm.salt[:]))
	entries := []entry{adm.entry(num), rec.entry(num)}
	if a.resume != nil {
		p := payload{name: resumeRequestName, source: numResumeRequest, ref: *a.resume}
		entries = append(entries, p.entry(num))
	}
	if a.copy != nil {
		entries = append(entries, a.copy.last...)
	} else {
		entries = append(entries, ownRow(num, "type", "accepted", "task", rec.Preview, "uid", rec.uid, "epoch", rec.epoch))
	}
	entries = append(entries, journalRow(num, rec, 0,
		"type", "started", "run", rec.ID, "copied_from", rec.CopiedFrom, "task", rec.Preview, "thread", rec.Labels["thread"]))
	if thread := rec.Labels["thread"]; thread != "" && a.req.Message != nil {
		text := object("role", "user", "run", rec.ID, "message", a.req.Message)
		entries = append(entries, (&note{name: thread, json: text}).entry(kindThread, 0, num))
	}
	return entries
}

// started answers with the record as it is now, and with the token of epoch,
// unless that is 0.
func (s *Store) started(num uint32, epoch uint64, c Caller) (Started, error) {
	if epoch != 0 {
		c.Writer = s.token(num, epoch, purposeWriter)
	}
	rec, tag, err := s.recordFor(c, num)
	if err != nil {
		return Started{}, err
	}
	st := Started{Record: rec, Epoch: rec.Epoch, ETag: tag}
	if epoch != 0 {
		st.Epoch, st.Writer = epoch, c.Writer
	}
	return st, nil
}
