package runs

import (
	"strings"
	"testing"

	"durafs/internal/vfs"
	"durafs/wal"
)

// TestBytesOfDamagedRuns: what is met as lost changes what a run counts for, and
// bounds rest on that as the index does: the same after a restart, and never
// less than nothing.
func TestBytesOfDamagedRuns(t *testing.T) {
	w := &world{t: t, fs: vfs.OS, dir: fastDir(t), ledger: new(memLedger)}
	w.mustOpen()
	t.Cleanup(w.close)
	a := w.start(StartRequest{})
	a.mustPut("p", strings.Repeat("p", 5000))
	put := w.s.log.Durable()
	if _, err := w.s.DeletePayload(ctx, owner, a.id, "p"); err != nil {
		t.Fatal(err)
	}
	a.mustAppend(`{"text":"` + strings.Repeat("t", 3000) + `"}`)
	appended := w.s.log.Durable()
	b := w.start(StartRequest{})
	b.mustAppend(`{}`)
	w.reopen()
	at := map[uint64]wal.Position{}
	for _, f := range w.frames {
		at[f.LSN] = f.Pos
	}
	agree := func(when string) {
		t.Helper()
		w.s.mu.RLock()
		defer w.s.mu.RUnlock()
		sum := int64(0)
		for num := uint32(1); num <= w.s.index.newest; num++ {
			c, i := w.s.index.at(num)
			sum += c.bytes(i)
			if c.bytes(i) < 0 || c.otherBytes[i] < 0 {
				t.Errorf("%s: the run %d has %d bytes, %d of them beside its log", when, num, c.bytes(i), c.otherBytes[i])
			}
		}
		if w.s.index.bytes != sum || w.s.acc.bytes != sum {
			t.Errorf("%s: the runs have %d bytes, the index says %d, accepted are %d", when, sum, w.s.index.bytes, w.s.acc.bytes)
		}
	}
	agree("before")
	w.rotFrame(at[appended])
	w.s.ReadLogAt(w.ref(a.id), make([]byte, 8192), 0)
	if !w.s.isDamaged(uint32(w.ref(a.id))) {
		t.Fatal("nobody met the damage")
	}
	agree("met by a reader")
	w.rotFrame(at[put])
	w.replays = true
	w.reopen()
	agree("after a restart")
}
