package runs

import (
	"cmp"
	"slices"
	"strconv"
	"time"
)

// Offer is a paused run that may be resumed without anyone's decision, and when.
type Offer struct {
	ID        string `json:"id"`
	Phase     string `json:"phase"`
	ETag      string `json:"etag"`
	UID       uint32 `json:"uid"`
	Attempt   uint64 `json:"attempt"`
	Available bool   `json:"available"` // it was started with a resume request
	// Ready is false as long as only its own agent may take it; InMS is how
	// long that still is.
	Ready bool  `json:"ready"`
	InMS  int64 `json:"in_ms"`
}

// OfferPage is a page of a list of offers, the oldest admissions first. Next is
// the cursor of the following page, "" at the end.
type OfferPage struct {
	Offers []Offer `json:"offers"`
	Next   string  `json:"next,omitempty"`
}

// ResumableMax bounds a page of offers.
const ResumableMax = 1000

// Resumable lists the runs that may be resumed without an owner's decision:
// those that were interrupted before any effect that must not be repeated, and
// those whose missing scope is granted now. after is the cursor of a former
// page, "" for the first. A run that cannot be read is left out. Needs an owner.
func (s *Store) Resumable(c Caller, after string) (OfferPage, error) {
	page := OfferPage{Offers: []Offer{}}
	if !c.owns() {
		return page, refuse(NotOwner, "only an owner resumes runs")
	}
	behind := uint64(0)
	if after != "" {
		var err error
		if behind, err = strconv.ParseUint(after, 10, 64); err != nil {
			return page, fieldRefusal(BadCursor, "after", "%s is no cursor of this list", quote(after))
		}
	}
	for _, w := range s.mayBeOffered(behind) {
		if len(page.Offers) == ResumableMax {
			page.Next = strconv.FormatUint(behind, 10)
			break
		}
		behind = w.admission
		o, err := s.offerOf(w.num)
		if isDamage(err) || CodeOf(err) == UnknownRun {
			continue
		}
		if err != nil {
			return page, err
		}
		if o != nil {
			page.Offers = append(page.Offers, *o)
		}
	}
	return page, nil
}

// waitingRun is a run that may have an offer.
type waitingRun struct {
	num       uint32
	admission uint64
}

// mayBeOffered lists them from an admission on, in their order.
func (s *Store) mayBeOffered(behind uint64) []waitingRun {
	s.mu.RLock()
	defer s.mu.RUnlock()
	var all []waitingRun
	for _, p := range []Phase{PausedInterruption, PausedPermission} {
		for _, num := range s.index.inPhase(p) {
			if at := s.index.admission(num); at > behind {
				all = append(all, waitingRun{num, at})
			}
		}
	}
	slices.SortFunc(all, func(a, b waitingRun) int { return cmp.Compare(a.admission, b.admission) })
	return all
}

// offerOf is a run's offer, nil if it cannot be resumed now or soon.
func (s *Store) offerOf(num uint32) (*Offer, error) {
	rec, tag, err := s.recordFor(Caller{Owner: true}, num)
	if err != nil {
		return nil, err
	}
	s.mu.RLock()
	left := s.duty.windows[num] - s.clock.Boot()
	granted := s.index.settings.granted(rec.Binding)
	s.mu.RUnlock()
	switch rec.Phase {
	case PausedInterruption.String():
	case PausedPermission.String():
		left = 0
		if !granted {
			return nil, nil
		}
	default:
		return nil, nil
	}
	left = max(0, left)
	return &Offer{
		ID: rec.ID, Phase: rec.Phase, ETag: tag, UID: rec.UID, Attempt: rec.Resume.Attempt,
		Available: rec.Resume.Available, Ready: left == 0, InMS: int64((left + time.Millisecond - 1) / time.Millisecond),
	}, nil
}
