package runs

import (
	"context"
	"fmt"
	"math"
)

// WatchQuery says what to watch.
type WatchQuery struct {
	// Run or Thread, at most one, narrow it down; else it is every run that is
	// not finished.
	Run, Thread string
	// After goes on behind the position that an earlier watcher's event had;
	// nil begins with a snapshot.
	After *uint64
}

// EventKind says what an event is.
type EventKind string

// The kinds of events.
const (
	// EventSnapshot has records as they are; the last of a snapshot has More
	// false, and a position.
	EventSnapshot EventKind = "snapshot"
	// EventRecord is a revision of a record. A reader that keeps the highest
	// revision of each run drops what is not above it.
	EventRecord EventKind = "record"
	// EventRemoved tells of a run whose admission was undone.
	EventRemoved EventKind = "removed"
	// EventAbort asks the run's agent to abort.
	EventAbort EventKind = "abort"
	// EventOffer tells that a paused run may be resumed now.
	EventOffer EventKind = "offer"
	// EventResync says that changes were missed: what was kept is to be
	// forgotten, and a snapshot follows.
	EventResync EventKind = "resync"
)

// Event is one thing that a watcher is told.
type Event struct {
	Kind    EventKind
	ID      string    // of the run
	Record  *Record   // of a record
	Records []*Record // of a snapshot
	More    bool      // of a snapshot
	Offer   *Offer
	// Position is what WatchQuery.After takes to go on behind this event: an
	// LSN, 0 for an event that has none.
	Position uint64
}

// snapshotChunk is how many records one event of a snapshot has.
const snapshotChunk = 64

// Watcher is one reader of changes. It is not for concurrent use, and holds
// nothing that would have to be given back.
//
// It registers before it reads: a watcher first notes where the feed ends,
// then reads the records, then goes through the feed from that place on, and
// leaves out what the records had already. So it misses nothing that happens
// meanwhile, and tells nothing twice.
type Watcher struct {
	store  *Store
	caller Caller
	num    uint32 // of the one run, 0 for others
	epoch  uint64 // that the caller's writer token is of, 0 for an owner
	thread string

	at  uint64      // number of the next event in the feed
	buf []feedEvent // that were taken from it

	snapshot []uint32 // runs that are still to be told of
	shooting bool
	position uint64            // at which the snapshot began
	seen     map[uint32]uint64 // revisions that the snapshot told, until the feed is past it
	until    uint64            // number of the event that is past it
	pending  []Event
}

// Watch begins to watch. Needs an owner, or the writer token of the one run
// that is named.
func (s *Store) Watch(c Caller, q WatchQuery) (*Watcher, error) {
	if q.Run != "" && q.Thread != "" {
		return nil, fieldRefusal(BadName, "thread", "watch one run or one thread, not both")
	}
	w := &Watcher{store: s, caller: c, thread: q.Thread}
	if q.Run != "" {
		ref, err := s.Look(c, q.Run)
		if err != nil {
			return nil, err
		}
		w.num = uint32(ref)
		if c.Writer != "" {
			now, newest := s.epochs(w.num)
			if w.epoch = s.epochOf(w.num, c.Writer, newest); w.epoch != now {
				return nil, staleWatch(w.epoch, now) // it was raised since
			}
		}
	} else if !c.owns() {
		return nil, refuse(NotOwner, "the runs of others are not this caller's to watch")
	}
	if q.After == nil {
		w.begin()
		return w, nil
	}
	at, ok := s.feed.behind(*q.After)
	if !ok {
		s.recall(*q.After)
		at, ok = s.feed.behind(*q.After)
	}
	if !ok {
		w.resync()
		return w, nil
	}
	w.at = at
	w.remind()
	return w, nil
}

// remind asks again to abort where that was asked before: being asked has no
// place in the log, so a watcher that goes on behind one may have missed it.
func (w *Watcher) remind() {
	if w.num == 0 {
		return
	}
	if run, ok := w.store.Info(Ref(w.num)); ok && run.Phase == CancelRequested {
		w.pending = append(w.pending, Event{Kind: EventAbort, ID: run.ID})
	}
}

// begin registers and then lists what the snapshot is to tell.
func (w *Watcher) begin() {
	w.at, w.position = w.store.feed.end()
	w.buf, w.shooting, w.seen = nil, true, map[uint32]uint64{}
	w.snapshot = w.store.watched(w.num, w.thread)
}

func (w *Watcher) resync() {
	w.pending = append(w.pending, Event{Kind: EventResync})
	w.begin()
}

// watched lists the runs that a snapshot tells of.
func (s *Store) watched(num uint32, thread string) (nums []uint32) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	switch {
	case num != 0:
		return []uint32{num}
	case thread != "":
		return s.index.inThread(thread, math.MaxInt)
	}
	for p := Running; int(p) < phaseCount; p++ {
		if !p.sealed() {
			nums = append(nums, s.index.inPhase(p)...)
		}
	}
	return nums
}

// Next waits for the next event. It returns ctx's error when ctx ends first, and
// stale-writer once the run is not that of the watcher's token any more: what
// happens to it then is its next agent's.
func (w *Watcher) Next(ctx context.Context) (Event, error) {
	for {
		if len(w.pending) > 0 {
			ev := w.pending[0]
			w.pending = w.pending[1:]
			return ev, w.mayTell(ev)
		}
		if w.shooting {
			if err := w.shoot(); err != nil {
				return Event{}, err
			}
			continue
		}
		if len(w.buf) == 0 {
			events, more, ok := w.store.feed.from(w.at, w.buf)
			switch {
			case !ok:
				w.resync()
			case more != nil:
				select {
				case <-more:
				case <-ctx.Done():
					return Event{}, ctx.Err()
				}
			}
			w.buf = events
			continue
		}
		e := w.buf[0]
		w.buf = w.buf[1:]
		w.at++
		if err := w.take(e); err != nil {
			return Event{}, err
		}
	}
}

// mayTell checks that the token which the watcher was opened with still is the
// run's, and notes that its agent knows of an abort.
func (w *Watcher) mayTell(ev Event) error {
	if w.epoch == 0 {
		return nil
	}
	if now, _ := w.store.epochs(w.num); now != w.epoch {
		return staleWatch(w.epoch, now)
	}
	if ev.Kind == EventAbort {
		w.store.abortTold(w.num, w.epoch)
	}
	return nil
}

func staleWatch(epoch, now uint64) *Refusal {
	return refuse(StaleWriter, "the writer token is of epoch %d, and the run is in epoch %d", epoch, now)
}

// shoot makes the next event of the snapshot.
func (w *Watcher) shoot() error {
	ev := Event{Kind: EventSnapshot, Records: []*Record{}}
	n := min(len(w.snapshot), snapshotChunk)
	for _, num := range w.snapshot[:n] {
		rec, _, err := w.store.recordFor(w.caller, num)
		if CodeOf(err) == UnknownRun {
			continue // its admission was undone since
		}
		if err != nil {
			return err
		}
		ev.Records = append(ev.Records, rec)
		w.seen[num] = rec.Revision
	}
	w.snapshot = w.snapshot[n:]
	if ev.More = len(w.snapshot) > 0; !ev.More {
		ev.Position, w.shooting = w.position, false
		w.until, _ = w.store.feed.end()
	}
	w.pending = append(w.pending, ev)
	for _, rec := range ev.Records {
		if w.num != 0 && rec.Phase == CancelRequested.String() {
			w.pending = append(w.pending, Event{Kind: EventAbort, ID: rec.ID})
		}
	}
	return nil
}

// take makes of a change of the feed what this watcher is told of it, if it is.
func (w *Watcher) take(e feedEvent) error {
	if w.seen != nil && w.at > w.until {
		w.seen = nil
	}
	if w.num != 0 && e.num != w.num {
		return nil
	}
	ev, err := w.event(e)
	if err != nil || ev == nil {
		return err
	}
	if e.last {
		ev.Position = e.lsn
	}
	w.pending = append(w.pending, *ev)
	return nil
}

func (w *Watcher) event(e feedEvent) (*Event, error) {
	switch e.kind {
	case feedRemoved:
		if w.thread != "" && e.gone.labels["thread"] != w.thread {
			return nil, nil
		}
		return &Event{Kind: EventRemoved, ID: e.gone.id}, nil
	case feedRecord:
		if uint64(e.revision) <= w.seen[e.num] {
			return nil, nil
		}
		rec, err := w.store.recordAt(w.caller, e)
		if err != nil || rec == nil || w.thread != "" && rec.Labels["thread"] != w.thread {
			return nil, err
		}
		return &Event{Kind: EventRecord, ID: rec.ID, Record: rec}, nil
	}
	run, ok := w.store.Info(Ref(e.num))
	if !ok || w.thread != "" {
		return nil, nil
	}
	if e.kind == feedAbort {
		return &Event{Kind: EventAbort, ID: run.ID}, nil
	}
	if !w.caller.owns() {
		return nil, nil
	}
	o, err := w.store.offerOf(e.num)
	if err != nil || o == nil {
		return nil, err
	}
	return &Event{Kind: EventOffer, ID: run.ID, Offer: o}, nil
}

// recordAt is the public record as it was at a change; nil for a run that is
// gone.
func (s *Store) recordAt(c Caller, e feedEvent) (*Record, error) {
	m, ok := s.moment(e.num)
	if !ok {
		return nil, nil
	}
	rec := m.rec
	if rec == nil || rec.revision != uint64(e.revision) {
		var err error
		if rec, err = s.readRecord(e.at); isDamage(err) { // one run's damage ends nobody's watching
			s.foundDamage(e.num, err)
			m.run, _ = s.Info(Ref(e.num))
			rec = s.shellOf(e.num)
		} else if err != nil {
			return nil, fmt.Errorf("read revision %d of run %s: %w", e.revision, m.run.ID, err)
		}
	}
	writer := c.Writer != "" && s.epochOf(e.num, c.Writer, rec.epoch) == rec.epoch
	m.run.Revision = rec.revision // the event is of this revision, not of the newest
	return rec.public(m.run, m.heartbeat, actionsOf(rec.phase, writer, c.owns())), nil
}

// offer tells watchers that a run may be resumed.
func (s *Store) offer(num uint32) { s.feed.add(0, feedEvent{num: num, kind: feedOffer}) }

// tellAbort tells watchers that a run's agent is to abort.
func (s *Store) tellAbort(num uint32) { s.feed.add(0, feedEvent{num: num, kind: feedAbort}) }
