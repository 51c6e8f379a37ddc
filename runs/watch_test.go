package runs

import (
	"context"
	"fmt"
	"runtime"
	"sync"
	"testing"
	"time"
)

// told gathers what a watcher is told until it has nothing more to say.
func (w *world) told(x *Watcher) (events []Event) {
	w.t.Helper()
	for {
		end, _ := w.s.feed.end()
		if len(x.pending) == 0 && !x.shooting && len(x.buf) == 0 && x.at == end {
			return events
		}
		ctx, cancel := context.WithCancel(ctx)
		cancel() // it must not wait
		ev, err := x.Next(ctx)
		if err != nil {
			return events
		}
		events = append(events, ev)
	}
}

func (w *world) watch(c Caller, q WatchQuery) *Watcher {
	w.t.Helper()
	x, err := w.s.Watch(c, q)
	if err != nil {
		w.t.Fatal(err)
	}
	return x
}

// revisions are the changes in events: "id@revision", in order.
func revisions(events []Event) (all []string) {
	for _, ev := range events {
		if ev.Kind == EventRecord {
			all = append(all, fmt.Sprint(ev.ID, "@", ev.Record.Revision))
		}
	}
	return all
}

// TestWatch: first what is, then what changes, each revision once, with the
// record as it was at it.
func TestWatch(t *testing.T) {
	w, _ := newTimed(t)
	a := w.start(StartRequest{ID: "exec_a", Labels: Labels{"thread": "T"}})
	w.start(StartRequest{ID: "exec_done"}).mustSettle("")
	all, mine, thread := w.watch(owner, WatchQuery{}), w.watch(a.c, WatchQuery{Run: a.id}), w.watch(owner, WatchQuery{Thread: "T"})
	b := w.start(StartRequest{ID: "exec_b"})
	a.mustClaim("c", "t", "read-only")
	b.mustSettle("")
	events := w.told(all)
	if len(events) == 0 || events[0].Kind != EventSnapshot || len(events[0].Records) != 1 || events[0].More || events[0].Position == 0 {
		t.Fatalf("first it is told %s", mustJSON(events))
	}
	// exec_a was read after its change, which is not told again.
	if got := fmt.Sprint(revisions(events)); got != "[exec_b@1 exec_b@2 exec_b@3]" || events[0].Records[0].Revision != 2 {
		t.Errorf("it is told of %s", got)
	}
	if ev := events[2]; ev.Record.Phase != "settling" || ev.Record.Terminal != nil {
		t.Errorf("a revision is told as %s", mustJSON(ev.Record))
	}
	for _, x := range []*Watcher{mine, thread} {
		if events := w.told(x); len(events) != 1 || events[0].Records[0].ID != a.id {
			t.Errorf("told %s", mustJSON(events))
		}
	}
	a.mustSettle("")
	for _, x := range []*Watcher{all, mine, thread} {
		if got := fmt.Sprint(revisions(w.told(x))); got != "[exec_a@3 exec_a@4]" {
			t.Errorf("then told of %s", got)
		}
	}
	_, err := w.s.Watch(a.c, WatchQuery{})
	wantCode(t, err, NotOwner)
	_, err = w.s.Watch(a.c, WatchQuery{Run: b.id})
	wantCode(t, err, WrongToken)
	_, err = w.s.Watch(owner, WatchQuery{Run: "exec_none"})
	wantCode(t, err, UnknownRun)
}

// TestWatchAgain breaks off at every event and goes on with another watcher
// from there: together they are told every revision once, in order. When the
// daemon was restarted in between, they are, or are told to begin anew.
func TestWatchAgain(t *testing.T) {
	w, _ := newTimed(t)
	w.start(StartRequest{ID: "exec_before"})
	first := w.watch(owner, WatchQuery{})
	for i := range 5 {
		a := w.start(StartRequest{ID: fmt.Sprint("exec_", i)})
		a.mustClaim("c", "t", "read-only")
		a.mustSettle("answer")
	}
	events := w.told(first)
	if len(events) != 1+5*4 {
		t.Fatalf("%d events", len(events))
	}
	for round := range 2 {
		paused := revisions(w.told(w.watch(owner, WatchQuery{After: &events[len(events)-1].Position})))
		want := fmt.Sprint(append(revisions(events), paused...))
		for cut := range events {
			if events[cut].Position == 0 {
				t.Fatalf("event %d has no position: %s", cut, mustJSON(events[cut]))
			}
			rest := w.told(w.watch(owner, WatchQuery{After: &events[cut].Position}))
			if round == 1 && len(rest) == 2 && rest[0].Kind == EventResync && rest[1].Kind == EventSnapshot {
				continue // the segment was sealed, and its changes are not replayed
			}
			if got := fmt.Sprint(revisions(append(events[:cut+1:cut+1], rest...))); got != want {
				t.Errorf("cut behind event %d: told of %s, want %s", cut, got, want)
			}
		}
		w.reopen()
	}
	future := w.log.Durable() + 1
	if events := w.told(w.watch(owner, WatchQuery{After: &future})); len(events) != 2 || events[0].Kind != EventResync || events[1].Kind != EventSnapshot {
		t.Errorf("behind a position that is not there: %s", mustJSON(events))
	}
}

// TestSlowWatcher: one that does not read keeps nobody waiting and has no more
// than the ring's memory; then it begins anew.
func TestSlowWatcher(t *testing.T) {
	w, _ := newTimed(t)
	x := w.watch(owner, WatchQuery{})
	a := w.start(StartRequest{ID: "exec_a"})
	w.told(x)
	before := heap()
	for range FeedEventsMax * 2 {
		w.s.feed.add(0, feedEvent{num: 1, kind: feedOffer})
	}
	if n := len(w.s.feed.events); n > FeedEventsMax*9/8+1 {
		t.Errorf("the ring has %d events", n)
	}
	if grown := heap() - before; grown > 16<<20 {
		t.Errorf("it took %d bytes", grown)
	}
	a.mustClaim("c", "t", "read-only")
	ev, err := x.Next(ctx)
	if err != nil || ev.Kind != EventResync {
		t.Fatalf("it is told %s, %v", mustJSON(ev), err)
	}
	if ev, err = x.Next(ctx); err != nil || ev.Kind != EventSnapshot || len(ev.Records) != 1 || ev.Records[0].Revision != 2 {
		t.Fatalf("then %s, %v", mustJSON(ev), err)
	}
	runtime.KeepAlive(w)
}

// TestWatchRaces: watchers that come while runs change see each revision once,
// in the snapshot or behind it.
func TestWatchRaces(t *testing.T) {
	w, _ := newTimed(t)
	var wg sync.WaitGroup
	for i := range 4 {
		a := w.start(StartRequest{ID: fmt.Sprint("exec_", i)})
		wg.Go(func() {
			for n := range 30 {
				a.mustOutcome(a.mustClaim(fmt.Sprint(n), "t", "read-only").Call, `{}`)
			}
		})
	}
	for range 8 {
		x := w.watch(owner, WatchQuery{})
		wg.Go(func() {
			last := map[string]uint64{}
			for done := 0; done < 4; {
				ev, err := x.Next(ctx)
				if err != nil {
					t.Error(err)
					return
				}
				for _, rec := range ev.Records {
					last[rec.ID] = rec.Revision
					if rec.Revision == 61 {
						done++
					}
				}
				if ev.Kind == EventRecord {
					if ev.Record.Revision != last[ev.ID]+1 {
						t.Errorf("%s: %d behind %d", ev.ID, ev.Record.Revision, last[ev.ID])
						return
					}
					last[ev.ID] = ev.Record.Revision
					if ev.Record.Revision == 61 {
						done++
					}
				}
			}
		})
	}
	wg.Wait()
}

// TestAbortIsTold: the agent that watches is told to abort, a second time after
// five seconds, and one that comes late is told as well; owners hear of runs
// that may be resumed.
func TestAbortIsTold(t *testing.T) {
	w, f := newTimed(t)
	a := w.start(StartRequest{Lease: 10 * time.Second})
	mine, all := w.watch(a.c, WatchQuery{Run: a.id}), w.watch(owner, WatchQuery{})
	w.told(mine)
	w.told(all)
	if err := w.cancel(a.id); err != nil {
		t.Fatal(err)
	}
	aborts := func(x *Watcher) (n int) {
		for _, ev := range w.told(x) {
			if ev.Kind == EventAbort && ev.ID == a.id && ev.Position == 0 {
				n++
			}
		}
		return n
	}
	if n := aborts(mine); n != 1 {
		t.Errorf("told %d times", n)
	}
	if n := aborts(w.watch(a.c, WatchQuery{Run: a.id})); n != 1 {
		t.Errorf("who comes late is told %d times", n)
	}
	w.pass(f, 6*time.Second)
	if n := aborts(mine); n != 1 {
		t.Errorf("then %d times", n)
	}
	w.pass(f, 6*time.Second)
	if rec := w.wantPhase(a.id, "cancelled"); rec.Cancel.Abort != AbortTimedOut {
		t.Errorf("the cancel is %s", mustJSON(rec.Cancel))
	}
	b := w.start(StartRequest{Lease: 10 * time.Second})
	w.pass(f, 22*time.Second)
	offers := 0
	for _, ev := range w.told(all) {
		if ev.Kind == EventOffer && ev.Offer.ID == b.id && ev.Offer.Ready {
			offers++
		}
	}
	if offers != 1 {
		t.Errorf("%d offers", offers)
	}
}

// TestWatchEndsWithItsToken: a watcher that was opened with a writer token is
// told nothing more once the run has another one, and does not count as a
// listener.
func TestWatchEndsWithItsToken(t *testing.T) {
	w, f := newTimed(t)
	old := w.start(StartRequest{ID: "exec_a", Lease: 10 * time.Second})
	watch, err := w.s.Watch(old.c, WatchQuery{Run: "exec_a"})
	if err != nil {
		t.Fatal(err)
	}
	if ev, err := watch.Next(ctx); err != nil || ev.Kind != EventSnapshot {
		t.Fatalf("%+v, %v", ev, err)
	}
	w.pass(f, 25*time.Second)
	fresh := w.resume("exec_a", PrepareRequest{})
	if err := w.cancel("exec_a"); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		ev, err := watch.Next(ctx)
		if err == nil && ev.Record != nil && ev.Record.Epoch == 1 {
			continue // of before
		}
		wantCode(t, err, StaleWriter)
	}
	_, err = w.s.Watch(old.c, WatchQuery{Run: "exec_a"})
	wantCode(t, err, StaleWriter)
	w.pass(f, 12*time.Second)
	if got := w.wantPhase("exec_a", "cancelled").Cancel.Abort; got != AbortNoListener {
		t.Errorf("the abort is %s, and nobody of its epoch was told", got)
	}
	_ = fresh
}
