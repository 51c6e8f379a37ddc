package runs

import (
	"context"
	"sync/atomic"
	"time"
)

// duty is what the store does when time passes: leases end, dispatches time
// out, agents are asked again to abort. All of it is of this boot only.
type duty struct {
	// strained is the boot time at which the store last kept agents waiting.
	strained atomic.Int64

	// Guarded by Store.mu.
	ticked     time.Duration            // boot time of the last tick
	windows    map[uint32]time.Duration // until when only an attach takes a run
	dispatches map[uint32]time.Duration // since when a resume token is out
	cancels    map[uint32]*cancelling
}

// TickEvery is how often Tick is to be called, and tickLate how late a tick is
// that tells of a daemon that was stopped in between, with the machine or
// without.
const (
	TickEvery = time.Second
	tickLate  = 5 * time.Second
)

func (s *Store) initDuty() {
	now := s.clock.Boot()
	s.duty.ticked = now
	s.duty.windows = map[uint32]time.Duration{}
	s.duty.dispatches = map[uint32]time.Duration{}
	s.duty.cancels = map[uint32]*cancelling{}
	s.duty.strained.Store(int64(now)) // nobody could be heard before
}

// Watch over time: Attend calls Tick every second until ctx ends. It is the
// daemon's to run, on a goroutine of its own.
func (s *Store) Attend(ctx context.Context) {
	every := time.NewTicker(TickEvery)
	defer every.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-every.C:
			s.Tick(ctx)
		}
	}
}

// Tick does what is due: it ends leases and dispatches, and asks agents again
// to abort. What fails is logged, and is due again at the next tick.
func (s *Store) Tick(ctx context.Context) {
	now := s.clock.Boot()
	s.mu.Lock()
	if late := now - s.duty.ticked; late > tickLate {
		s.forgive(now)
	}
	s.duty.ticked = now
	offers := s.endWindows(now)
	s.mu.Unlock()
	for _, num := range offers {
		s.offer(num)
	}
	s.expireLeases(ctx, now)
	s.endDispatches(ctx, now)
	s.pressCancels(ctx, now)
}

// hopeless reports whether what failed for one run fails for all: else the others
// do not wait for it.
func (s *Store) hopeless(ctx context.Context) bool {
	return ctx.Err() != nil || s.log.Healthy() != nil
}

// forgive gives every run a whole lease, window and timeout from now on; mu is
// held.
func (s *Store) forgive(now time.Duration) {
	gap := now - s.duty.ticked
	for _, l := range s.acc.runs {
		l.heard.Store(int64(now))
	}
	for num, until := range s.duty.windows {
		s.duty.windows[num] = until + gap
	}
	for num, since := range s.duty.dispatches {
		s.duty.dispatches[num] = since + gap
	}
	for _, c := range s.duty.cancels {
		c.asked += gap
	}
	s.logger.Info("the daemon was stopped for a while; every run has a whole lease again", "gap", gap)
}

// openWindow begins the time in which only an attach takes a lost run; mu is
// held.
func (s *Store) openWindow(num uint32, rec *record) {
	s.duty.windows[num] = s.clock.Boot() + rec.window()
}

// closeWindow ends that time for good, if what ends it becomes durable; mu is
// held.
func (s *Store) closeWindow(l *live) {
	if until, ok := s.duty.windows[l.num]; ok {
		l.window = until
		delete(s.duty.windows, l.num)
	}
}

// endWindows forgets the windows that are over, and lists their runs; mu is
// held.
func (s *Store) endWindows(now time.Duration) (over []uint32) {
	for num, until := range s.duty.windows {
		if now >= until {
			delete(s.duty.windows, num)
			over = append(over, num)
		}
	}
	return over
}
