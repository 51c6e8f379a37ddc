package runs

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"durafs/internal/clock"
)

// TestListDoesNotGrow lists pages of a store of 1,000 and of 100,000 runs: what
// a page costs does not depend on how many others there are.
func TestListDoesNotGrow(t *testing.T) {
	if testing.Short() {
		t.Skip("it makes 100,000 runs")
	}
	small, large := newListed(t, 1000), newListed(t, 100_000)
	for name, q := range map[string]ListQuery{
		"all": {}, "thread": {Thread: "T"}, "rare label": {Labels: Labels{"n": "7"}}, "parent": {Parent: "exec_parent"},
		"running": {Phase: "running"}, "none": {Labels: Labels{"n": "x"}},
	} {
		// The best times of both count, taken in turn for as long as others on
		// this machine may be in the way; what grows never comes to it.
		a, b := time.Hour, time.Hour
		for range 200 {
			a, b = min(a, small.pageTime(t, q)), min(b, large.pageTime(t, q))
			if b <= a*13/10+200*time.Microsecond {
				break
			}
		}
		t.Logf("%s: %s and %s", name, a, b)
		if b > a*13/10+200*time.Microsecond {
			t.Errorf("%s: a page takes %s among 1,000 runs and %s among 100,000", name, a, b)
		}
	}
}

// newListed is a store whose index has n finished runs, 60 of them of one
// thread, parent and label, and 60 that run.
func newListed(t *testing.T, n int) *world {
	w := newWorld(t)
	for i := range 60 {
		a := w.start(StartRequest{ID: fmt.Sprint("exec_", i), Parent: "exec_parent", Labels: Labels{"thread": "T", "n": "7"}})
		_ = a
	}
	at := w.s.index.record(uint32(w.ref("exec_0")))
	w.s.mu.Lock()
	defer w.s.mu.Unlock()
	x := &w.s.index
	for i := range n {
		num := x.newest + 1
		c, k := x.admit(num, &admission{id: fmt.Sprint("exec_more", i), labels: Labels{"n": fmt.Sprint("v", i%500)}})
		c.admission[k], c.record[k], c.revision[k] = uint64(1000+i), at, 1
		x.setPhase(num, Terminal)
	}
	x.catchUp()
	return w
}

func (x *index) record(num uint32) place {
	c, i := x.at(num)
	return c.record[i]
}

// pageTime is the time that a page takes.
func (w *world) pageTime(t *testing.T, q ListQuery) time.Duration {
	t.Helper()
	began := clock.System.Boot()
	page, err := w.s.List(owner, q)
	took := clock.System.Boot() - began
	if err != nil {
		t.Fatal(err)
	}
	if n := len(page.Runs); n != 50 && n != 0 {
		t.Fatalf("a page of %d", n)
	}
	return took
}

// TestLinksOfUsers: runs of several users in turn, some linked later than
// others, are found under their own.
func TestLinksOfUsers(t *testing.T) {
	x := newIndex()
	want := map[uint32][]uint32{}
	for num := uint32(1); num <= 200; num++ {
		uid := num * 7 % 11 / 4 // 0 to 2, in no simple order
		c, i := x.admit(num, &admission{id: fmt.Sprint("exec_", num), labels: Labels{"n": "1"}})
		c.uid[i] = uid
		want[uid] = append(want[uid], num)
		if num%13 == 0 {
			x.catchUp()
		}
	}
	x.catchUp()
	for uid, nums := range want {
		if got := x.linked(x.userKey(uid)); !slices.Equal(got, nums) {
			t.Errorf("uid %d: got %v, want %v", uid, got, nums)
		}
	}
	if got := x.linked(x.linkKey(linkLabel, []byte("n"), []byte("1"))); len(got) != 200 {
		t.Errorf("the label of all finds %d", len(got))
	}
}
