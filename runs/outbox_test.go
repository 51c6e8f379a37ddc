package runs

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"durafs/internal/clock"
)

// testSinkAttempts is how often the sinks of these tests are tried.
const testSinkAttempts = 3

// tell takes a delivery that is due, of one sink if it is named, and lets it
// succeed, or fail. It returns nil where none is due.
func (w *world) tell(sink, failure string) *Delivery {
	w.t.Helper()
	var d *Delivery
	for {
		if d, _ = w.s.NextDelivery(); d == nil {
			return nil
		}
		if sink == "" || d.Sink == sink {
			break
		}
		defer w.s.GiveBack(d)
	}
	var err error
	if failure == "" {
		err = w.s.Delivered(ctx, d)
	} else {
		_, err = w.s.Undelivered(ctx, d, failure)
	}
	if err != nil && CodeOf(err) != RunDamaged {
		w.t.Fatalf("telling %s: %v", d.ID, err)
	}
	return d
}

// outbox is all that waits.
func (w *world) outbox() []DeliveryInfo {
	w.t.Helper()
	var all []DeliveryInfo
	for after := ""; ; {
		page, err := w.s.Outbox(owner, after, 2)
		if err != nil {
			w.t.Fatal(err)
		}
		all = append(all, page.Deliveries...)
		if after = page.Next; after == "" {
			return all
		}
	}
}

// states are the deliveries in short: run, sink, state, attempts.
func (w *world) states() string {
	w.t.Helper()
	var all []string
	for _, d := range w.outbox() {
		all = append(all, fmt.Sprint(d.Run, " ", d.Sink, " ", d.State, " ", d.Attempts))
	}
	return strings.Join(all, ", ")
}

func newSinks(t testing.TB, sinks ...string) (*world, *clock.Fake) {
	w, f := newTimed(t)
	w.close()
	w.sinks = sinks
	w.mustOpen()
	return w, f
}

// TestSinks: each sink is told of each end, in order, by a packet that says what
// the record says; what it has taken is gone for good.
func TestSinks(t *testing.T) {
	w, _ := newSinks(t, "mail", "page")
	if d, wait := w.s.NextDelivery(); d != nil || wait <= 0 {
		t.Fatalf("a new store has the delivery %v, or %s", d, wait)
	}
	a := w.start(StartRequest{ID: "exec_a", Task: "build it"})
	a.mustSettle("the answer")
	select {
	case <-w.s.DeliveryWake():
	default:
		t.Error("nobody was woken")
	}
	w.start(StartRequest{ID: "exec_b"})
	if err := w.cancel("exec_b"); err != nil {
		t.Fatal(err)
	}
	if _, _, err := w.s.AckAbort(ctx, Caller{UID: 7, Writer: w.s.token(2, 1, purposeWriter)}, "exec_b", AbortAcknowledged); err != nil {
		t.Fatal(err)
	}
	var told []string
	ids := map[string]bool{}
	for d := w.tell("", ""); d != nil; d = w.tell("", "") {
		var p struct {
			ID, Sink, Outcome string
			Attempt           int
			Record            Record
		}
		if err := json.Unmarshal(d.Packet, &p); err != nil || p.ID != d.ID || p.Sink != d.Sink || p.Attempt != 1 || p.Record.ID != d.Run {
			t.Errorf("the packet is %s (%v)", d.Packet, err)
		}
		if p.Outcome == "success" && (p.Record.Terminal.Payload == nil || p.Record.Terminal.Summary != "it is success") {
			t.Errorf("the outcome is %s", mustJSON(p.Record.Terminal))
		}
		told, ids[d.ID] = append(told, d.Sink+" "+d.Run+" "+p.Outcome), true
	}
	want := []string{"mail exec_a success", "page exec_a success", "mail exec_b cancelled", "page exec_b cancelled"}
	if d := cmp.Diff(want, told); d != "" || len(ids) != 4 {
		t.Errorf("told: %s, %d ids", d, len(ids))
	}
	for range 2 {
		if got := w.states(); got != "" {
			t.Errorf("there are %s", got)
		}
		if waiting, parked := w.s.OutboxCounts(); waiting+parked != 0 {
			t.Errorf("%d wait, %d are parked", waiting, parked)
		}
		w.reopen()
	}
	if got := w.count(1, kindDelivered, 0); got != 2 {
		t.Errorf("%d deliveries of the first run were acknowledged", got)
	}
}

// TestSinkFails: a sink that fails is tried again after pauses that double, also
// over a restart, and then parked; an owner lets it be tried again, or drops it.
func TestSinkFails(t *testing.T) {
	w, f := newSinks(t, "mail")
	w.start(StartRequest{ID: "exec_a"}).mustSettle("")
	first := w.tell("mail", strings.Repeat("\xff no", 1000))
	if d, wait := w.s.NextDelivery(); d != nil || wait != sinkPauseFirst {
		t.Errorf("right after a failure: %v, or in %s", d, wait)
	}
	if got := w.outbox(); len(got) != 1 || got[0].Attempts != 1 || len(got[0].Error) > SinkErrorBytesMax || got[0].ID != first.ID {
		t.Errorf("the outbox is %s", mustJSON(got))
	}
	f.Advance(sinkPauseFirst)
	if d := w.tell("", "no"); d == nil || d.ID != first.ID || d.Attempt != 2 {
		t.Errorf("the second time: %+v", d)
	}
	if _, wait := w.s.NextDelivery(); wait != 2*sinkPauseFirst {
		t.Errorf("the second pause is %s", wait)
	}
	w.reopen() // then it is tried at once
	if d := w.tell("", "no"); d == nil || d.ID != first.ID || d.Attempt != testSinkAttempts {
		t.Errorf("after a restart: %+v", d)
	}
	for range 2 {
		f.Advance(time.Hour)
		if d := w.tell("", ""); d != nil || w.states() != "exec_a mail parked 3" {
			t.Errorf("it is not parked: %v, %s", d, w.states())
		}
		if waiting, parked := w.s.OutboxCounts(); waiting != 0 || parked != 1 {
			t.Errorf("%d wait, %d are parked", waiting, parked)
		}
		w.reopen()
	}
	_, err := w.s.RetryDelivery(ctx, Caller{UID: 7}, first.ID)
	wantCode(t, err, NotOwner)
	a, err := w.s.RetryDelivery(ctx, owner, first.ID)
	if err != nil || a.Replayed || a.State != DeliveryWaiting || a.Attempts != 0 || a.Error != "no" {
		t.Errorf("a retry: %s, %v", mustJSON(a), err)
	}
	if a, err = w.s.RetryDelivery(ctx, owner, first.ID); err != nil || !a.Replayed {
		t.Errorf("once more: %s, %v", mustJSON(a), err)
	}
	d, _ := w.s.NextDelivery()
	if d == nil || d.ID != first.ID || d.Attempt != 1 || w.states() != "exec_a mail delivering 0" {
		t.Fatalf("after the retry: %+v, %s", d, w.states())
	}
	_, err = w.s.RetryDelivery(ctx, owner, first.ID)
	wantCode(t, err, DeliveryOpen)
	_, err = w.s.DropDelivery(ctx, owner, first.ID)
	wantCode(t, err, DeliveryOpen)
	w.s.Undelivered(ctx, d, "no")
	_, err = w.s.DropDelivery(ctx, Caller{UID: 7}, first.ID)
	wantCode(t, err, NotOwner)
	if got, err := w.s.DropDelivery(ctx, owner, first.ID); err != nil || got.ID != first.ID {
		t.Errorf("a drop: %+v, %v", got, err)
	}
	f.Advance(time.Hour)
	if d := w.tell("", ""); d != nil || w.states() != "" {
		t.Errorf("what was dropped: %+v, %s", d, w.states())
	}
	for _, id := range []string{first.ID, "exec_a", "exec_a.5", "exec_none.0000000000000001", first.ID + "0", strings.ToUpper(first.ID), ""} {
		_, err := w.s.RetryDelivery(ctx, owner, id)
		wantCode(t, err, UnknownDelivery)
		_, err = w.s.DropDelivery(ctx, owner, id)
		wantCode(t, err, UnknownDelivery)
	}
}

// TestSinksComeAndGo: runs that ended before a sink was added leave it nothing;
// what waits for one that is gone is parked until it is back.
func TestSinksComeAndGo(t *testing.T) {
	w, _ := newSinks(t, "mail")
	w.start(StartRequest{ID: "exec_a"}).mustSettle("")
	w.sinks = []string{"page"}
	w.reopen()
	w.start(StartRequest{ID: "exec_b"}).mustSettle("")
	if got := w.states(); got != "exec_a mail parked 0, exec_b page waiting 0" {
		t.Errorf("the outbox is %s", got)
	}
	if waiting, parked := w.s.OutboxCounts(); waiting != 1 || parked != 1 {
		t.Errorf("%d wait, %d are parked", waiting, parked)
	}
	gone := w.outbox()[0]
	_, err := w.s.RetryDelivery(ctx, owner, gone.ID)
	wantCode(t, err, UnknownSink)
	w.sinks = []string{"mail", "page"}
	w.reopen()
	if d := w.tell("mail", ""); d == nil || d.ID != gone.ID {
		t.Errorf("it is back, and the delivery is %+v", d)
	}
	if got := w.states(); got != "exec_b page waiting 0" {
		t.Errorf("the outbox is %s", got)
	}
	w.sinks = nil
	w.reopen()
	if _, err := w.s.DropDelivery(ctx, owner, w.outbox()[0].ID); err != nil {
		t.Fatal(err)
	}
	w.start(StartRequest{ID: "exec_c"}).mustSettle("")
	if got := w.states(); got != "" {
		t.Errorf("without sinks there are %s", got)
	}
}

// TestSlowSink: one that does not answer has two at most, and the others go on.
func TestSlowSink(t *testing.T) {
	w, _ := newSinks(t, "slow", "quick")
	for n := range 5 {
		w.start(StartRequest{ID: fmt.Sprint("exec_", n)}).mustSettle("")
	}
	open, quick := map[string]*Delivery{}, 0
	for {
		d, _ := w.s.NextDelivery()
		if d == nil {
			break
		}
		if d.Sink == "slow" {
			open[d.ID] = d
			continue
		}
		quick++
		if err := w.s.Delivered(ctx, d); err != nil {
			t.Fatal(err)
		}
	}
	if len(open) != deliveriesOfOneMax || quick != 5 {
		t.Errorf("the slow one has %d, the quick one got %d", len(open), quick)
	}
	for _, d := range open {
		w.s.GiveBack(d) // as at a stop
	}
	w.reopen()
	for range 5 {
		if w.tell("slow", "") == nil {
			t.Fatal("a delivery that was under way is lost")
		}
	}
	if w.states() != "" {
		t.Errorf("there are %s", w.states())
	}
}

// TestDeliveriesFromAnyPrefix: whatever prefix of the log a crash leaves, what was
// acknowledged is told no more, and everything else of runs that are over is.
func TestDeliveriesFromAnyPrefix(t *testing.T) {
	w, f := newSinks(t, "mail", "page")
	for n := range 4 {
		w.start(StartRequest{ID: fmt.Sprint("exec_", n), Labels: Labels{"thread": "T"}}).mustSettle("answer")
		w.tell("page", "")
		w.tell("mail", "no")
		f.Advance(time.Minute)
	}
	for range 3 {
		w.tell("mail", "no")
		f.Advance(time.Minute)
	}
	all := w.outbox()
	for i, d := range all {
		var err error
		if i%2 == 0 {
			_, err = w.s.DropDelivery(ctx, owner, d.ID)
		} else {
			_, err = w.s.RetryDelivery(ctx, owner, d.ID)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	w.reopen()
	frames := len(w.frames)
	step := 1
	if testing.Short() {
		step = 5
	}
	for n := 1; n <= frames; n += step {
		cut := w.copyOf(t, n)
		want := map[string]bool{} // what is over and was not told, by this prefix
		for _, fr := range w.frames[:n] {
			b, err := decodeBatch(fr.Payload)
			if err != nil {
				t.Fatal(err)
			}
			for _, e := range b.entries {
				id := fmt.Sprintf("exec_%d", e.run-1)
				switch e.kind {
				case kindOutbox: // it is carried to its end
					want[deliveryID(id, sinkIDOf("mail"))], want[deliveryID(id, sinkIDOf("page"))] = true, true
				case kindDelivered:
					sink, _ := parseDelivered(e)
					delete(want, deliveryID(id, sink))
				}
			}
		}
		got := map[string]bool{}
		for _, d := range cut.outbox() {
			got[d.ID] = true
		}
		if d := cmp.Diff(want, got); d != "" {
			t.Fatalf("after %d of %d batches: %s", n, frames, d)
		}
		if n%7 == 0 {
			before, durable := mustJSON(cut.outbox()), cut.log.Durable()
			cut.reopen()
			if after := mustJSON(cut.outbox()); string(after) != string(before) || cut.log.Durable() != durable {
				t.Fatalf("after %d batches a restart changed %s", n, cmp.Diff(string(before), string(after)))
			}
		}
		cut.close()
	}
}

// TestDeliveryOfADamagedRun waits, and keeps nobody else waiting.
func TestDeliveryOfADamagedRun(t *testing.T) {
	w, _ := newSinks(t, "mail")
	a := w.start(StartRequest{ID: "exec_a"})
	a.mustAppend(`{"n":1}`)
	a.mustSettle("")
	w.start(StartRequest{ID: "exec_b"}).mustSettle("")
	w.reopen()
	row := w.frames[1].Pos
	w.close()
	w.rotFrame(row)
	w.replays = true // else it is not met before somebody reads it
	w.mustOpen()
	if got := w.states(); got != "exec_a mail parked 0, exec_b mail waiting 0" {
		t.Fatalf("the outbox is %s", got)
	}
	if d := w.tell("", ""); d == nil || d.Run != "exec_b" {
		t.Errorf("the first to be told is %+v", d)
	}
	if d := w.tell("", ""); d != nil {
		t.Errorf("a damaged run is told: %+v", d)
	}
	_, err := w.s.RetryDelivery(ctx, owner, w.outbox()[0].ID)
	wantCode(t, err, RunDamaged)
}

// TestDeliveryIDs: parsing is the inverse of writing.
func TestDeliveryIDs(t *testing.T) {
	for _, run := range []string{"exec_a", "01890a5d-ac96-774b-bcce-b302099a8057"} {
		for _, sink := range []string{"mail", "curl -d @- http://localhost/"} {
			id := deliveryID(run, sinkIDOf(sink))
			if got, s, ok := parseDeliveryID(id); !ok || got != run || s != sinkIDOf(sink) {
				t.Errorf("%s is %s, %x, %v", id, got, s, ok)
			}
		}
	}
	for _, bad := range [][]string{{""}, {"a", "a"}, {"a\nb"}, {strings.Repeat("a", 256)}, {"\xff"}, make([]string, 17)} {
		if CheckSinks(bad) == nil {
			t.Errorf("the sinks %.50q are taken", bad)
		}
	}
}

// TestGivenBackIsDue: a delivery that is given back while somebody asks for the
// next one is due, to that one or to who asks then.
func TestGivenBackIsDue(t *testing.T) {
	w, _ := newSinks(t, "mail")
	w.start(StartRequest{}).mustSettle("done")
	d, _ := w.s.NextDelivery()
	for n := range 1000 {
		if d == nil {
			t.Fatalf("after %d times it is due to nobody", n)
		}
		asked, given, asking := make(chan *Delivery), make(chan struct{}), make(chan struct{})
		go func() {
			next, _ := w.s.NextDelivery()
			close(asking)
			for over := false; next == nil && !over; {
				select {
				case <-given:
					over = true
				default:
				}
				next, _ = w.s.NextDelivery()
			}
			asked <- next
		}()
		<-asking
		w.s.GiveBack(d)
		close(given)
		d = <-asked
	}
}
