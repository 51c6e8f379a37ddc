package runs

import (
	"strings"
	"testing"
)

func (w *world) pin(id string, on bool) (PinAnswer, error) {
	return w.s.Pin(ctx, owner, id, PinRequest{Pinned: on})
}

// TestPin: every phase takes it, nothing else changes, also not for the agent.
func TestPin(t *testing.T) {
	w, _ := newTimed(t)
	a := w.start(StartRequest{})
	a.mustAppend(`{"x":1}`)
	_, err := w.s.Pin(ctx, a.c, a.id, PinRequest{Pinned: true})
	wantCode(t, err, NotOwner)
	_, err = w.s.Pin(ctx, owner, a.id, PinRequest{Pinned: true, IfMatch: `"1-9"`})
	wantCode(t, err, RevisionMismatch)
	_, err = w.pin("exec_none", true)
	wantCode(t, err, UnknownRun)
	step := func(on, replayed bool) {
		t.Helper()
		before, log := w.info(a.id), w.logText(a.id)
		got, err := w.pin(a.id, on)
		if err != nil || got.Record.Pinned != on || got.Replayed != replayed {
			t.Fatalf("pin %t: %s, %v", on, mustJSON(got), err)
		}
		want := before.Revision + 1
		if replayed {
			want--
		}
		if after := w.info(a.id); after.Revision != want || after.Phase != before.Phase || w.logText(a.id) != log {
			t.Errorf("pin %t: %+v, after %+v", on, after, before)
		}
	}
	step(true, false)
	step(true, true)
	a.mustAppend(`{"x":2}`)
	a.mustSettle("done")
	step(true, true)
	step(false, false)
	step(true, false)
	w.reopen()
	step(true, true)
	b := w.start(StartRequest{})
	w.reopen() // paused
	if got, err := w.pin(b.id, true); err != nil || got.Record.Phase != "paused-interruption" || !got.Record.Pinned {
		t.Errorf("%s, %v", mustJSON(got), err)
	}
	if err := w.cancel(b.id); err != nil {
		t.Error(err)
	}
	if rec, _, err := w.s.Get(owner, b.id); err != nil || !rec.Pinned || rec.Phase != "cancelled" {
		t.Errorf("%s, %v", mustJSON(rec), err)
	}
}

// TestPinBesideSettle: whoever comes second sees what the first has done.
func TestPinBesideSettle(t *testing.T) {
	w := newWorld(t)
	for range 20 {
		a := w.start(StartRequest{Labels: Labels{"thread": "T"}})
		pinned := make(chan error)
		go func() {
			_, err := w.pin(a.id, true)
			pinned <- err
		}()
		a.mustSettle("done")
		if err := <-pinned; err != nil {
			t.Fatal(err)
		}
		rec, _, err := w.s.Get(owner, a.id)
		if err != nil || !rec.Pinned || rec.Phase != "terminal" || !strings.Contains(w.logText(a.id), `"type":"terminal"`) {
			t.Fatalf("%s, %v", mustJSON(rec), err)
		}
	}
}
