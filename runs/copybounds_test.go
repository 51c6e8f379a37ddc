package runs

import (
	"testing"

	"durafs/projection"
)

// TestCopyOfDeleted: what an owner has deleted is not in a copy, nor is it
// missed; and what is deleted of either is there in the other.
func TestCopyOfDeleted(t *testing.T) {
	w := newWorld(t)
	a := w.copySource("exec_source")
	del := func(id, name string) {
		t.Helper()
		if _, err := w.s.DeletePayload(ctx, owner, id, name); err != nil {
			t.Fatal(err)
		}
	}
	b := w.mustCopy(a.id, projection.CopyBranch, 5, StartRequest{ID: "exec_b"})
	whole := b.history(HistoryRequest{Materialize: true, Vision: true, ImageBudget: 1 << 20})
	del(a.id, "args") // the arguments of call 1
	del(b.id, "report")
	for range 2 {
		if got, err := w.payload(b.id, "args"); err != nil || got != `{"in":"a payload"}` {
			t.Errorf("the copy's arguments are %q, %v", got, err)
		}
		if got, err := w.payload(a.id, "report"); err != nil || len(got) != 120<<10 {
			t.Errorf("the source's report has %d bytes, %v", len(got), err)
		}
		if now := b.history(HistoryRequest{Materialize: true, Vision: true, ImageBudget: 1 << 20}); now != whole {
			t.Error("the copy's history is another")
		}
		c := w.mustCopy(a.id, projection.CopyBranch, 5, StartRequest{})
		w.checkCopy(a, c)
		if _, err := w.payload(c.id, "args"); CodeOf(err) != UnknownPayload {
			t.Errorf("a copy has what was deleted: %v", err)
		}
		if _, err := w.payload(c.id, "report"); err != nil {
			t.Error(err)
		}
		w.reopen()
	}
}

// TestCopyAtItsBounds: a copy counts for what it has, before it is admitted too;
// one that finds no room leaves nothing that counts.
func TestCopyAtItsBounds(t *testing.T) {
	w := newWorld(t)
	a := w.copySource("exec_source")
	a.mustAppend(manyRows(3000)...)
	a.mustClaim("last", "bash", "read-only")
	a.mustOutcome(6, `{}`)
	was := w.s.Usage().Bytes
	b := w.mustCopy(a.id, projection.CopyBranch, 6, StartRequest{})
	ofCopy := w.s.Usage().Bytes - was
	if own := w.info(b.id).Bytes; ofCopy != own || own < was/2 {
		t.Errorf("the copy counts for %d bytes, the store for %d more", own, ofCopy)
	}
	now := w.s.Usage().Bytes
	for _, bound := range []int64{ofCopy / 2, ofCopy - 2000, ofCopy + 1000} {
		w.s.quota.storeBytesMax = now + bound
		_, _, err := w.copy(a.id, projection.CopyBranch, 6, StartRequest{ID: "exec_c"})
		if bound > ofCopy {
			if err != nil {
				t.Errorf("with room: %v", err)
			}
			break
		}
		wantCode(t, err, StoreBytes)
		if got := w.s.Usage().Bytes; got != now || w.s.acc.bytes != now {
			t.Errorf("after a refused copy the store counts for %d, %d bytes, not %d", got, w.s.acc.bytes, now)
		}
	}
	w.s.quota.storeBytesMax = 0
	w.stage(a.id, 6) // and never admitted
	counted := w.info(a.id).Bytes + w.info(b.id).Bytes + w.info("exec_c").Bytes
	w.reopen()
	if got := w.s.Usage().Bytes; got < counted || got > counted+10_000 || w.s.acc.bytes != got {
		t.Errorf("after a restart the store counts for %d bytes, its runs for %d", got, counted)
	}
}
