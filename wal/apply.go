package wal

// While the tail is scanned, batches are applied beside it: checking a frame
// costs about as much as applying what it holds, and neither needs the other.
//
// applier calls back for batches, in their order, from a goroutine of its own.
// Its methods are for one goroutine.
type applier struct {
	apply func(Frame) error
	work  chan *delivery
	done  chan *delivery
	// out counts the deliveries that were given and did not come back, and
	// idle are those that wait to be filled again.
	out  int
	idle []*delivery
	// running says that the goroutine is there: from the first give on. A short
	// log is opened without it.
	running bool
}

// delivery is batches that lie in memory of their own: mem holds their
// payloads, one after the other.
type delivery struct {
	frames []Frame
	mem    []byte
	err    error // of the callback; no batch behind it was applied
}

// add puts a copy of a batch behind the others.
func (d *delivery) add(b Frame) {
	if d.mem == nil {
		d.mem = make([]byte, 0, deliveryBytesFirst)
	}
	from := len(d.mem)
	d.mem = append(d.mem, b.Payload...)
	b.Payload = d.mem[from:len(d.mem):len(d.mem)]
	d.frames = append(d.frames, b)
}

// applyTo calls back for each batch, until one fails.
func (d *delivery) applyTo(apply func(Frame) error) error {
	for _, b := range d.frames {
		if err := apply(b); err != nil {
			return err
		}
	}
	return nil
}

const (
	// deliveryBytes is how much is gathered before it is given away, if not
	// all is asked for; a group that does not fit any more comes on top.
	deliveryBytes = 256 << 10
	// deliveryBytesFirst is what memory a delivery begins with.
	deliveryBytesFirst = 8 << 10
	// deliveriesMax is how many are on their way at most.
	deliveriesMax = 3
)

func newApplier(apply func(Frame) error) *applier {
	return &applier{apply: apply, work: make(chan *delivery, deliveriesMax), done: make(chan *delivery, deliveriesMax)}
}

func (a *applier) run() {
	var failed error
	for d := range a.work {
		if failed == nil {
			failed = d.applyTo(a.apply)
		}
		d.err = failed
		a.done <- d
	}
}

// give gives d away and returns an empty one for it. The error is one of the
// callback's, for this or an earlier batch.
func (a *applier) give(d *delivery) (*delivery, error) {
	if !a.running {
		a.running = true
		go a.run()
	}
	a.work <- d
	a.out++
	for a.out == deliveriesMax {
		if err := a.take(); err != nil {
			return new(delivery), err
		}
	}
	if n := len(a.idle); n > 0 {
		d, a.idle = a.idle[n-1], a.idle[:n-1]
		return d, nil
	}
	return new(delivery), nil
}

// take takes a delivery back that was applied.
func (a *applier) take() error {
	d := <-a.done
	a.out--
	err := d.err
	*d = delivery{frames: d.frames[:0], mem: d.mem[:0]}
	a.idle = append(a.idle, d)
	return err
}

// wait returns when all that was given is applied.
func (a *applier) wait() error {
	for a.out > 0 {
		if err := a.take(); err != nil {
			return err
		}
	}
	return nil
}

// stop ends the goroutine, after what it is at.
func (a *applier) stop() {
	close(a.work)
	for a.out > 0 {
		a.take()
	}
}
