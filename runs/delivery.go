package runs

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/zeebo/blake3"
)

// A sink is a command that is told of the end of every run, at least once. What
// is to be told to it is a delivery: one entry for each sink stands in the last
// batch of a settlement, so that a run which is over and not told cannot be; it
// stays until the sink has taken it. Who runs the command is the daemon; the
// order and the repeating are in deliver.go, what an owner sees and does in
// outbox.go.
//
// delivery is the body of a delivery entry. The newest of a run and a sink
// counts.
//
//	sink      1 + length and name
//	attempts  4  that have failed
//	error        what the last of them said, text: the rest
//
// The body of a delivered entry is the sink's number, 8: it was told, or, with
// the flag deliveredDropped, an owner has given it up.
type delivery struct {
	sink     string
	born     bool // the settlement has left it
	parked   bool // it waits for an owner
	attempts uint32
	err      string
}

// Bounds of sinks.
const (
	SinksMax          = 16
	SinkNameBytesMax  = 255
	SinkErrorBytesMax = 512
)

const deliveryFixedBytes = 1 + 4

func (d *delivery) entry(run uint32) entry {
	b := make([]byte, 0, deliveryFixedBytes+len(d.sink)+len(d.err))
	b = append(append(b, byte(len(d.sink))), d.sink...)
	b = binary.LittleEndian.AppendUint32(b, d.attempts)
	e := entry{kind: kindDelivery, run: run, body: append(b, d.err...)}
	if d.born {
		e.flags |= deliveryBorn
	}
	if d.parked {
		e.flags |= deliveryParked
	}
	return e
}

func parseDelivery(e entry) (*delivery, error) {
	r := reader{b: e.body}
	d := &delivery{sink: string(r.take(int(r.byte()))), attempts: r.uint32(), born: e.flags&deliveryBorn != 0, parked: e.flags&deliveryParked != 0}
	d.err = string(r.rest())
	r.bad = r.bad || badSinkName(d.sink) != "" || len(d.err) > SinkErrorBytesMax || !utf8.ValidString(d.err)
	return d, r.end("a delivery")
}

func deliveredEntry(run uint32, sink sinkID, dropped bool) entry {
	e := entry{kind: kindDelivered, run: run, body: binary.LittleEndian.AppendUint64(nil, uint64(sink))}
	if dropped {
		e.flags = deliveredDropped
	}
	return e
}

func parseDelivered(e entry) (sinkID, error) {
	r := reader{b: e.body}
	id := sinkID(r.uint64())
	return id, r.end("the end of a delivery")
}

// sinkID is a sink's number: the first eight bytes of the BLAKE3 of its name.
type sinkID uint64

func sinkIDOf(name string) sinkID {
	sum := blake3.Sum256(append([]byte("sink\x00"), name...))
	return sinkID(binary.BigEndian.Uint64(sum[:]))
}

// deliveryID names a delivery, the same as long as there is one: the run's id,
// a dot, and the sink's number.
func deliveryID(run string, sink sinkID) string { return fmt.Sprintf("%s.%016x", run, uint64(sink)) }

// parseDeliveryID is the inverse of deliveryID.
func parseDeliveryID(id string) (run string, sink sinkID, ok bool) {
	run, hash, ok := strings.Cut(id, ".")
	n, err := strconv.ParseUint(hash, 16, 64)
	return run, sinkID(n), ok && err == nil && deliveryID(run, sinkID(n)) == id
}

// CheckSinks checks the names of the sinks that a store is to have.
func CheckSinks(names []string) error {
	if len(names) > SinksMax {
		return fmt.Errorf("there are %d sinks, and the limit is %d", len(names), SinksMax)
	}
	seen := map[sinkID]bool{}
	for _, name := range names {
		if bad := badSinkName(name); bad != "" {
			return fmt.Errorf("the sink %s %s", quote(name), bad)
		}
		if seen[sinkIDOf(name)] {
			return fmt.Errorf("there are two sinks with the name %s", quote(name))
		}
		seen[sinkIDOf(name)] = true
	}
	return nil
}

// badSinkName says what is wrong with a name, or "".
func badSinkName(name string) string {
	if name == "" || len(name) > SinkNameBytesMax {
		return "has a name that is empty, or longer than 255 bytes"
	}
	for _, r := range name {
		if r < 0x20 || 0x7f <= r && r < 0xa0 || r == utf8.RuneError {
			return "has a name with a control character, or one that is not valid UTF-8"
		}
	}
	return ""
}

// deliveries are what the index knows of them: only runs that have some cost
// anything.
type deliveries struct {
	at map[deliveryKey]deliveryAt
	of map[sinkID]deliveryCount
	// born are those that settlements have left, until they are scheduled.
	born []deliveryKey
}

type deliveryKey struct {
	run  uint32
	sink sinkID
}

type deliveryAt struct {
	at     place
	parked bool
}

type deliveryCount struct{ waiting, parked int }

func newDeliveries() deliveries {
	return deliveries{at: map[deliveryKey]deliveryAt{}, of: map[sinkID]deliveryCount{}}
}

func (x *deliveries) set(k deliveryKey, d deliveryAt) {
	x.remove(k)
	x.at[k] = d
	x.count(k.sink, d.parked, 1)
}

func (x *deliveries) remove(k deliveryKey) {
	if was, ok := x.at[k]; ok {
		delete(x.at, k)
		x.count(k.sink, was.parked, -1)
	}
}

func (x *deliveries) count(sink sinkID, parked bool, by int) {
	n := x.of[sink]
	if parked {
		n.parked += by
	} else {
		n.waiting += by
	}
	if n == (deliveryCount{}) {
		delete(x.of, sink)
		return
	}
	x.of[sink] = n
}

// sorted are all of them, those of older runs first.
func (x *deliveries) sorted() []deliveryKey {
	return slices.SortedFunc(maps.Keys(x.at), func(a, b deliveryKey) int {
		return cmp.Or(cmp.Compare(a.run, b.run), cmp.Compare(a.sink, b.sink))
	})
}

// applyOutbox enters what is still to be made of a run's end, or that it was.
func (x *index) applyOutbox(e entry, at place) error {
	switch e.kind {
	case kindOutbox:
		x.outboxes[e.run] = at
		return nil
	case kindOutboxDone:
		delete(x.outboxes, e.run)
		return nil
	case kindDelivered:
		sink, err := parseDelivered(e)
		if err == nil {
			x.deliveries.remove(deliveryKey{e.run, sink})
		}
		return err
	}
	d, err := parseDelivery(e)
	if err != nil {
		return err
	}
	k := deliveryKey{e.run, sinkIDOf(d.sink)}
	x.deliveries.set(k, deliveryAt{at, d.parked})
	if d.born {
		x.deliveries.born = append(x.deliveries.born, k)
	}
	return nil
}
