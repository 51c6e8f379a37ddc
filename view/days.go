package view

import (
	"sync"
	"time"

	"durafs/runs"
)

// byDay groups runs by the day of their start.
func byDay() groups[uint32] {
	return groups[uint32]{
		of:   func(r runs.Run) (uint32, bool) { return dayOf(r), true },
		rank: func(g *group[uint32]) uint32 { return g.key },
	}
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
