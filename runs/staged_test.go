package runs

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"strings"
	"syscall"
	"testing"

	"durafs/internal/vfs"
	"durafs/wal"
)

// stage writes the prefix of a copy and leaves it at that.
func (w *world) stage(id string, call uint64) *copying {
	w.t.Helper()
	src := uint32(w.ref(id))
	source, err := w.s.copied(src)
	if err != nil {
		w.t.Fatal(err)
	}
	c := &copying{s: w.s, src: src, source: source, kind: "branch", call: call}
	if err := c.stage(ctx, &starting{caller: owner, req: StartRequest{ID: "exec_staged", Labels: source.Labels}}); err != nil {
		w.t.Fatal(err)
	}
	return c
}

// TestStagedIsInvisible: of a copy that was not admitted nobody sees anything,
// and what was given up, or cut off by a restart, is ignored for good.
func TestStagedIsInvisible(t *testing.T) {
	w := newWorldAt(t, fastDir(t))
	w.segmentBytes = 256 << 10
	w.reopen()
	t.Cleanup(w.close)
	a := w.copySource("exec_source")
	x := w.watch(owner, WatchQuery{})
	w.told(x)
	changes := 0
	w.s.listen = func(c []Change) { changes += len(c) }
	see := func() string {
		list, err := w.s.List(owner, ListQuery{})
		if err != nil {
			t.Fatal(err)
		}
		byLabel, _ := w.s.List(owner, ListQuery{Labels: Labels{"task_id": "7"}})
		_, _, err = w.s.Get(owner, "exec_staged")
		wantCode(t, err, UnknownRun)
		_, err = w.s.Copy(ctx, owner, "exec_staged", CopyRequest{Kind: "branch", Call: 1})
		wantCode(t, err, UnknownRun)
		return w.picture() + fmt.Sprint(w.journal("master")) + w.thread("T") + string(mustJSON(list)) + string(mustJSON(byLabel))
	}
	was := see()
	c := w.stage(a.id, 5)
	if c.num != 2 || c.l.seq == 0 || c.l.ordinals < 6 {
		t.Fatalf("of run %d, %d rows and %d payloads were written", c.num, c.l.seq, c.l.ordinals)
	}
	if now := see(); now != was {
		t.Error("what is staged is seen")
	}
	if events := w.told(x); len(events) > 0 || changes > 0 {
		t.Errorf("watchers are told %s, listeners of %d changes", mustJSON(events), changes)
	}
	c.end()
	if k, i := w.s.index.at(c.num); len(w.s.index.staged) > 0 || w.s.index.recent[c.num] != nil || k.lastSeq[i] != 0 {
		t.Error("what was given up is still in memory")
	}
	w.stage(a.id, 5)
	for range 5 { // into the next segment
		a.mustAppend(`{"b":"` + strings.Repeat("x", 60<<10) + `"}`)
	}
	w.reopen()
	was = see()
	for range 2 {
		w.reopen()
		if now := see(); now != was || len(w.s.index.staged) > 0 {
			t.Error("after a restart it is seen, or is still there")
		}
	}
	b := w.mustCopy(a.id, "branch", 5, StartRequest{ID: "exec_staged"})
	if got := w.ref(b.id); got != 4 {
		t.Errorf("the number is %d", got)
	}
	w.checkCopy(a, b)
	w.close()
	if wrong := w.checkFooters(); len(wrong) > 0 {
		t.Errorf("footers: %v", wrong)
	}
	w.mustOpen()
	w.checkCopy(a, b)
}

// TestCopyRot: whatever batch of a copy rots, the source is whole, and the copy
// is damaged, or is not there and told of; nothing else happens.
func TestCopyRot(t *testing.T) {
	w := newWorld(t)
	a := w.copySource("exec_source")
	first := w.log.Durable() + 1
	b := w.mustCopy(a.id, "branch", 5, StartRequest{ID: "exec_c"})
	b.mustAppend(`{"x":1}`)
	b.mustClaim("c9", "bash", "read-only")
	a.mustSettle("the source's")
	w.reopen()
	whole := w.logText(a.id) + a.history(HistoryRequest{})
	w.close()
	seen := map[string]bool{}
	for _, f := range w.frames {
		if f.LSN < first || f.Run != 2 {
			continue
		}
		c := w.copied(fastDir(t))
		c.replays = true
		c.rotFrame(f.Pos)
		if err := c.open(); err != nil {
			t.Fatalf("LSN %d: %v", f.LSN, err)
		}
		a.w = c
		if now := c.logText(a.id) + a.history(HistoryRequest{}); now != whole {
			t.Errorf("LSN %d: the source is another", f.LSN)
		}
		run, ok := Run{}, false
		if ref, there := c.s.Lookup(b.id); there {
			run, ok = c.s.Info(ref)
		}
		d := c.s.Damage()
		if d.Runs != 1 || ok != (d.Unnamed == 0) || ok && !run.Damaged {
			t.Errorf("LSN %d: %+v, %+v", f.LSN, d, run)
		}
		if ok {
			_, _, err := c.copy(b.id, "branch", 1, StartRequest{})
			wantCode(t, err, RunDamaged)
		}
		seen[fmt.Sprint(ok)] = true
		c.close()
		os.RemoveAll(c.dir)
	}
	a.w = w
	if !seen["true"] {
		t.Errorf("seen %v", seen)
	}
	w.mustOpen()
}

// copyCrash copies a run on a disk that fails, and holds what is left against
// what was told.
func copyCrash(t *testing.T, faults ...vfs.Fault) (fired int, done bool) {
	faulty := vfs.NewFaulty(vfs.OS)
	w := &world{t: t, fs: faulty, dir: fastDir(t), ledger: new(memLedger)}
	defer func() { w.close(); os.RemoveAll(w.dir) }()
	w.mustOpen()
	a := w.copySource("exec_source")
	whole := w.logText(a.id) + a.history(HistoryRequest{})
	for _, f := range faults {
		faulty.Inject(f)
	}
	b, _, err := w.copy(a.id, "revise", 5, StartRequest{ID: "exec_c", ResumeRequest: []byte(strings.Repeat("r", 30<<10)), Message: []byte(`"` + strings.Repeat("m", 100<<10) + `"`)})
	fired, done = len(faulty.Fired()), err == nil
	_, there := w.s.Lookup("exec_c")
	if there != done && !errors.Is(err, wal.ErrUnknown) {
		t.Errorf("there: %v, and the answer was %v", there, err)
	}
	w.close()
	w.fs = vfs.OS
	w.mustOpen()
	if now := w.logText(a.id); !strings.HasPrefix(now+a.history(HistoryRequest{}), whole[:strings.LastIndex(whole, `"after":"all"`)]) {
		t.Error("the source is another")
	}
	if _, there := w.s.Lookup("exec_c"); done && !there {
		t.Error("an acknowledged copy is gone")
	} else if there {
		if b == nil {
			b = &agent{w: w, id: "exec_c"}
		}
		w.checkRevised(a, b)
	}
	return fired, done
}

// checkRevised holds a copy that a restart has paused against its source.
func (w *world) checkRevised(a, b *agent) {
	w.t.Helper()
	for _, r := range []HistoryRequest{{}, {Materialize: true, Vision: true, ImageBudget: 1 << 20}} {
		to := b.history(r)
		r.Upto = 15
		if n := strings.Count(to, "\n"); n != 4 || !strings.HasPrefix(exchanged(a.history(HistoryRequest{Materialize: r.Materialize, Vision: r.Vision, ImageBudget: r.ImageBudget}), a.id, b.id), to[:strings.Index(to, `"call":3`)]) {
			w.t.Errorf("the copy has %d calls, or other ones", n)
		}
	}
	if got := w.thread("T"); strings.Count(got, `"run":"exec_c"`) != 1 {
		w.t.Error("the message is not there, or twice")
	}
}

// TestCrashInCopy ends the process at each call that changes the disk while a
// run is copied.
func TestCrashInCopy(t *testing.T) {
	modes := vfs.Modes
	if testing.Short() {
		modes = modes[:1]
	}
	for _, mode := range modes {
		t.Run(mode.String(), func(t *testing.T) {
			for k := 1; ; k++ {
				fired, done := copyCrash(t,
					vfs.Fault{Ops: changing, Nth: k, Mode: mode, Err: syscall.EIO}, vfs.Fault{Ops: changing, Nth: k + 1, Sticky: true, Err: syscall.EIO})
				if t.Failed() {
					t.Fatalf("at call %d", k)
				}
				if fired == 0 && done {
					t.Logf("%d calls", k-1)
					break
				}
			}
		})
	}
}

// TestFullInCopy: where there is no room in the middle of a copy it is refused,
// nothing of it is seen, and it succeeds when there is room.
func TestFullInCopy(t *testing.T) {
	refusedOnce, rows := 0, 2000
	if testing.Short() {
		rows = 300
	}
	for k := 1; ; k++ {
		w, full := newFull(t)
		a := w.copySource("exec_source")
		a.mustAppend(manyRows(rows)...)
		a.mustClaim("last", "bash", "read-only")
		a.mustOutcome(6, `{}`)
		was := w.picture()
		full.Inject(vfs.Fault{Ops: vfs.OpWrite, Nth: k, Err: syscall.ENOSPC, Match: isGroup})
		_, _, err := w.copy(a.id, "branch", 6, StartRequest{ID: "exec_c"})
		fired := len(full.Fired())
		if err == nil && fired == 0 {
			w.close()
			break
		}
		if err != nil {
			refusedOnce++
			if _, there := w.s.Lookup("exec_c"); !outOfSpace(err) || there || w.picture() != was {
				t.Errorf("write %d: %v", k, err)
			}
			b, _, err := w.copy(a.id, "branch", 6, StartRequest{ID: "exec_c"})
			if err != nil {
				t.Fatalf("write %d: again: %v", k, err)
			}
			w.checkCopy(a, b)
		}
		w.close()
	}
	if refusedOnce < 2 {
		t.Errorf("%d copies were refused", refusedOnce)
	}
}

func manyRows(n int) []string {
	rows := make([]string, n)
	for i := range rows {
		rows[i] = fmt.Sprintf(`{"i":%d,"text":"%s"}`, i, strings.Repeat("x", 600))
	}
	return rows
}

// TestCopyLong: a long run is copied in bounded memory, and in steps that keep
// others from nothing for long.
func TestCopyLong(t *testing.T) {
	w := newWorld(t)
	a := w.start(StartRequest{ID: "exec_source"})
	rows, payloads := 10_000, 500
	if testing.Short() {
		rows, payloads = 2_000, 50
	}
	for range 10 {
		for _, r := range manyRows(rows / 100) { // each a batch of its own
			a.mustAppend(r)
		}
		a.mustAppend(manyRows(rows/10 - rows/100)...)
		for range payloads / 10 {
			a.mustPut(fmt.Sprint("p", w.info(a.id).Payloads), strings.Repeat("p", 12<<10))
		}
	}
	a.mustClaim("c", "bash", "read-only")
	a.mustOutcome(1, `{}`)
	batchesMax, bytesMax := 0, 0
	heap, heapMax := heapNow(), uint64(0)
	w.s.copyStep = func(batches []*wal.Batch) {
		bytes := 0
		for _, b := range batches {
			bytes += len(b.Body)
		}
		batchesMax, bytesMax = max(batchesMax, len(batches)), max(bytesMax, bytes)
		heapMax = max(heapMax, heapNow())
	}
	b := w.mustCopy(a.id, "branch", 1, StartRequest{})
	if batchesMax > copyStepBatches || bytesMax > copyStepBytes || batchesMax < 10 {
		t.Errorf("a step has %d batches, %d bytes", batchesMax, bytesMax)
	}
	grown := int64(heapMax) - int64(heap)
	t.Logf("steps of up to %d batches, %d bytes; the heap grew by %d KiB", batchesMax, bytesMax, grown>>10)
	if grown > 8<<20 {
		t.Errorf("the heap grew by %d bytes", grown)
	}
	w.checkCopy(a, b)
}

func heapNow() uint64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}
