package crash

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"

	"durafs/internal/ballast"
	"durafs/internal/vfs/simdisk"
	"durafs/runs"
	"durafs/segment"
	"durafs/store"
)

// storeWork is what a driver of a whole store does in a life.
type storeWork struct {
	// agents work beside each other in the first life, and one in each other.
	agents int
	script []step
	lives  int
	pack   int64
}

// step is something that an agent asks for. Of each kind there is one letter.
type step struct {
	kind string
	name string
	size int
	// same gives the content that every run has here, so that it is stored once.
	same bool
}

// The kinds of step.
const (
	stepRow    = "row"
	stepPut    = "put"
	stepBeat   = "beat"
	stepSettle = "settle"
)

// Runs is the life of runs: start, rows, payloads of each size, settlement.
func Runs() *Driver {
	w := storeWork{agents: 1, lives: 2, pack: 1 << 20, script: []step{
		{kind: stepRow, size: 30},
		{kind: stepPut, name: "inline", size: 900},
		{kind: stepRow, size: 70 << 10},
		{kind: stepBeat},
		{kind: stepPut, name: "chunk", size: 17 << 10},
		{kind: stepSettle, size: 20 << 10},
	}}
	return w.driver("runs", "the life of a run: start, rows, payloads, settlement, interruption, attach")
}

// Payloads fills packs: inline and stored ones, of one chunk and of several,
// the same ones twice, from agents that share flushes.
func Payloads() *Driver {
	w := storeWork{agents: 2, lives: 1, pack: 128 << 10, script: []step{
		{kind: stepPut, name: "same", size: 18 << 10, same: true},
		{kind: stepPut, name: "own", size: 17 << 10},
		{kind: stepPut, name: "large", size: 70 << 10},
		{kind: stepPut, name: "again", size: 70 << 10, same: true},
		{kind: stepPut, name: "small", size: 300},
	}}
	return w.driver("payloads", "payloads inline and in packs, with dedup and joined flushes")
}

func (w *storeWork) driver(name, doc string) *Driver {
	return &Driver{
		Name: name, Doc: doc, Live: w.live, Judge: w.judge, Rotten: w.rotten, Ballasts: storeBallasts,
		Explore: simdisk.Explore{HeadBytes: []int64{segment.FrameHeaderBytes - 1, segment.FrameHeaderBytes, segment.FrameHeaderBytes + 16, 64}},
	}
}

const storeDir = "/store"

// storeBallast is set aside where the disk becomes full: more than a segment and
// the manifest, as on a large one.
const storeBallast = 128 << 10

var storeBallasts = map[string]int64{storeDir + "/wal/" + ballast.Name: storeBallast, storeDir + "/cas/" + ballast.Name: storeBallast}

func (w *storeWork) options(l *Life) store.Options {
	reserve := int64(16 << 10)
	if l.full != nil {
		reserve = storeBallast
	}
	return store.Options{
		SpaceRetryMax: spaceRetry,
		FS:            l.watched(), SegmentBytesMax: 10 << 12, PackBytesMax: w.pack, BeatWait: 1, BallastBytes: reserve,
		Lock: func(string) (io.Closer, error) { return io.NopCloser(nil), nil },
	}
}

// open opens the store and holds it against what was promised.
func (w *storeWork) open(l *Life) (*store.Store, *storeModel, error) {
	m := modelOfStore(l.Promises())
	s, err := store.Open(context.Background(), storeDir, w.options(l))
	if err != nil {
		return nil, nil, &openError{err}
	}
	if err := l.openedFor(s); err != nil {
		return s, nil, err
	}
	if err := errors.Join(m.judge(s), judgeRead(l.Promises(), s, never)); err != nil {
		if l.Faulty && l.full == nil {
			err = &openError{err} // a read that fails is no loss
		}
		return s, nil, err
	}
	if notes := s.Recovery().Notes; len(notes) > 0 && !l.Faulty && damaged(notes) {
		return s, nil, fmt.Errorf("a crash is taken for damage: %q", notes)
	}
	return s, m, nil
}

// openedFor is why a store is open for reading only on a full disk, which it
// may be where nothing is set aside, and says.
func (l *Life) openedFor(s *store.Store) error {
	if err := s.Healthy(); l.full != nil && err != nil {
		return &openError{err}
	}
	return nil
}

func never(_, _ string) bool { return false }

// damaged tells notes of damage in what is stored from those of a copy of the
// manifest that a crash left behind, and of packs that no batch refers to.
func damaged(notes []string) bool {
	for _, n := range notes {
		if !strings.Contains(n, "MANIFEST") {
			return true
		}
	}
	return false
}

// end lets the process go without a trace, or close.
func end(l *Life, s *store.Store, closes bool) error {
	if !closes {
		l.Kill()
	}
	err := s.Close(context.Background())
	if !closes {
		return nil
	}
	if l.refused(err); l.Faulty {
		return nil
	}
	return err
}

func (w *storeWork) judge(l *Life) error {
	s, _, err := w.open(l)
	if s != nil {
		end(l, s, false)
	}
	return allowed(l, err)
}

func (w *storeWork) live(l *Life) error {
	lives := 1
	if l.Depth == 0 {
		lives = w.lives
	}
	for i := range lives {
		if err := w.process(l, i, i < lives-1 || l.Closes); err != nil {
			return allowed(l, err)
		}
	}
	return nil
}

func (w *storeWork) process(l *Life, nth int, closes bool) error {
	s, m, err := w.open(l)
	if err == nil {
		l.reads(s)
		l.look()
		err = w.work(l, s, m, nth)
		w.resumes(l, s, nth)
		l.reads(nil)
	}
	if s == nil {
		return err
	}
	errEnd := end(l, s, closes && err == nil)
	if closes && l.Depth == 0 {
		l.Restart()
	}
	return errors.Join(err, errEnd)
}

// work lets the agents do their scripts, and one take over a run of before.
func (w *storeWork) work(l *Life, s *store.Store, m *storeModel, nth int) error {
	agents := w.agents
	if l.Depth > 0 {
		agents = 1
	}
	if err := w.takeOver(l, s, m); err != nil && !l.Faulty {
		return err
	}
	errs := make([]error, agents)
	var wg sync.WaitGroup
	for i := range agents {
		a := &agent{l: l, s: s, run: fmt.Sprintf("exec_%d-%d-%d", l.Depth, nth, i), salt: uint64(l.Depth<<8 | nth<<4 | i)}
		wg.Go(func() { errs[i] = a.live(w.script) })
	}
	wg.Wait()
	if err := errors.Join(errs...); err != nil && !l.Faulty {
		return err
	}
	return nil
}

// resumes leads a new run through its life once there is space again; in each
// try another, for one may have been begun.
func (w *storeWork) resumes(l *Life, s *store.Store, nth int) {
	try := 0
	l.resumes(func() error {
		try++
		a := &agent{l: l, s: s, run: fmt.Sprintf("exec_again-%d-%d", nth, try), salt: uint64(1<<12 | nth<<8 | try)}
		return a.live([]step{{kind: stepRow, size: 40}, {kind: stepPut, name: "again", size: 17 << 10}, {kind: stepSettle, size: 300}})
	})
}

// notEnded is the error of a run that is not ended.
func notEnded(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("what runs is not ended on a full disk: %w", err)
}

// takeOver attaches to the last run that can be, and brings it to its end.
func (w *storeWork) takeOver(l *Life, s *store.Store, m *storeModel) error {
	for _, id := range m.order {
		r := m.runs[id]
		ref, ok := s.Runs().Lookup(id)
		if !ok || r.writer == "" {
			continue
		}
		if info, _ := s.Runs().Info(ref); info.Sealed() {
			continue
		}
		a := &agent{l: l, s: s, run: id, salt: uint64(l.Depth + 100), caller: runs.Caller{Writer: r.writer}}
		if _, err := s.Runs().Attach(context.Background(), a.caller, id, runs.AttachRequest{}); err != nil {
			return fmt.Errorf("attach to %s: %w", id, err)
		}
		return a.steps([]step{{kind: stepRow, size: 40}, {kind: stepSettle, size: 18 << 10}})
	}
	return nil
}

// agent is the writer of one run.
type agent struct {
	l      *Life
	s      *store.Store
	run    string
	salt   uint64
	rows   int
	caller runs.Caller
}

func (a *agent) promise(what, text string, n uint64) {
	a.l.Promise(Promise{What: what, N: n, M: a.salt, Text: a.run + "\x00" + text})
}

func (a *agent) live(script []step) error {
	a.promise("start?", "", 0)
	st, err := a.s.Runs().Start(context.Background(), runs.Caller{Owner: true}, runs.StartRequest{
		ID: a.run, Task: "live", ResumeRequest: content(a.salt, 300), Labels: runs.Labels{"thread": "t"},
	})
	if a.l.refused(err) != nil {
		return fmt.Errorf("start: %w", err)
	}
	a.promise("start", st.Writer, 0)
	a.caller = runs.Caller{Writer: st.Writer}
	return a.steps(script)
}

// steps asks for one thing after the other; where something is refused it goes
// on with the next, as an agent would.
func (a *agent) steps(script []step) error {
	var first error
	for _, st := range script {
		var err error
		switch st.kind {
		case stepRow:
			err = a.row(st)
		case stepPut:
			err = a.put(st)
		case stepBeat:
			_, err = a.s.Runs().Beat(context.Background(), a.caller, a.run, "")
		case stepSettle:
			err = a.settle(st)
			if a.l.refused(err) != nil && a.l.mustEnd() {
				a.l.wrong(notEnded(a.settle(step{size: 400}))) // it needs no pack
			}
		}
		a.l.look()
		if a.l.refused(err) != nil && first == nil {
			first = fmt.Errorf("%s %s %s: %w", a.run, st.kind, st.name, err)
		}
	}
	return first
}

func (a *agent) row(st step) error {
	a.rows++
	row := rowText(a.salt, a.rows, st.size)
	a.promise("row?", "", uint64(a.rows)<<32|uint64(st.size))
	_, err := a.s.Runs().Append(context.Background(), a.caller, a.run, []runs.Row{{JSON: []byte(row)}}, "")
	if err == nil {
		a.promise("row", "", uint64(a.rows)<<32|uint64(st.size))
	}
	return err
}

// rowText is a row; the largest ones are kept as payloads.
func rowText(salt uint64, n, size int) string {
	key := [3]uint64{salt, uint64(n), uint64(size)}
	if s, ok := contents.Load(key); ok {
		return s.(string)
	}
	s := newRowText(salt, n, size)
	contents.Store(key, s)
	return s
}

func newRowText(salt uint64, n, size int) string {
	return fmt.Sprintf(`{"type":"t","n":"%d-%d","pad":"%s"}`, salt, n, strings.Repeat("x", size))
}

func (a *agent) put(st step) error {
	salt := a.salt
	if st.same {
		salt = 0
	}
	name := fmt.Sprintf("%s-%d", st.name, a.salt)
	a.promise("put?", name, uint64(st.size)<<16|salt)
	_, _, err := a.s.Runs().Put(context.Background(), a.caller, a.run, name, runs.SourceNamed, "", bytes.NewReader(content(salt, st.size)))
	if err == nil {
		a.promise("put", name, uint64(st.size)<<16|salt)
	}
	return err
}

func (a *agent) settle(st step) error {
	a.promise("settle?", "", uint64(st.size))
	_, err := a.s.Runs().Settle(context.Background(), a.caller, a.run, runs.SettleRequest{
		Status: runs.Success, Summary: "done", Payload: bytes.NewReader(content(a.salt, st.size)),
	})
	if err == nil {
		a.promise("settle", "", uint64(st.size))
	}
	return err
}
