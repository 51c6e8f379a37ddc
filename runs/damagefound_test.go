package runs

import (
	"encoding/json"
	"strings"
	"testing"
)

// TestDamageFoundByReading is not kept over a restart, and need not be: what a
// footer says of a run was right when it was written, so that numbers go on where
// they were, whether the damage is known or not; and a write that rests on what
// is lost has to read it, and meets the damage again.
func TestDamageFoundByReading(t *testing.T) {
	w := newWorld(t)
	a := w.start(StartRequest{ID: "exec_a", Labels: Labels{"thread": "T"}})
	for _, row := range []string{`{"n":1}`, `{"n":2}`, `{"n":3}`} {
		a.mustAppend(row)
	}
	a.mustClaim("c1", "t", "mutating")
	w.reopen() // its first segment is sealed now
	lost := w.frames[2].Pos
	claim := w.frames[4].Pos
	w.close()
	w.rotFrame(lost)
	w.mustOpen()

	read := func() string {
		t.Helper()
		text := make([]byte, 1<<16)
		n, _ := w.s.ReadLogAt(w.ref(a.id), text, 0)
		if !w.info(a.id).Damaged { // the reader that met it is told; the next one reads what is left
			t.Fatalf("nobody met it: %s", text[:n])
		}
		n, _ = w.s.ReadLogAt(w.ref(a.id), text, 0)
		return string(text[:n])
	}
	for round := range 3 {
		if w.info(a.id).Damaged {
			t.Fatal("an open by footers has read it")
		}
		if _, err := w.s.Attach(ctx, a.c, a.id, AttachRequest{Calls: map[uint64]string{1: "running"}}); err != nil {
			t.Fatal(err)
		}
		last := w.info(a.id).LastSeq
		if got := a.mustAppend(`{"later":1}`); got.FirstSeq != last+1 {
			t.Fatalf("round %d: a row has the number %d, behind %d", round, got.FirstSeq, last)
		}
		text := read()
		if !strings.Contains(text, `"type":"damaged","seq_from":3,"seq_to":3}`) || strings.Count(text, `"later":1`) != round+1 {
			t.Fatalf("round %d: the log is %s", round, text)
		}
		next := uint64(1) // every line but the lost one is there, in order
		for line := range strings.Lines(text) {
			var r struct {
				Seq  uint64
				From uint64 `json:"seq_from"`
			}
			if err := json.Unmarshal([]byte(line), &r); err != nil || max(r.Seq, r.From) != next {
				t.Fatalf("line %d is %s (%v)", next, line, err)
			}
			next++
		}
		_, err := a.append(`{"not":1}`)
		wantCode(t, err, RunDamaged)
		w.reopen()
	}

	w.close()
	w.rotFrame(claim)
	w.mustOpen()
	if _, err := w.s.Attach(ctx, a.c, a.id, AttachRequest{Calls: map[uint64]string{1: "running"}}); err != nil {
		t.Fatal(err)
	}
	if _, err := a.outcome(1, `{}`); !isDamage(err) {
		t.Errorf("an outcome of a claim that is lost: %v", err)
	}
	if _, err := a.claim("c1", "t", "mutating"); !isDamage(err) {
		t.Errorf("a claim where it is not known which there were: %v", err)
	}
}
