package runs

import (
	"context"
	"errors"
	"math"
	"time"

	"durafs/wal"
)

// outbox is the order in which sinks are told. A sink has its runs in the order
// in which they ended; one that could not be told comes again after a pause that
// doubles, and when that has happened too often it is parked: only an owner lets
// it be tried again. All of it is of this boot: an open makes it again from the
// index, and whatever was under way is told once more.
//
// What is published only is ever scheduled, so that a run's end is durable
// before anybody hears of it; and nothing here is on anyone's way to a barrier.
type outbox struct {
	sinks       []string // by name; set by New
	attemptsMax uint32   // set by New

	// Guarded by Store.mu.
	queues []*sinkQueue // one of each sink
	turn   int          // whose queue is asked first
	busy   map[deliveryKey]struct{}
	open   int // deliveries that were taken and not given back

	wake chan struct{} // has room for one
}

type sinkQueue struct {
	sink  sinkID
	open  int
	ready []uint32
	// later are the runs that are tried again, by how often that has failed: the
	// pause is the same in each, so each is in order.
	later [][]laterRun
}

type laterRun struct {
	due time.Duration // boot time
	run uint32
}

// Bounds of telling sinks.
const (
	DeliveriesOpenMax  = 4 // at once, of all sinks
	deliveriesOfOneMax = 2 // of one sink, so that a slow one does not keep the others waiting
	sinkPauseFirst     = 200 * time.Millisecond
	sinkPauseMax       = 5 * time.Minute
	// SinkAttemptsDefault tries take nearly an hour.
	SinkAttemptsDefault = 20
	SinkAttemptsMax     = 1000
	ackPause            = time.Second // before an acknowledgement is written again
)

func newOutbox(sinks []string, attempts int) outbox {
	if attempts <= 0 {
		attempts = SinkAttemptsDefault
	}
	return outbox{sinks: sinks, attemptsMax: uint32(min(attempts, SinkAttemptsMax)), wake: make(chan struct{}, 1)}
}

// begin schedules what earlier boots have left.
func (o *outbox) begin(x *deliveries) {
	o.busy, o.queues = map[deliveryKey]struct{}{}, nil
	for _, name := range o.sinks {
		o.queues = append(o.queues, &sinkQueue{sink: sinkIDOf(name)})
	}
	x.born = nil
	for _, k := range x.sorted() {
		if q := o.queue(k.sink); q != nil && !x.at[k].parked {
			q.ready = append(q.ready, k.run)
		}
	}
}

// queue is a sink's, nil for one that is not configured.
func (o *outbox) queue(sink sinkID) *sinkQueue {
	for _, q := range o.queues {
		if q.sink == sink {
			return q
		}
	}
	return nil
}

// schedule takes over what settlements have left; Store.mu is held.
func (o *outbox) schedule(x *deliveries) {
	if len(x.born) == 0 {
		return
	}
	for _, k := range x.born {
		if q := o.queue(k.sink); q != nil {
			q.ready = append(q.ready, k.run)
		}
	}
	x.born = nil
	o.tell()
}

// tell wakes whoever waits for deliveries.
func (o *outbox) tell() {
	select {
	case o.wake <- struct{}{}:
	default: // it is awake
	}
}

// pause is how long a delivery waits that has failed so often.
func sinkPause(attempts uint32) time.Duration {
	if attempts > 16 {
		return sinkPauseMax
	}
	return min(sinkPauseFirst<<(attempts-1), sinkPauseMax)
}

// again schedules a delivery that has failed attempts times, at least once.
func (q *sinkQueue) again(run, attempts uint32, now time.Duration) {
	for len(q.later) < int(attempts) {
		q.later = append(q.later, nil)
	}
	q.later[attempts-1] = append(q.later[attempts-1], laterRun{now + sinkPause(attempts), run})
}

// forget takes a run out of those that are tried again.
func (q *sinkQueue) forget(run uint32) {
	for i, list := range q.later {
		for j := range list {
			if list[j].run == run {
				q.later[i] = append(list[:j:j], list[j+1:]...)
				return
			}
		}
	}
}

// promote lets those be ready whose pause is over, and returns when the next
// one's will be.
func (q *sinkQueue) promote(now time.Duration) (next time.Duration) {
	next = math.MaxInt64
	for i := range q.later {
		for len(q.later[i]) > 0 && q.later[i][0].due <= now {
			q.ready = append(q.ready, q.later[i][0].run)
			q.later[i] = q.later[i][1:]
		}
		if len(q.later[i]) > 0 {
			next = min(next, q.later[i][0].due)
		}
	}
	return next
}

// Delivery is one telling of a sink: whoever has it runs the command, and then
// says Delivered, Undelivered or GiveBack, once.
type Delivery struct {
	// ID is the same for every telling of the run's end to this sink.
	ID      string
	Sink    string
	Run     string
	Attempt uint32 // from 1
	// Packet is what the sink is told, a JSON object.
	Packet []byte

	key deliveryKey
	was *delivery
}

// sinkPacket is the form of Delivery.Packet.
type sinkPacket struct {
	ID      string  `json:"id"`
	Sink    string  `json:"sink"`
	Attempt uint32  `json:"attempt"`
	Outcome string  `json:"outcome"` // the terminal status, or cancelled
	Record  *Record `json:"record"`
}

// DeliveryWake has a value when NextDelivery may have one that had none before.
func (s *Store) DeliveryWake() <-chan struct{} { return s.outbox.wake }

// NextDelivery takes the delivery that is due; nil where there is none, and then
// wait is how long it is until one is, if nothing happens before. At most
// DeliveriesOpenMax are out at once. There is none while the store takes no
// writes, since nobody could say then that it was told.
func (s *Store) NextDelivery() (d *Delivery, wait time.Duration) {
	for {
		if s.log.Healthy() != nil {
			return nil, ackPause
		}
		k, at, wait := s.takeDue()
		if at == (place{}) {
			return nil, wait
		}
		d, err := s.readDelivery(k, at)
		if err == nil {
			return d, 0
		}
		s.foundDamage(k.run, err)
		s.logger.Error("a delivery cannot be made", "run", k.run, "error", err)
		s.giveBack(k, 0) // it waits for the repair, or the next start
	}
}

// takeDue takes the first delivery that is due. What does not wait any more is
// passed over.
func (s *Store) takeDue() (k deliveryKey, at place, wait time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	o, x, now := &s.outbox, &s.index.deliveries, s.clock.Boot()
	next := now + time.Hour
	for i := range o.queues {
		q := o.queues[(o.turn+i)%len(o.queues)]
		next = min(next, q.promote(now))
		for len(q.ready) > 0 && q.open < deliveriesOfOneMax && o.open < DeliveriesOpenMax {
			k = deliveryKey{q.ready[0], q.sink}
			q.ready = q.ready[1:]
			d, there := x.at[k]
			if _, busy := o.busy[k]; !there || busy || d.parked || s.index.isDamaged(k.run) {
				continue
			}
			o.turn += i + 1
			o.busy[k] = struct{}{}
			o.open++
			q.open++
			return k, d.at, 0
		}
	}
	return deliveryKey{}, place{}, next - now
}

func (s *Store) readDelivery(k deliveryKey, at place) (*Delivery, error) {
	was, err := s.deliveryAt(at)
	if err != nil {
		return nil, err
	}
	rec, err := s.Record(Ref(k.run))
	if err != nil {
		return nil, err
	}
	if rec.Damaged { // this has shown it
		return nil, s.refuseDamaged(k.run)
	}
	d := &Delivery{ID: deliveryID(rec.ID, k.sink), Sink: was.sink, Run: rec.ID, Attempt: was.attempts + 1, key: k, was: was}
	outcome := rec.Phase
	if rec.Terminal != nil {
		outcome = string(rec.Terminal.Status)
	}
	d.Packet = mustJSON(sinkPacket{d.ID, d.Sink, d.Attempt, outcome, rec})
	return d, nil
}

func (s *Store) deliveryAt(at place) (*delivery, error) {
	_, e, err := s.readEntry(at, kindDelivery)
	if err != nil {
		return nil, err
	}
	return parseDelivery(e)
}

// giveBack ends that a delivery is under way; attempts, if not 0, is how often
// it has failed, and it is tried again.
func (s *Store) giveBack(k deliveryKey, attempts uint32) {
	s.mu.Lock()
	defer s.mu.Unlock()
	q := s.outbox.queue(k.sink)
	if attempts > 0 {
		q.again(k.run, attempts, s.clock.Boot())
	}
	s.outbox.release(k, q)
}

// release ends that a delivery is under way, in one step with what makes it due
// again: who finds it due and under way passes it over, for good. Store.mu is held.
func (o *outbox) release(k deliveryKey, q *sinkQueue) {
	delete(o.busy, k)
	o.open--
	q.open--
	o.tell()
}

// GiveBack says that a delivery was not made and did not fail: it is due again.
func (s *Store) GiveBack(d *Delivery) {
	s.mu.Lock()
	defer s.mu.Unlock()
	q := s.outbox.queue(d.key.sink)
	q.ready = append([]uint32{d.key.run}, q.ready...)
	s.outbox.release(d.key, q)
}

// Delivered says that a sink was told; it is durable when it returns nil. Where
// there is no room for saying so, it waits until there is, as long as ctx lasts,
// so that nobody is told twice for that.
func (s *Store) Delivered(ctx context.Context, d *Delivery) error {
	defer s.giveBack(d.key, 0)
	for {
		err := s.writeDelivery(ctx, wal.Reserved, deliveredEntry(d.key.run, d.key.sink, false))
		if !passes(err) {
			return err
		}
		timer := time.NewTimer(ackPause)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return err
		}
	}
}

// passes reports whether what kept a write from being accepted can pass.
func passes(err error) bool {
	return outOfSpace(err) || errors.Is(err, wal.ErrBusy) || errors.Is(err, wal.ErrRefused)
}

// Undelivered says that a sink could not be told, and why; that is cut to
// SinkErrorBytesMax. It is tried again later, or parked.
func (s *Store) Undelivered(ctx context.Context, d *Delivery, why string) (parked bool, err error) {
	next := &delivery{
		sink: d.was.sink, attempts: d.was.attempts + 1, parked: d.was.attempts+1 >= s.outbox.attemptsMax,
		err: cutText(validText(why), SinkErrorBytesMax),
	}
	if err := s.writeDelivery(ctx, wal.Ordinary, next.entry(d.key.run)); err != nil {
		s.giveBack(d.key, next.attempts) // as if it had been written, until the next start
		return false, err
	}
	if next.parked {
		s.giveBack(d.key, 0)
	} else {
		s.giveBack(d.key, next.attempts)
	}
	return next.parked, nil
}

// writeDelivery writes what becomes of a delivery that the caller has made busy:
// nobody else writes to it then.
func (s *Store) writeDelivery(ctx context.Context, class wal.Class, e entry) error {
	b := newBatch(e.run, e)
	return s.do(ctx, class, func(lsn uint64) wal.Decision {
		l := s.view(e.run)
		if l.gone() {
			return l.answer(goneRun())
		}
		return s.accept(l, lsn, b)
	})
}
