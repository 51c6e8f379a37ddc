package runs

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"durafs/wal"
)

func TestSettle(t *testing.T) {
	for name, answer := range map[string]string{
		"no answer": "", "inline": "the answer", "one chunk": strings.Repeat("a", 60<<10),
		"many chunks": strings.Repeat("0123456789abcdef", 20<<10), "no text": "\xff\x00",
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			a := w.start(StartRequest{Labels: Labels{"thread": "T"}, Message: []byte(`{"text":"q"}`)})
			a.mustAppend(`{"a":1}`)
			first, err := a.settle(Success, answer)
			if err != nil || first.Replayed {
				t.Fatalf("%+v, %v", first, err)
			}
			again, err := a.settle(Success, answer)
			if err != nil || !again.Replayed || again.ETag != first.ETag {
				t.Fatalf("the same again: %+v, %v", again, err)
			}
			before := w.picture()
			w.reopen()
			if after := w.picture(); after != before {
				t.Errorf("a restart changed\n%s\nto\n%s", before, after)
			}
			checkSettled(t, w, a, answer)
			if again, err := a.settle(Success, answer); err != nil || !again.Replayed {
				t.Errorf("the same again, after a restart: %+v, %v", again, err)
			}
			_, err = a.settle(Failure, answer)
			wantCode(t, err, SettleConflict)
		})
	}
}

// checkSettled checks a settled run, whatever way it came there.
func checkSettled(t *testing.T, w *world, a *agent, answer string) {
	t.Helper()
	run := w.info(a.id)
	rec, err := w.s.Record(run.Ref)
	if err != nil || rec.Phase != "terminal" || rec.Terminal.Status != Success || !run.Sealed() {
		t.Fatalf("the record is %+v, %v", rec, err)
	}
	if rec.Terminal.At.IsZero() || (answer != "") != (rec.Terminal.Payload != nil) {
		t.Errorf("the outcome is %+v", rec.Terminal)
	}
	if answer != "" {
		if got, err := w.payload(a.id, TerminalName); err != nil || got != answer {
			t.Errorf("the payload has %d bytes, want %d (%v)", len(got), len(answer), err)
		}
	}
	rows := w.rows(a.id)
	if last := rows[len(rows)-1]; last.Type != "terminal" || last.By != "store" || strings.Count(w.ownTypes(a.id), "terminal") != 1 {
		t.Errorf("the last row is %s", last.raw)
	}
	num := uint32(run.Ref)
	for k, want := range map[kind]int{kindJournal: 1, kindThread: 1, kindOutbox: 1, kindOutboxDone: 1} {
		flags := uint8(0)
		if k == kindJournal || k == kindThread {
			flags = onceTerminal
		}
		if n := w.count(num, k, flags); n != want {
			t.Errorf("there are %d entries of kind %d, want %d", n, k, want)
		}
	}
	w.checkMessage(num, answer)
}

// checkMessage holds the thread's terminal message against the answer.
func (w *world) checkMessage(num uint32, answer string) {
	w.t.Helper()
	for _, f := range w.frames {
		b, _ := decodeBatch(f.Payload)
		for _, e := range b.entries {
			if e.kind != kindThread || e.flags != onceTerminal || e.run != num {
				continue
			}
			n, err := parseNote(e)
			var m struct{ Text, Digest string }
			if err != nil || json.Unmarshal(n.json, &m) != nil || n.name != "T" || len(n.json) > MessageBytesMax {
				w.t.Errorf("the message is %.100s (%v)", n.json, err)
			}
			whole := answer != "" && len(answer) < MessageBytesMax-1000 && !strings.Contains(answer, "\xff")
			if whole && m.Text != answer || !whole && answer != "" && (m.Text != "" || m.Digest == "") {
				w.t.Errorf("the message has %d bytes of text and %d of digest", len(m.Text), len(m.Digest))
			}
		}
	}
}

// TestSettleByName: the answer is a payload that was put before.
func TestSettleByName(t *testing.T) {
	for _, size := range []int{10, 100 << 10} {
		w := newWorld(t)
		a := w.start(StartRequest{})
		a.mustPut("report", strings.Repeat("r", size))
		_, err := w.s.Settle(ctx, a.c, a.id, SettleRequest{Status: Success, PayloadName: "report"})
		if err != nil {
			t.Fatal(err)
		}
		w.reopen()
		got, err := w.payload(a.id, TerminalName)
		if err != nil || len(got) != size {
			t.Errorf("the answer has %d bytes (%v)", len(got), err)
		}
		info, err := w.s.PayloadInfo(w.ref(a.id), TerminalName)
		if err != nil || info.ContentType != "text/plain" || info.Source != SourceTerminal {
			t.Errorf("%+v, %v", info, err)
		}
	}
}

// TestSettleFromAnyPrefix: a crash leaves any number of the seven steps, and
// the next boot does the rest, once; a crash in that, too.
func TestSettleFromAnyPrefix(t *testing.T) {
	for _, answer := range []string{"", "the answer", strings.Repeat("0123456789abcdef", 5<<10)} {
		w := newWorld(t)
		a := w.start(StartRequest{Labels: Labels{"thread": "T"}})
		a.mustAppend(`{"a":1}`)
		begun := int(w.log.Durable())
		a.mustSettle(answer)
		w.reopen()
		steps := len(w.frames) - begun
		if want := 6; answer != "" && steps != want+1 || answer == "" && steps != want {
			t.Fatalf("a settlement has %d steps", steps)
		}
		outbox := begun + steps - 6 // the outbox is the first but for the payload
		for n := begun; n <= len(w.frames); n++ {
			t.Run(fmt.Sprintf("%d bytes/%d of %d", len(answer), n-begun, steps), func(t *testing.T) {
				cut := w.copyOf(t, n)
				ca := &agent{cut, a.id, a.c}
				if n <= outbox {
					if p := cut.info(a.id).Phase; p != PausedInterruption {
						t.Fatalf("before the outbox, the run is %s", p)
					}
					if _, err := cut.payload(a.id, TerminalName); CodeOf(err) != UnknownPayload {
						t.Errorf("a payload without an outcome is shown: %v", err)
					}
					ca.mustAttach()
					ca.mustSettle(answer)
				}
				before := cut.picture()
				cut.reopen()
				if after := cut.picture(); after != before {
					t.Errorf("the second boot changed\n%s\nto\n%s", before, after)
				}
				checkSettled(t, cut, ca, answer)
			})
		}
	}
}

// TestOtherAnswerAfterCrash: what a crash left of a settlement without its
// outbox does not bind the next one.
func TestOtherAnswerAfterCrash(t *testing.T) {
	w := newWorld(t)
	a := w.start(StartRequest{Labels: Labels{"thread": "T"}})
	begun := int(w.log.Durable())
	a.mustSettle("first")
	w.reopen()
	for _, answer := range []string{"", "second"} {
		cut := w.copyOf(t, begun+1)
		ca := &agent{cut, a.id, a.c}
		ca.mustAttach()
		ca.mustSettle(answer)
		cut.reopen()
		checkSettled(t, cut, ca, answer)
		if _, err := cut.payload(a.id, TerminalName); answer == "" && CodeOf(err) != UnknownPayload {
			t.Errorf("the answer of the settlement that never was is shown: %v", err)
		}
	}
}

// copyOf is an open world whose log has the first n frames of this one's, and
// the same chunks.
func (w *world) copyOf(t *testing.T, n int) *world {
	t.Helper()
	c := w.copyFrom(t, n)
	c.mustOpen()
	return c
}

// copyFrom is copyOf, not yet opened.
func (w *world) copyFrom(t *testing.T, n int) *world {
	t.Helper()
	return w.copyFramesOf(t, w.frames[:n])
}

func (w *world) copyFramesOf(t *testing.T, frames []wal.Frame) *world {
	t.Helper()
	c := &world{t: t, fs: w.fs, dir: fastDir(t), ledger: new(memLedger), clock: w.clock, sinks: w.sinks}
	t.Cleanup(c.close)
	c.copyFrames(frames)
	copyDir(t, w.dir+"/cas", c.dir+"/cas")
	for _, p := range w.ledger.Packs() {
		c.ledger.AddPack(p)
	}
	return c
}

func (w *world) copyFrames(frames []wal.Frame) {
	w.t.Helper()
	log, err := openLog(w.fs, w.dir+"/wal", wal.Options{}, func(wal.Frame) error { return nil })
	if err != nil {
		w.t.Fatal(err)
	}
	log.Start(noState{})
	for _, f := range frames {
		b := &wal.Batch{Run: f.Run, Count: f.Count, Body: f.Payload, BodyCRC: wal.Checksum(f.Payload)}
		t := log.Submit(wal.Reserved, func(uint64) wal.Decision { return wal.Decision{Batches: []*wal.Batch{b}} })
		if err := t.Wait(ctx); err != nil || t.LSN() != f.LSN {
			w.t.Fatalf("LSN %d, want %d (%v)", t.LSN(), f.LSN, err)
		}
	}
	log.Close(ctx)
}

type noState struct{}

func (noState) Publish([]*wal.Batch) {}
func (noState) Reset()               {}

// TestOneOutcome: of many settlements at once one is committed, and everyone
// learns the truth.
func TestOneOutcome(t *testing.T) {
	w := newWorld(t)
	a := w.start(StartRequest{Labels: Labels{"thread": "T"}})
	type result struct {
		status   Status
		replayed bool
		err      error
	}
	results := make(chan result)
	const each = 4
	for range each {
		for _, st := range []Status{Success, Failure} {
			go func() {
				r, err := a.settle(st, "answer of "+string(st))
				results <- result{st, r.Replayed, err}
			}()
		}
	}
	fresh, won := 0, Status("")
	var all []result
	for range 2 * each {
		r := <-results
		all = append(all, r)
		if r.err == nil && !r.replayed {
			fresh++
			won = r.status
		}
	}
	if fresh != 1 {
		t.Fatalf("%d settlements say that they were first", fresh)
	}
	for _, r := range all {
		if r.status == won && r.err != nil || r.status != won && CodeOf(r.err) != SettleConflict {
			t.Errorf("%s won, and %s got %v", won, r.status, r.err)
		}
	}
	w.reopen()
	if n := w.count(1, kindJournal, onceTerminal); n != 1 {
		t.Errorf("there are %d terminal rows in the journal", n)
	}
}
