package runs

import (
	"sort"
	"sync"
)

// feed is the newest changes of all runs, in the order in which they became
// visible: one ring, which every watcher reads at its own pace. A watcher has
// no buffer of its own, so a slow one costs nothing and keeps nobody waiting;
// when the ring has gone past it, it begins anew with a snapshot.
type feed struct {
	mu sync.Mutex
	// events holds the changes numbered from first on.
	events []feedEvent
	first  uint64
	// floor is the highest LSN of which a change is not in the ring any more,
	// or that was before it: whoever has seen up to it misses nothing here.
	floor uint64
	last  uint64 // LSN of the newest batch
	more  chan struct{}
}

// feedFirst is the number of the first event, high enough that older ones can
// be put before it.
const feedFirst = 1 << 40

// FeedEventsMax bounds the ring.
const FeedEventsMax = 1 << 16

type feedEvent struct {
	lsn      uint64
	at       place  // of the record entry
	num      uint32 // of the run
	revision uint32
	kind     feedKind
	last     bool // of its batch
	gone     *removedRun
}

type feedKind uint8

const (
	feedRecord feedKind = iota
	feedRemoved
	feedAbort // these two are of this boot only, and have no place in the log
	feedOffer
)

// removedRun is what is left to tell of a run whose admission was undone.
type removedRun struct {
	id     string
	labels Labels
}

// add puts events of published batches, or of this boot, behind the others. lsn
// is that of the newest batch; 0 for what has none.
func (f *feed) add(lsn uint64, events ...feedEvent) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if lsn != 0 {
		f.last = lsn
	}
	if len(events) == 0 {
		return
	}
	for i := range events {
		if events[i].lsn == 0 {
			events[i].lsn = f.last
		}
	}
	f.events = append(f.events, events...)
	if over := len(f.events) - FeedEventsMax; over > FeedEventsMax/8 {
		f.floor = f.events[over-1].lsn
		f.events = append(make([]feedEvent, 0, len(f.events)), f.events[over:]...)
		f.first += uint64(over)
	}
	if f.more != nil {
		close(f.more)
		f.more = nil
	}
}

// replay is add for a batch that was read back, the first of which says where
// the ring begins.
func (f *feed) replay(lsn uint64, events []feedEvent) {
	if f.last == 0 {
		f.begin(lsn - 1)
	}
	f.add(lsn, events...)
}

// begin says that everything up to lsn is not in the ring.
func (f *feed) begin(lsn uint64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.floor, f.last = max(f.floor, lsn), max(f.last, lsn)
	if f.first == 0 && len(f.events) == 0 {
		f.first = feedFirst
	}
}

// end is the number of the next event, and the newest LSN before it.
func (f *feed) end() (n, lsn uint64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.first + uint64(len(f.events)), f.last
}

// behind is the number of the first event above lsn; false where the ring does
// not know what came behind lsn, or nothing has that number yet.
func (f *feed) behind(lsn uint64) (n uint64, ok bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if lsn < f.floor || lsn > f.last {
		return 0, false
	}
	i := sort.Search(len(f.events), func(i int) bool { return f.events[i].lsn > lsn })
	return f.first + uint64(i), true
}

// feedChunk is how many events are taken from the ring under one lock.
const feedChunk = 256

// from copies events from number n on into buf. ok is false where the ring has
// gone past n; more is closed when there are events behind those.
func (f *feed) from(n uint64, buf []feedEvent) (events []feedEvent, more <-chan struct{}, ok bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if n < f.first {
		return nil, nil, false
	}
	rest := f.events[n-f.first:]
	if len(rest) == 0 {
		if f.more == nil {
			f.more = make(chan struct{})
		}
		return nil, f.more, true
	}
	return append(buf[:0], rest[:min(len(rest), feedChunk)]...), nil, true
}

// feedOf lists the events of a batch that became visible. Store.mu is held.
func feedOf(b *batch, lsn uint64, at func(n int) place) (events []feedEvent) {
	for n, e := range b.entries {
		if e.kind == kindRemoved {
			if gone, err := parseRemoval(e); err == nil {
				events = append(events, feedEvent{lsn: lsn, num: e.run, kind: feedRemoved, gone: &removedRun{gone.ID, gone.Labels}})
			}
			continue
		}
		if e.kind != kindRecord {
			continue
		}
		h, _, err := parseRecordHead(e)
		if err != nil {
			continue // apply has refused it
		}
		events = append(events, feedEvent{lsn: lsn, at: at(n), num: e.run, revision: uint32(h.revision), kind: feedRecord})
	}
	if len(events) > 0 {
		events[len(events)-1].last = true
	}
	return events
}
