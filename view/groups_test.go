package view_test

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"

	"durafs/runs"
	"durafs/view"
	"durafs/view/viewtest"
)

// pages lists a directory in pages of n entries.
func pages(t *testing.T, v *view.View, dir view.Node, n int, between func()) (all []string) {
	t.Helper()
	for at := view.Cookie(0); ; {
		names, next := list(t, v, dir, at, n)
		if len(names) == 0 {
			return all
		}
		all, at = append(all, names...), next
		if between != nil {
			between()
		}
	}
}

func mustLookup(t *testing.T, v *view.View, path ...string) view.Attr {
	t.Helper()
	a, err := v.Attr(view.Root)
	for _, p := range path {
		if err == nil {
			a, err = v.Lookup(a.Node, p)
		}
	}
	if err != nil {
		t.Fatalf("%v: %v", path, err)
	}
	return a
}

// TestGroupsListOnWhileTheyGrow: what is added while a directory is listed is
// neither lost nor shown twice, and what leaves it is shown once at most.
func TestGroupsListOnWhileTheyGrow(t *testing.T) {
	s := viewtest.New(start)
	v := view.New(s, nil)
	made := 0
	admit := func() {
		ref := s.StartIn(viewtest.ID(made), fmt.Sprintf("thread-%03d", made))
		s.Post(fmt.Sprintf("thread-%03d", made), "hello")
		s.StartIn(viewtest.ID(made+1000), "all")
		if made%3 == 0 {
			s.Settle(ref, nil)
		}
		made++
	}
	for range 20 {
		admit()
	}
	for _, path := range [][]string{{"by-thread"}, {"by-thread", "all"}, {"threads"}, {"by-phase", "running"}, {"by-phase", "terminal"}} {
		dir := mustLookup(t, v, path...).Node
		before, _ := list(t, v, dir, 0, 1<<20)
		more := 5
		all := pages(t, v, dir, 3, func() {
			if more--; more >= 0 {
				admit()
			}
		})
		after, _ := list(t, v, dir, 0, 1<<20)
		if !slices.Equal(all, after) || len(after) <= len(before) {
			t.Errorf("%v: listed %d names in pages, %d at once, %d before", path, len(all), len(after), len(before))
		}
	}
	running := mustLookup(t, v, "by-phase", "running").Node
	ref, _ := s.Lookup(viewtest.ID(1004))
	all := pages(t, v, running, 3, func() {
		if s.Move(ref, runs.PausedInterruption); ref > 1 {
			ref -= 3
		}
	})
	slices.Sort(all)
	if n := len(all); n != len(slices.Compact(all)) {
		t.Errorf("a run was listed twice: %v", all)
	}
}

func TestPhaseLinkMoves(t *testing.T) {
	s := viewtest.New(start)
	v := view.New(s, nil)
	ref := s.Start(viewtest.ID(1))
	was := mustLookup(t, v, "by-phase", "running", viewtest.ID(1))
	if target, err := v.Readlink(was.Node); err != nil || target != "../../runs/"+viewtest.ID(1) || !was.Live {
		t.Errorf("a link to %q, live %v, %v", target, was.Live, err)
	}
	s.Settle(ref, nil)
	if _, err := v.Lookup(view.PhaseDir(runs.Running), viewtest.ID(1)); err != view.ErrNotExist {
		t.Errorf("the old name: %v", err)
	}
	if _, err := v.Attr(was.Node); err != view.ErrNotExist {
		t.Errorf("the old node: %v", err)
	}
	if now := mustLookup(t, v, "by-phase", "terminal", viewtest.ID(1)); now.Node == was.Node {
		t.Error("a node means another link")
	}
}

// TestThreadOfAnUndoneRun: the directory of a thread's runs has the number of
// its first run that there is.
func TestThreadOfAnUndoneRun(t *testing.T) {
	s := viewtest.New(start)
	v := view.New(s, nil)
	late := s.Reserve()
	first := s.StartIn(viewtest.ID(1), "T")
	s.StartIn(viewtest.ID(2), "T")
	was := mustLookup(t, v, "by-thread", "T").Node
	s.Remove(first)
	if _, err := v.Attr(was); err == nil {
		t.Error("the directory has the number of a run that is gone")
	}
	now := mustLookup(t, v, "by-thread", "T").Node
	if names, _ := list(t, v, now, 0, 9); !slices.Equal(names, []string{viewtest.ID(2)}) {
		t.Errorf("listed %v", names)
	}
	if names, _ := list(t, v, view.ByThreadDir, 0, 9); !slices.Equal(names, []string{"T"}) {
		t.Errorf("threads %v", names)
	}
	s.StartAt(late, viewtest.ID(3)) // a lower number, published later, of no thread
	if mustLookup(t, v, "by-thread", "T").Node != now {
		t.Error("a run of no thread moved it")
	}
}

// TestHistoryIsOneMoment: what is open stays what it was, to its size.
func TestHistoryIsOneMoment(t *testing.T) {
	s := viewtest.New(start)
	v := view.New(s, nil)
	ref := s.Start(viewtest.ID(1))
	for i := range 50 {
		s.Call(ref, "bash", `{}`, []byte(`"`+strings.Repeat("x", i*997)+`"`))
	}
	h, err := v.Open(view.HistoryFile(ref))
	if err != nil {
		t.Fatal(err)
	}
	was := read(t, h, 0)
	s.Call(ref, "bash", `{"new":1}`, nil)
	if got := read(t, h, 0); !bytes.Equal(got, was) || bytes.Count(got, []byte("\n")) != 50 {
		t.Errorf("the history moved under its handle: %d bytes, %d before", len(got), len(was))
	}
	for off := int64(0); off < h.Size(); off += 12345 {
		p := make([]byte, 40000)
		n, _ := h.ReadAt(p, off)
		if !bytes.Equal(p[:n], was[off:min(off+40000, int64(len(was)))]) {
			t.Fatalf("at %d: other bytes", off)
		}
	}
	if a := mustLookup(t, v, "runs", viewtest.ID(1), "history"); a.Size <= h.Size() {
		t.Errorf("the file did not grow: %d, %d", a.Size, h.Size())
	}
}

// TestRenderedNeverMixesMoments: a piece that came out another ends the moment.
func TestRenderedNeverMixesMoments(t *testing.T) {
	pad := 3
	piece := func(dst []byte, i int) ([]byte, error) { return append(dst, strings.Repeat("x", pad)...), nil }
	r, err := view.Render(4, piece)
	if err != nil || r.Size() != 12 {
		t.Fatal(r, err)
	}
	pad = 4
	if n, err := r.ReadAt(make([]byte, 5), 4); n != 0 || err != view.ErrStale {
		t.Errorf("read %d bytes of another moment, %v", n, err)
	}
}

// TestMemoIsBounded: what is kept weighs no more than it may, and what is kept
// is answered without making it again.
func TestMemoIsBounded(t *testing.T) {
	m, made := view.NewMemo(), 0
	get := func(key int, weight int64) {
		m.Get(key, func() (int, error) { made++; return key, nil }, func(int) int64 { return weight })
	}
	for key := range 100 {
		get(key, view.MemoWeightMax/3)
	}
	get(99, 0)
	get(98, 0)
	if made != 100 || m.Weight() > view.MemoWeightMax {
		t.Errorf("made %d times, and %d bytes are kept", made, m.Weight())
	}
	get(1000, 2*view.MemoWeightMax)
	if get(1000, 0); made != 101 || m.Weight() > 2*view.MemoWeightMax {
		t.Errorf("made %d times, and %d bytes are kept", made, m.Weight())
	}
}
