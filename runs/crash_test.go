package runs

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"syscall"
	"testing"

	"durafs/cas"
	"durafs/internal/vfs"
	"durafs/wal"
)

// changing are the calls that may change what is on disk.
const changing = vfs.OpCreate | vfs.OpMkdir | vfs.OpRename | vfs.OpRemove | vfs.OpWrite | vfs.OpDatasync | vfs.OpTruncate | vfs.OpDirSync

// life is what an agent did, and what it was told.
type life struct {
	started  bool
	rows     []string // acknowledged
	maybe    []string // asked for after them, not acknowledged
	payloads map[string]string
	settled  bool
	asked    bool // to settle
	writer   string

	// retries asks a second time what was refused for want of space.
	retries bool
	refused int
}

// try makes a request, and makes it again while it is refused for want of
// space: nothing of it was kept, and it succeeds without a restart.
func (l *life) try(do func() error) bool {
	err := do()
	var inLog *wal.NoSpaceError
	var inChunks *cas.NoSpaceError
	for n := 0; l.retries && n < 1000 && (errors.As(err, &inLog) || errors.As(err, &inChunks)); n++ {
		l.refused++
		yieldLong() // the log's keeper looks for space beside
		err = do()
	}
	return err == nil
}

const lifeAnswer = 70 << 10

// live does what an agent does, until something fails.
func (l *life) live(w *world) {
	l.payloads = map[string]string{}
	a := &agent{w: w, id: "exec_x"}
	l.started = l.try(func() error {
		st, err := w.s.Start(ctx, Caller{UID: 7}, StartRequest{
			ID: a.id, Labels: Labels{"thread": "T"}, Message: []byte(`"hi"`), ResumeRequest: []byte(strings.Repeat("r", 20<<10)),
		})
		a.c = Caller{UID: 7, Writer: st.Writer}
		return err
	})
	if !l.started {
		return
	}
	l.writer = a.c.Writer
	for i, size := range []int{10, 100, 100 << 10} {
		row := fmt.Sprintf(`{"i":%d,"x":"%s"}`, i, strings.Repeat("x", size))
		l.maybe = append(l.maybe, row)
		if !l.try(func() error { _, err := a.append(row); return err }) {
			return
		}
		l.rows, l.maybe = append(l.rows, row), nil
	}
	for name, size := range map[string]int{"small": 10, "large": 100 << 10} {
		content := strings.Repeat(name, size)
		if !l.try(func() error { _, _, err := a.put(name, content); return err }) {
			return
		}
		l.payloads[name] = content
	}
	l.asked = true
	l.settled = l.try(func() error { _, err := a.settle(Success, strings.Repeat("a", lifeAnswer)); return err })
}

// check holds an opened store against what the agent was told.
func (l *life) check(t *testing.T, w *world) {
	t.Helper()
	ref, ok := w.s.Lookup("exec_x")
	if !ok {
		if l.started {
			t.Fatal("an acknowledged run is gone")
		}
		return
	}
	run := w.info("exec_x")
	if run.Phase != PausedInterruption && run.Phase != Terminal || run.Phase == Terminal && !l.asked || run.Phase != Terminal && l.settled {
		t.Fatalf("the run is %s; settled %v", run.Phase, l.settled)
	}
	if n := w.s.Counts()[run.Phase.String()]; n != 1 {
		t.Errorf("the counts are %v", w.s.Counts())
	}
	l.checkRows(t, w)
	for name, content := range l.payloads {
		if got, err := w.payload("exec_x", name); err != nil || got != content {
			t.Errorf("%s has %d bytes, want %d (%v)", name, len(got), len(content), err)
		}
	}
	for _, f := range []string{resumeRequestName, TerminalName} {
		p, err := w.s.findPayload(uint32(ref), f)
		if err != nil || p == nil && (f == resumeRequestName || run.Phase == Terminal) {
			t.Errorf("%s: %v, %v", f, p, err)
		}
		if p != nil {
			if _, err := w.s.readRef(p.ref, 1<<20); err != nil {
				t.Errorf("%s cannot be read: %v", f, err)
			}
		}
	}
	if run.Phase == Terminal {
		w.reopen() // so that frames has what this boot has written
		checkSettled(t, w, &agent{w: w, id: "exec_x"}, strings.Repeat("a", lifeAnswer))
	}
}

func (l *life) checkRows(t *testing.T, w *world) {
	t.Helper()
	got := w.agentRows("exec_x")
	want := append(append([]string(nil), l.rows...), l.maybe...)
	if len(got) < len(l.rows) || len(got) > len(want) {
		t.Fatalf("there are %d rows, of %d acknowledged and %d asked for", len(got), len(l.rows), len(want))
	}
	for i, row := range got {
		if len(want[i]) <= RowTextBytesMax {
			if row != want[i] {
				t.Errorf("row %d is %.60s, want %.60s", i, row, want[i])
			}
			continue
		}
		_, name, _ := strings.Cut(row, `"payload":"`)
		name, _, _ = strings.Cut(name, `"`)
		if body, err := w.payload("exec_x", name); err != nil || body != want[i] {
			t.Errorf("the body of row %d has %d bytes (%v)", i, len(body), err)
		}
	}
}

// TestCrashAtEveryCall ends the process, as it were, at each call that changes
// the disk, with the call not made, made in half, and made though it failed.
// Nothing acknowledged is lost, and the next boot finishes what was begun.
func TestCrashAtEveryCall(t *testing.T) {
	for _, mode := range vfs.Modes {
		t.Run(mode.String(), func(t *testing.T) {
			for k := 1; ; k += callStep {
				if !crashAt(t, k, mode) {
					t.Logf("%d calls", k-1)
					if k < 20 && callStep == 1 {
						t.Errorf("only %d calls were seen", k-1)
					}
					return
				}
				if t.Failed() {
					t.Fatalf("at call %d", k)
				}
			}
		})
	}
}

// crashAt reports whether the k-th call came.
func crashAt(t *testing.T, k int, mode vfs.Mode) bool {
	t.Helper()
	faulty := vfs.NewFaulty(vfs.OS)
	w := &world{t: t, fs: faulty, dir: fastDir(t), ledger: new(memLedger)}
	defer os.RemoveAll(w.dir)
	w.mustOpen()
	faulty.Inject(vfs.Fault{Ops: changing, Nth: k, Mode: mode, Err: syscall.EIO})
	faulty.Inject(vfs.Fault{Ops: changing, Nth: k + 1, Sticky: true, Err: syscall.EIO})
	var l life
	l.live(w)
	if l.settled && len(faulty.Fired()) == 0 {
		w.close()
		return false
	}
	w.close() // writes nothing: every call fails
	l.judge(t, w)
	return true
}

// judge opens what is left on disk, twice, and lets the agent go on.
func (l *life) judge(t *testing.T, w *world) {
	t.Helper()
	w.fs = vfs.OS
	w.mustOpen()
	defer w.close()
	l.check(t, w)
	before := w.picture()
	w.reopen()
	if after := w.picture(); after != before {
		t.Errorf("a second restart changed\n%s\nto\n%s", before, after)
	}
	l.goOn(t, w)
}

// TestOneFailure lets a single call fail in a run's life, for want of space or
// by an error of the disk, and the process lives on. What was refused for want
// of space succeeds when it is asked again; after a failed sync nothing is
// acknowledged that was affected; and a later open has lost nothing.
func TestOneFailure(t *testing.T) {
	for _, cause := range []syscall.Errno{syscall.ENOSPC, syscall.EIO} {
		t.Run(cause.Error(), func(t *testing.T) {
			refused := 0
			for k := 1; ; k += callStep {
				faulty := vfs.NewFaulty(vfs.OS)
				w := &world{t: t, fs: faulty, dir: fastDir(t), ledger: new(memLedger)}
				w.mustOpen()
				faulty.Inject(vfs.Fault{Ops: changing, Nth: k, Mode: vfs.Half, Err: cause})
				l := life{retries: true}
				l.live(w)
				fired := faulty.Fired()
				w.close()
				if l.settled && len(fired) == 0 {
					break
				}
				if len(fired) == 1 && fired[0].Op == vfs.OpWrite && cause == syscall.ENOSPC && !l.settled {
					t.Errorf("call %d: %v ended the run's life", k, fired[0])
				}
				refused += l.refused
				if l.judge(t, w); t.Failed() {
					t.Fatalf("at call %d, %v", k, fired)
				}
				os.RemoveAll(w.dir)
			}
			if cause == syscall.ENOSPC && refused == 0 {
				t.Error("nothing was ever refused for want of space")
			}
		})
	}
}

// goOn: the agent attaches to what is left, or starts anew, and goes on.
func (l *life) goOn(t *testing.T, w *world) {
	t.Helper()
	if _, ok := w.s.Lookup("exec_x"); !ok {
		var again life
		if again.live(w); !again.settled {
			t.Error("a new life does not come to its end")
		}
		return
	}
	a := &agent{w, "exec_x", Caller{UID: 7, Writer: w.s.token(uint32(w.ref("exec_x")), 1, purposeWriter)}}
	if l.writer != "" && l.writer != a.c.Writer {
		t.Error("the token is another one")
	}
	if w.info("exec_x").Phase != Terminal {
		a.mustAttach()
		a.mustAppend(`{"after":true}`)
		a.mustSettle("other answer")
	}
	w.reopen()
	if w.info("exec_x").Phase != Terminal {
		t.Error("the run is not at its end")
	}
}

// TestCrashInBoot ends the process at each call of a boot that has a
// settlement to finish and a run to interrupt.
func TestCrashInBoot(t *testing.T) {
	w := newWorld(t)
	w.start(StartRequest{ID: "exec_y"}).mustAppend(`{"y":1}`)
	a := w.start(StartRequest{ID: "exec_x", Labels: Labels{"thread": "T"}})
	a.mustAppend(`{"a":1}`)
	begun := int(w.log.Durable())
	answer := strings.Repeat("0123456789abcdef", 5<<10)
	a.mustSettle(answer)
	w.reopen()
	for k := 1; ; k += callStep {
		cut := w.copyFrom(t, begun+3)
		faulty := vfs.NewFaulty(vfs.OS)
		cut.fs = faulty
		faulty.Inject(vfs.Fault{Ops: changing, Nth: k, Sticky: true, Err: syscall.EIO})
		err := cut.open()
		cut.close()
		cut.fs = vfs.OS
		if err == nil && len(faulty.Fired()) == 0 {
			t.Logf("%d calls", k-1)
			return
		}
		cut.mustOpen()
		cut.reopen()
		checkSettled(t, cut, &agent{cut, a.id, a.c}, answer)
		if got := cut.ownTypes("exec_y"); got != "accepted paused" {
			t.Errorf("call %d: the other run's log tells %s", k, got)
		}
		cut.close()
		os.RemoveAll(cut.dir)
		if t.Failed() {
			t.Fatalf("at call %d", k)
		}
	}
}
