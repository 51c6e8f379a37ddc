package fusefs

import (
	"fmt"
	"io/fs"
	"log/slog"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/hanwen/go-fuse/v2/fuse"

	"durafs/runs"
	"durafs/view"
	"durafs/view/viewtest"
)

// kernel is a teller that writes down what it is told.
type kernel struct {
	mu    sync.Mutex
	told  []string
	reply fuse.Status
}

func (k *kernel) InodeNotify(node uint64, off, length int64) fuse.Status {
	return k.note(fmt.Sprintf("inode %#x %d %d", node, off, length))
}

func (k *kernel) EntryNotify(parent uint64, name string) fuse.Status {
	return k.note(fmt.Sprintf("entry %#x %s", parent, name))
}

func (k *kernel) note(s string) fuse.Status {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.told = append(k.told, s)
	return k.reply
}

// boot is a clock that stands still until it is moved.
type boot struct{ at time.Duration }

func (b *boot) Now() time.Time      { return time.Unix(0, int64(b.at)) }
func (b *boot) Boot() time.Duration { return b.at }

func fixture() (*viewtest.Store, *rawFS, *kernel, *boot) {
	s := viewtest.New(time.Unix(1_000_000, 0))
	clk := &boot{at: time.Hour}
	f := newRawFS(Options{View: view.New(s, nil), Log: slog.New(slog.DiscardHandler), Clock: clk})
	k := &kernel{}
	f.notify.tell = k
	f.view.Watch(f.notify.changed)
	return s, f, k, clk
}

func TestNotifierTellsOfRunsThatWereAskedAbout(t *testing.T) {
	s, f, k, clk := fixture()
	ref, other := s.Start(viewtest.ID(1)), s.Start(viewtest.ID(2))
	s.Append(ref, "nobody asked yet")
	if f.notify.drain(); len(k.told) != 0 {
		t.Errorf("nobody asked, and the kernel was told %v", k.told)
	}
	f.notify.asked(view.LogFile(ref, 0))
	for range 1000 {
		s.Append(ref, "x")
		s.Append(other, "x")
	}
	f.notify.drain()
	want := []string{
		fmt.Sprintf("inode %#x -1 0", uint64(view.RecordFile(ref))),
		fmt.Sprintf("inode %#x -1 0", uint64(view.RunDir(ref))),
	}
	if !slices.Equal(k.told, want) {
		t.Errorf("told %v, want %v", k.told, want)
	}
	k.told = nil
	clk.at += interestFor
	s.Append(ref, "long after")
	if f.notify.drain(); len(k.told) != 0 {
		t.Errorf("what the kernel forgot by itself was told: %v", k.told)
	}
	s.Settle(other, nil) // told whoever asked
	f.notify.drain()
	if !slices.Contains(k.told, fmt.Sprintf("inode %#x 0 0", uint64(view.LogFile(other, 0)))) {
		t.Errorf("the sealing is not among %v", k.told)
	}
	k.told = nil
	clk.at += interestFor
	s.Put(other, "p", runs.SourceNamed, nil) // and so is every change after it
	if f.notify.drain(); !slices.Contains(k.told, fmt.Sprintf("inode %#x -1 0", uint64(view.RunDir(other)))) {
		t.Errorf("of a change of an ended run was told %v", k.told)
	}
}

func TestNotifierTellsSharedDirectoriesOnce(t *testing.T) {
	s, f, k, _ := fixture()
	f.notify.asked(view.RunsDir)
	for i := range 100 {
		s.Start(viewtest.ID(i))
	}
	f.notify.drain()
	n := 0
	for _, told := range k.told {
		if told == fmt.Sprintf("inode %#x -1 0", uint64(view.RunsDir)) {
			n++
		}
	}
	if n != 1 {
		t.Errorf("/runs was told %d times of 100 new runs", n)
	}
}

func TestNotifierForgetsWhatIsTooMuch(t *testing.T) {
	_, f, _, _ := fixture()
	for ref := range runs.Ref(pendingMax + 10) {
		f.notify.queue(runs.Change{Ref: ref, Kinds: runs.ChangedLog})
	}
	if n := f.count.overflows.Load(); n != 10 || len(f.notify.pending) != pendingMax {
		t.Errorf("%d overflows, %d pending", n, len(f.notify.pending))
	}
	if f.notify.lossy.Load() {
		t.Error("no sealing was lost")
	}
	f.notify.queue(runs.Change{Ref: pendingMax + 11, Kinds: runs.ChangedSealed})
	log := view.Attr{Node: view.LogFile(1, 0), Sealed: true}
	if f.openFlags(log)&fuse.FOPEN_KEEP_CACHE != 0 {
		t.Error("a sealing was lost, and sealed logs are opened with what may be cached of them")
	}
}

func TestKernelWithoutNotifications(t *testing.T) {
	s, f, k, _ := fixture()
	k.reply = fuse.ENOSYS
	ref := s.Start(viewtest.ID(1))
	live := view.Attr{Node: view.RunDir(ref), Type: fs.ModeDir, Live: true}
	record := view.Attr{Node: view.RecordFile(ref)} // of an ended run
	for _, a := range []view.Attr{live, record} {
		if got := f.attrTimeout(a); got != liveTimeout {
			t.Errorf("node %#x is remembered for %v", uint64(a.Node), got)
		}
	}
	f.notify.asked(view.LogFile(ref, 0))
	s.Append(ref, "x")
	f.notify.drain()
	if len(k.told) != 1 || f.snapshot().Pushing { // the rest was not tried
		t.Errorf("refused, and told %v", k.told)
	}
	if f.attrTimeout(live) != 0 || f.entryTimeout(live) != 0 || f.attrTimeout(record) != 0 {
		t.Error("what may change is still remembered")
	}
	if f.attrTimeout(view.Attr{Node: view.PayloadFile(1, 0), Sealed: true}) != sealedTimeout {
		t.Error("a payload is not remembered any more")
	}
}

// TestNotifierServes runs the goroutine: what is changed is told soon, and
// close ends it.
func TestNotifierServes(t *testing.T) {
	s, f, k, _ := fixture()
	go f.notify.serve()
	ref := s.Start(viewtest.ID(1))
	f.notify.asked(view.RunDir(ref))
	s.Append(ref, "x")
	told := func() int {
		k.mu.Lock()
		defer k.mu.Unlock()
		return len(k.told)
	}
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for n := 0; told() == 0; n++ {
		if n > 5000 {
			t.Fatal("nothing is told")
		}
		<-tick.C
	}
	f.notify.close()
}

// TestGrowingFilesAreNotRemembered: a size that is older than what was read
// looks like a truncation.
func TestGrowingFilesAreNotRemembered(t *testing.T) {
	s, f, _, _ := fixture()
	ref := s.Start(viewtest.ID(1))
	s.Late(ref, "{}")
	for _, n := range []view.Node{view.LogFile(ref, 0), view.RecordFile(ref), view.LateFile(ref), view.StatusFile} {
		a, err := f.view.Attr(n)
		if err != nil {
			t.Fatal(err)
		}
		if got := f.attrTimeout(a); got != 0 {
			t.Errorf("node %#x is remembered for %v", uint64(n), got)
		}
	}
}
