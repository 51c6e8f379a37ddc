package runs

import (
	"cmp"
	"context"
	"slices"
	"strconv"
	"time"

	"durafs/wal"
)

// DeliveryInfo is a delivery as an owner sees it.
type DeliveryInfo struct {
	ID  string `json:"id"`
	Run string `json:"run"`
	// Sink is its name, "" where that cannot be read any more.
	Sink string `json:"sink"`
	// State is one of the words below; what waits for a sink that is not
	// configured, or of a damaged run, is parked.
	State      string `json:"state"`
	Configured bool   `json:"configured"`
	Damaged    bool   `json:"damaged,omitempty"`
	Attempts   uint32 `json:"attempts"` // that have failed
	// Error is what the last of them said, At when that was; before it, when the
	// run ended.
	Error string    `json:"error,omitempty"`
	At    time.Time `json:"at"`
}

// The states of a delivery.
const (
	DeliveryWaiting    = "waiting"    // it is the sink's turn, or will be
	DeliveryDelivering = "delivering" // the sink is being told
	DeliveryParked     = "parked"     // it waits for an owner
)

// OutboxPage is a page of deliveries, those of the oldest admissions first. Next
// is the cursor of the following page, "" at the end.
type OutboxPage struct {
	Deliveries []DeliveryInfo `json:"deliveries"`
	Next       string         `json:"next,omitempty"`
}

// Bounds of a page of deliveries. One run's are never cut apart, so that a page
// may have SinksMax more.
const (
	OutboxPageDefault = 100
	OutboxPageMax     = 1000
)

// Outbox lists the deliveries that there are: what was told is none any more.
// after is the cursor of a former page, "" for the first; limit is about how many
// a page has, 0 for OutboxPageDefault. Needs an owner.
func (s *Store) Outbox(c Caller, after string, limit int) (OutboxPage, error) {
	page := OutboxPage{Deliveries: []DeliveryInfo{}}
	if !c.owns() {
		return page, refuse(NotOwner, "the outbox is not this caller's to read")
	}
	behind := uint64(0)
	if after != "" {
		var err error
		if behind, err = strconv.ParseUint(after, 10, 64); err != nil {
			return page, fieldRefusal(BadCursor, "after", "%s is no cursor of this list", quote(after))
		}
	}
	if limit <= 0 {
		limit = OutboxPageDefault
	}
	for _, w := range s.deliveriesBehind(behind) {
		if len(page.Deliveries) >= min(limit, OutboxPageMax) && w.admission != behind {
			page.Next = strconv.FormatUint(behind, 10)
			break
		}
		behind = w.admission
		d, there, err := s.deliveryInfo(w.key)
		if err != nil {
			return page, err
		}
		if there {
			page.Deliveries = append(page.Deliveries, d)
		}
	}
	return page, nil
}

// waitingDelivery is a delivery, and where its run stands among the others.
type waitingDelivery struct {
	key       deliveryKey
	admission uint64
}

func (s *Store) deliveriesBehind(behind uint64) []waitingDelivery {
	s.mu.RLock()
	all := make([]waitingDelivery, 0, len(s.index.deliveries.at))
	for k := range s.index.deliveries.at {
		if at := s.index.admission(k.run); at > behind {
			all = append(all, waitingDelivery{k, at})
		}
	}
	s.mu.RUnlock()
	slices.SortFunc(all, func(a, b waitingDelivery) int {
		return cmp.Or(cmp.Compare(a.admission, b.admission), cmp.Compare(a.key.sink, b.key.sink))
	})
	return all
}

// deliveryInfo reads a delivery; false where it is none any more.
func (s *Store) deliveryInfo(k deliveryKey) (d DeliveryInfo, there bool, err error) {
	s.mu.RLock()
	x, there := s.index.deliveries.at[k]
	d.Configured = s.outbox.queue(k.sink) != nil
	d.Damaged = s.index.isDamaged(k.run)
	_, busy := s.outbox.busy[k]
	run, _ := s.index.run(k.run)
	s.mu.RUnlock()
	if !there {
		return d, false, nil
	}
	d.ID, d.Run, d.State = deliveryID(run.ID, k.sink), run.ID, DeliveryWaiting
	b, e, err := s.readEntry(x.at, kindDelivery)
	var was *delivery
	if err == nil {
		was, err = parseDelivery(e)
	}
	switch {
	case isDamage(err):
		s.foundDamage(k.run, err)
		d.Damaged = true
	case err != nil:
		return d, true, err
	default:
		d.Sink, d.Attempts, d.Error, d.At = was.sink, was.attempts, was.err, unixTime(b.stamp.at)
	}
	switch {
	case busy:
		d.State = DeliveryDelivering
	case x.parked || d.Damaged || !d.Configured:
		d.State = DeliveryParked
	}
	return d, true, nil
}

// OutboxCounts tells how many deliveries wait, and how many are parked, those
// for sinks that are not configured included.
func (s *Store) OutboxCounts() (waiting, parked int) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	for sink, n := range s.index.deliveries.of {
		parked += n.parked
		if s.outbox.queue(sink) == nil {
			parked += n.waiting
		} else {
			waiting += n.waiting
		}
	}
	return waiting, parked
}

// RetryAnswer is what a retry came to. Replayed: the sink was about to be told
// for the first time, and there was nothing to change.
type RetryAnswer struct {
	DeliveryInfo
	Replayed bool `json:"replayed,omitempty"`
}

// RetryDelivery lets a delivery be made at once, as if it had never failed; that
// it is not parked any more is durable. Needs an owner.
func (s *Store) RetryDelivery(ctx context.Context, c Caller, id string) (a RetryAnswer, err error) {
	k, done, err := s.takeDelivery(c, id)
	if err != nil {
		return a, err
	}
	defer func() { done(err == nil) }()
	before, there, err := s.deliveryInfo(k)
	switch {
	case err != nil:
		return a, err
	case !there:
		return a, unknownDelivery(id)
	case !before.Configured:
		return a, fieldRefusal(UnknownSink, "sink", "the sink %s is not configured", quote(before.Sink))
	case before.Damaged:
		return a, s.refuseDamagedRun(k.run)
	}
	a.Replayed = before.Attempts == 0
	if !a.Replayed {
		next := &delivery{sink: before.Sink, err: before.Error}
		if err := s.writeDelivery(ctx, wal.Reserved, next.entry(k.run)); err != nil {
			return a, err
		}
	}
	a.DeliveryInfo, _, err = s.deliveryInfo(k)
	a.State = DeliveryWaiting
	return a, err
}

// DropDelivery gives a delivery up, durably: its sink is not told. The answer is
// what it was. Needs an owner.
func (s *Store) DropDelivery(ctx context.Context, c Caller, id string) (DeliveryInfo, error) {
	k, done, err := s.takeDelivery(c, id)
	if err != nil {
		return DeliveryInfo{}, err
	}
	defer done(false)
	d, there, err := s.deliveryInfo(k)
	if err != nil {
		return d, err
	}
	if !there {
		return d, unknownDelivery(id)
	}
	d.State = DeliveryParked // nobody tells the sink from here on
	return d, s.writeDelivery(ctx, wal.Reserved, deliveredEntry(k.run, k.sink, true))
}

// takeDelivery finds a delivery that is not being made, and keeps it from that
// until done is called; ready says that it need not wait any longer.
func (s *Store) takeDelivery(c Caller, id string) (k deliveryKey, done func(ready bool), err error) {
	if !c.owns() {
		return k, nil, refuse(NotOwner, "the outbox is not this caller's to change")
	}
	run, sink, ok := parseDeliveryID(id)
	if !ok {
		return k, nil, unknownDelivery(id)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	k = deliveryKey{s.index.find(run), sink}
	if _, there := s.index.deliveries.at[k]; !there {
		return k, nil, unknownDelivery(id)
	}
	if _, busy := s.outbox.busy[k]; busy {
		r := refuse(DeliveryOpen, "the sink is being told now")
		r.Field = "id"
		return k, nil, r
	}
	s.outbox.busy[k] = struct{}{}
	return k, func(ready bool) {
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.outbox.busy, k)
		q := s.outbox.queue(sink)
		if q == nil {
			return
		}
		if ready {
			q.forget(k.run)
		}
		q.ready = append(q.ready, k.run) // its turn may have come, and was passed over
		s.outbox.tell()
	}, nil
}

func unknownDelivery(id string) *Refusal {
	return fieldRefusal(UnknownDelivery, "id", "there is no delivery %s", quote(id))
}

// refuseDamagedRun is refuseDamaged for whoever does not hold mu.
func (s *Store) refuseDamagedRun(num uint32) *Refusal {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.refuseDamaged(num)
}
