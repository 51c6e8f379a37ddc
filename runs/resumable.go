package runs

import "time"

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

// ResumableMax bounds a list of offers; the oldest admissions come first.
const ResumableMax = 1000

// Resumable lists the runs that may be resumed without an owner's decision:
// those that were interrupted before any effect that must not be repeated, and
// those whose missing scope is granted now. Needs an owner.
func (s *Store) Resumable(c Caller) ([]Offer, error) {
	if !c.owns() {
		return nil, refuse(NotOwner, "only an owner resumes runs")
	}
	s.mu.RLock()
	nums := make([]uint32, 0, 16)
	for _, p := range []Phase{PausedInterruption, PausedPermission} {
		nums = append(nums, s.index.inPhase(p)...)
	}
	s.mu.RUnlock()
	offers := []Offer{}
	for _, num := range nums {
		if len(offers) == ResumableMax {
			break
		}
		o, err := s.offerOf(num)
		if err != nil {
			return nil, err
		}
		if o != nil {
			offers = append(offers, *o)
		}
	}
	return offers, nil
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
