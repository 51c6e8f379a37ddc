package runs

import (
	"fmt"
	"strings"
	"syscall"
	"testing"

	"durafs/internal/vfs"
)

// newFull is a store whose disk a test can fill.
func newFull(t *testing.T) (*world, *vfs.Faulty) {
	faulty := vfs.NewFaulty(vfs.OS)
	w := &world{t: t, fs: faulty, dir: fastDir(t), ledger: new(memLedger)}
	w.mustOpen()
	t.Cleanup(w.close)
	return w, faulty
}

// deny lets one write of the agent find no room.
func (a *agent) deny(f *vfs.Faulty) {
	a.w.t.Helper()
	f.Inject(vfs.Fault{Ops: vfs.OpWrite, Nth: 1, Err: syscall.ENOSPC, Match: isGroup})
	if _, err := a.append(`{"x":1}`); !outOfSpace(err) {
		a.w.t.Fatalf("a full disk answers %v", err)
	}
}

// TestRollback: an admission that came to nothing is undone to the last trace,
// and its id is free.
func TestRollback(t *testing.T) {
	w, full := newFull(t)
	w.start(StartRequest{ID: "exec_other", Labels: Labels{"thread": "T"}, Message: []byte(`"first"`)})
	before := w.picture() + fmt.Sprint(w.journal("master")) + w.thread("T")
	keyed := StartRequest{ID: "exec_r", IdempotencyKey: "k", Labels: Labels{"thread": "T"}, Message: []byte(`"second"`), ResumeRequest: []byte("x")}
	a := w.start(keyed)
	wantCode(t, w.s.Rollback(ctx, a.c, a.id), RollbackRefused)
	a.deny(full)
	wantCode(t, w.s.Rollback(ctx, owner, a.id), WriterRequired)
	x := w.watch(owner, WatchQuery{})
	w.told(x)
	if err := w.s.Rollback(ctx, a.c, a.id); err != nil {
		t.Fatal(err)
	}
	if events := w.told(x); len(events) != 1 || events[0].Kind != EventRemoved || events[0].ID != a.id {
		t.Errorf("watchers are told %s", mustJSON(events))
	}
	_, err := a.append(`{}`)
	wantCode(t, err, UnknownRun)
	if after := w.picture() + fmt.Sprint(w.journal("master")) + w.thread("T"); after != before {
		t.Errorf("before it was\n%s\nand now it is\n%s", before, after)
	}
	w.s.mu.RLock()
	left := w.s.index.remnants(2, &removal{ID: a.id, Labels: keyed.Labels, Journal: "master", Admission: 2})
	w.s.mu.RUnlock()
	if len(left) > 0 {
		t.Errorf("there is left: %v", left)
	}
	old := a.c
	a = w.start(keyed)
	if a.c == old || w.ref(a.id) != 3 {
		t.Error("the new run has what the old one had")
	}
	a.mustAppend(`{"y":1}`)
	_, err = w.s.Append(ctx, old, a.id, rowsOf(`{}`), "")
	wantCode(t, err, WrongToken)
	w.reopen()
	if got := strings.Join(w.agentRows(a.id), ""); got != `{"y":1}` {
		t.Errorf("the log has %s", got)
	}
}

func (w *world) thread(name string) string {
	w.t.Helper()
	page, err := w.s.Thread(owner, name, 0, 0)
	if err != nil {
		w.t.Fatal(err)
	}
	return string(mustJSON(page))
}

// TestRollbackRefused: everything that speaks against it keeps the run.
func TestRollbackRefused(t *testing.T) {
	for name, step := range map[string]func(w *world, a *agent, f *vfs.Faulty){
		"nothing was turned away": func(w *world, a *agent, f *vfs.Faulty) {},
		"a row was written":       func(w *world, a *agent, f *vfs.Faulty) { a.mustAppend(`{}`); a.deny(f) },
		"a row was written after": func(w *world, a *agent, f *vfs.Faulty) { a.deny(f); a.mustAppend(`{}`) },
		"a payload was written":   func(w *world, a *agent, f *vfs.Faulty) { a.mustPut("p", "x"); a.deny(f) },
		"a claim":                 func(w *world, a *agent, f *vfs.Faulty) { a.deny(f); a.mustClaim("c", "t", "read-only") },
		"a restart":               func(w *world, a *agent, f *vfs.Faulty) { a.deny(f); w.reopen(); a.mustAttach() },
		"its journal's row left": func(w *world, a *agent, f *vfs.Faulty) {
			a.deny(f)
			w.s.mu.Lock()
			defer w.s.mu.Unlock()
			for range JournalRowsMax {
				w.s.index.journals["master"].add(journalPlace{lsn: w.s.published, bytes: 1, once: true})
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			w, full := newFull(t)
			a := w.start(StartRequest{})
			step(w, a, full)
			wantCode(t, w.s.Rollback(ctx, a.c, a.id), RollbackRefused)
			w.wantPhase(a.id, "running")
		})
	}
	w, full := newFull(t)
	a := w.start(StartRequest{})
	a.deny(full)
	if err := w.cancel(a.id); err != nil {
		t.Fatal(err)
	}
	wantCode(t, w.s.Rollback(ctx, a.c, a.id), WrongPhase)
}

// TestIDsRemove: what is removed is not found, everything else is.
func TestIDsRemove(t *testing.T) {
	x := newIndex()
	const n = 500
	for num := uint32(1); num <= n; num++ {
		x.admit(num, &admission{id: sampleID(int(num))})
	}
	for num := uint32(1); num <= n; num += 3 {
		x.ids.remove(num, x.idBytes)
		x.ids.remove(num, x.idBytes)
	}
	for num := uint32(1); num <= n; num++ {
		want := num
		if num%3 == 1 {
			want = 0
		}
		if got := x.find(sampleID(int(num))); got != want {
			t.Fatalf("run %d is found as %d", num, got)
		}
	}
}
