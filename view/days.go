package view

import (
	"slices"
	"sync"
	"time"

	"durafs/runs"
)

// dayIndex lists runs by the day of their start. It reads on from where it
// stopped whenever it is asked: nothing has to tell it of a new run, and
// opening a store costs nothing here.
type dayIndex struct {
	// mu guards all below. A bucket's refs are appended to, or replaced as a
	// whole, so a slice taken under mu may be read without it.
	mu      sync.Mutex
	next    runs.Ref // the first run not yet seen, 0 for 1
	buckets map[uint32]*dayBucket
	days    []uint32 // sorted

	// missing are numbers behind next that were no run when they were passed:
	// a start that was refused, or one whose number was published after a
	// higher one. They are asked for again until they are gapBack behind.
	missing []runs.Ref
}

// gapBack is how far behind the newest run a number may still be on its way;
// many times what the log keeps in flight.
const gapBack = 1 << 16

type dayBucket struct {
	refs  []runs.Ref // ascending
	mtime time.Time
}

// catchUp reads the runs admitted since the last call. mu is held.
func (x *dayIndex) catchUp(src Source) {
	if x.buckets == nil {
		x.buckets, x.next = make(map[uint32]*dayBucket), 1
	}
	x.missing = slices.DeleteFunc(x.missing, func(ref runs.Ref) bool {
		r, ok := src.Info(ref)
		if ok {
			x.add(r)
		}
		return ok || ref+gapBack < x.next
	})
	for newest := src.Newest(); x.next <= newest; x.next++ {
		if r, ok := src.Info(x.next); ok {
			x.add(r)
		} else {
			x.missing = append(x.missing, x.next)
		}
	}
}

func (x *dayIndex) add(r runs.Run) {
	day := dayOf(r)
	b := x.buckets[day]
	if b == nil {
		b = new(dayBucket)
		x.buckets[day] = b
		at, _ := slices.BinarySearch(x.days, day)
		x.days = slices.Insert(x.days, at, day)
	}
	if n := len(b.refs); n == 0 || b.refs[n-1] < r.Ref {
		b.refs = append(b.refs, r.Ref)
	} else {
		at, _ := slices.BinarySearch(b.refs, r.Ref)
		b.refs = slices.Insert(slices.Clone(b.refs), at, r.Ref)
	}
	b.mtime = later(b.mtime, r.StartedAt)
}

// bucket tells the runs of a day and when the last one came.
func (x *dayIndex) bucket(src Source, day uint32) (dayBucket, bool) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.catchUp(src)
	b := x.buckets[day]
	if b == nil {
		return dayBucket{}, false
	}
	return *b, true
}

// after lists the days behind one; the first call has day -1.
func (x *dayIndex) after(src Source, day int64) []uint32 {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.catchUp(src)
	at, _ := slices.BinarySearchFunc(x.days, day, func(d uint32, want int64) int {
		if int64(d) <= want {
			return -1
		}
		return 1
	})
	// A copy: Insert moves the elements of the slice itself.
	return slices.Clone(x.days[at:])
}

// later is the time of a directory after a change at t: it moves with every
// change and never goes back, though the wall clock may.
func later(last, t time.Time) time.Time {
	if t.After(last) {
		return t
	}
	return last.Add(1)
}

// admissions tells when the last run came, as later has it.
type admissions struct {
	mu   sync.Mutex
	seen runs.Ref
	at   time.Time
}

func (a *admissions) last(src Source) time.Time {
	a.mu.Lock()
	defer a.mu.Unlock()
	if newest := src.Newest(); newest != a.seen {
		r, _ := src.Info(newest)
		a.at, a.seen = later(a.at, r.StartedAt), newest
	}
	return a.at
}

const (
	dayFormat  = "2006-01-02"
	daySeconds = 24 * 60 * 60
	dayMax     = 2932896 // 9999-12-31, the last one that dayFormat can say
)

func dayNumber(t time.Time) uint32 {
	return uint32(min(max(t.Unix()/daySeconds, 0), dayMax))
}

func dayName(day uint32) string {
	return time.Unix(int64(day)*daySeconds, 0).UTC().Format(dayFormat)
}

// parseDay is the inverse of dayName.
func parseDay(name string) (uint32, bool) {
	t, err := time.Parse(dayFormat, name)
	if err != nil || t.Unix() < 0 {
		return 0, false
	}
	return dayNumber(t), true
}

func dayOf(r runs.Run) uint32 { return dayNumber(r.StartedAt) }
