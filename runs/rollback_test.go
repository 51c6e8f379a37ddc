package runs

import (
	"errors"
	"fmt"
	"strings"
	"syscall"
	"testing"

	"durafs/internal/vfs"
)

// denials are the causes that let an admission be undone: each makes a store, and
// lets one write of an agent find no room in it.
var denials = map[string]func(t *testing.T) (*world, func(a *agent)){
	"a full disk": func(t *testing.T) (*world, func(a *agent)) {
		w, full := newFull(t)
		return w, func(a *agent) { a.deny(full) }
	},
	"a full run": func(t *testing.T) (*world, func(a *agent)) {
		w := newBounded(t, 4<<10, 0)
		return w, func(a *agent) {
			t.Helper()
			_, err := a.append(`{"x":"` + strings.Repeat("x", 4<<10) + `"}`)
			wantCode(t, err, RunBytes)
		}
	},
	"a full store": func(t *testing.T) (*world, func(a *agent)) {
		w := newBounded(t, 0, 64<<10)
		return w, func(a *agent) {
			t.Helper()
			_, _, err := a.put("denied", strings.Repeat("x", 64<<10))
			wantCode(t, err, StoreBytes)
		}
	},
}

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
	for cause, begin := range denials {
		t.Run(cause, func(t *testing.T) { testRollback(t, begin) })
	}
}

func testRollback(t *testing.T, begin func(t *testing.T) (*world, func(a *agent))) {
	w, deny := begin(t)
	w.start(StartRequest{ID: "exec_other", Labels: Labels{"thread": "T"}, Message: []byte(`"first"`)})
	before := w.picture() + fmt.Sprint(w.journal("master")) + w.thread("T")
	keyed := StartRequest{ID: "exec_r", IdempotencyKey: "k", Labels: Labels{"thread": "T"}, Message: []byte(`"second"`), ResumeRequest: []byte("x")}
	a := w.start(keyed)
	wantCode(t, w.s.Rollback(ctx, a.c, a.id), RollbackRefused)
	deny(a)
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
	w.used()
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
	w.used()
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
	for name, step := range map[string]func(w *world, a *agent, deny func(*agent)){
		"nothing was turned away": func(w *world, a *agent, deny func(*agent)) {},
		"a row was written":       func(w *world, a *agent, deny func(*agent)) { a.mustAppend(`{}`); deny(a) },
		"a row was written after": func(w *world, a *agent, deny func(*agent)) { deny(a); a.mustAppend(`{}`) },
		"a payload was written":   func(w *world, a *agent, deny func(*agent)) { a.mustPut("p", "x"); deny(a) },
		"a payload was written and deleted": func(w *world, a *agent, deny func(*agent)) {
			a.mustPut("p", "x")
			if _, err := w.delete(a.id, "p"); err != nil {
				t.Fatal(err)
			}
			deny(a)
		},
		"a claim":   func(w *world, a *agent, deny func(*agent)) { deny(a); a.mustClaim("c", "t", "read-only") },
		"a restart": func(w *world, a *agent, deny func(*agent)) { deny(a); w.reopen(); a.mustAttach() },
		"a provider's error that tells of a quota": func(w *world, a *agent, deny func(*agent)) {
			if err := w.s.denied(uint32(w.ref(a.id)), errors.New("507: quota exceeded, no space left on device")); err == nil {
				t.Error("it is no error any more")
			}
		},
		"the target was enrolled anew": func(w *world, a *agent, deny func(*agent)) {
			deny(a)
			for _, enrolled := range []bool{false, true} {
				if _, err := w.s.Enrol(ctx, owner, "agent:a", enrolled); err != nil {
					t.Fatal(err)
				}
			}
		},
		"its journal's row left": func(w *world, a *agent, deny func(*agent)) {
			deny(a)
			w.leaveJournal("agent:a")
		},
		// The row that is there has the same bytes, and is of another admission.
		"its journal's row left, and the same came again": func(w *world, a *agent, deny func(*agent)) {
			deny(a)
			w.leaveJournal("agent:a")
			w.s.mu.Lock()
			defer w.s.mu.Unlock()
			j := w.s.index.journals["agent:a"]
			j.add(journalPlace{lsn: w.s.published + 1, bytes: 100})
		},
	} {
		for cause, begin := range denials {
			t.Run(name+"/"+cause, func(t *testing.T) {
				w, deny := begin(t)
				if _, err := w.s.Enrol(ctx, owner, "agent:a", true); err != nil {
					t.Fatal(err)
				}
				a := w.start(StartRequest{Target: "agent:a"})
				before := w.info(a.id).Admission
				step(w, a, deny)
				wantCode(t, w.s.Rollback(ctx, a.c, a.id), RollbackRefused)
				if w.wantPhase(a.id, "running"); w.info(a.id).Admission != before {
					t.Error("it is another run")
				}
			})
		}
	}
	w, full := newFull(t)
	a := w.start(StartRequest{})
	a.deny(full)
	if err := w.cancel(a.id); err != nil {
		t.Fatal(err)
	}
	wantCode(t, w.s.Rollback(ctx, a.c, a.id), WrongPhase)
}

// leaveJournal lets all rows of a journal leave it.
func (w *world) leaveJournal(target string) {
	w.s.mu.Lock()
	defer w.s.mu.Unlock()
	for range JournalRowsMax {
		w.s.index.journals[target].add(journalPlace{lsn: w.s.published, bytes: 1, once: true})
	}
}

// TestRollbackKeepsOthers: of a journal that others have written to since, only
// the run's own row goes, also where one before it has the same bytes; and a start
// with the key of one that was undone is a new run, after a restart too.
func TestRollbackKeepsOthers(t *testing.T) {
	for cause, begin := range denials {
		t.Run(cause, func(t *testing.T) {
			w, deny := begin(t)
			same := StartRequest{Task: "the same task", Labels: Labels{"thread": "T"}, IdempotencyKey: "k"}
			first := w.start(StartRequest{Task: "the same task"})
			a := w.start(same)
			later := w.start(StartRequest{Task: "the same task"})
			deny(a)
			if err := w.s.Rollback(ctx, a.c, a.id); err != nil {
				t.Fatal(err)
			}
			for range 2 {
				rows, err := w.s.Journal(owner, targetMaster, 0)
				text := string(mustJSON(rows))
				if err != nil || strings.Count(text, `"started"`) != 2 || strings.Contains(text, a.id) || !strings.Contains(text, first.id) || !strings.Contains(text, later.id) {
					t.Fatalf("the journal is %s, %v", text, err)
				}
				w.reopen()
			}
			st, err := w.s.Start(ctx, Caller{UID: 7}, same)
			if err != nil || st.Replayed || st.Record.ID == a.id {
				t.Errorf("the same key again: %+v, %v", st, err)
			}
		})
	}
}

// TestRollbackOrWrite: a first row, payload, claim, settlement, or a cancel that
// comes at the time of a rollback. Either it was first, and the run is kept with
// it, or it is told that there is no such run.
func TestRollbackOrWrite(t *testing.T) {
	for _, cause := range []string{"a full run", "a full store"} {
		t.Run(cause, func(t *testing.T) {
			w, deny := denials[cause](t)
			for n := range 60 {
				a := w.start(StartRequest{ID: fmt.Sprint("exec_", n), ResumeRequest: []byte("r")})
				deny(a)
				other := make(chan error)
				go func() {
					var err error
					switch n % 5 {
					case 0:
						_, err = a.append(`{"x":1}`)
					case 1:
						_, _, err = a.put("p", "x")
					case 2:
						_, err = a.claim("c", "t", "mutating")
					case 3:
						_, err = a.settle(Success, "done")
					case 4:
						err = w.cancel(a.id)
					}
					other <- err
				}()
				for range n % 7 {
					yield()
				}
				undone, did := w.s.Rollback(ctx, a.c, a.id), <-other
				_, there := w.s.Lookup(a.id)
				switch {
				case undone == nil && CodeOf(did) == UnknownRun && !there:
				case undone != nil && did == nil && there:
				default:
					t.Fatalf("rolled back: %v; the other: %v; it is there: %v", undone, did, there)
				}
			}
			w.used()
			before := w.picture()
			w.reopen()
			w.used()
			if strings.Count(w.picture(), "exec_") < strings.Count(before, "exec_") {
				t.Error("a run is gone after a restart")
			}
		})
	}
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
