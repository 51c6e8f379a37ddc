package fusefs

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/hanwen/go-fuse/v2/fuse"

	"durafs/internal/clock"
	"durafs/runs"
	"durafs/view"
)

// notifier tells the kernel what it remembers wrongly.
//
// The log's committer says what changed (changed), which costs it a map
// entry at most; one goroutine (serve) takes all that came together and tells
// the kernel what that may remember. It holds no lock while it
// does: dropping pages waits for the reads that are under way, and so for
// handlers, which must not wait for it.
type notifier struct {
	fs    *rawFS
	clock clock.Clock
	// tell is the connection to the kernel; set before serve runs.
	tell teller

	refused atomic.Bool // the kernel takes no notifications
	lossy   atomic.Bool // a sealing was not told

	interest interest
	wake     chan struct{} // capacity 1
	stop     chan struct{}
	done     chan struct{}

	mu      sync.Mutex
	pending map[runs.Ref]pending
}

// pending is what of a run waits to be told.
type pending struct {
	kinds   runs.ChangeKinds
	deleted []runs.Deleted // at most deletedMax
}

// teller is what of *fuse.Server the notifier needs.
type teller interface {
	InodeNotify(node uint64, off, length int64) fuse.Status
	EntryNotify(parent uint64, name string) fuse.Status
}

// pendingMax bounds the runs whose changes wait to be told. Beyond it what got
// stale is right again after liveTimeout by itself.
const pendingMax = 1 << 16

// deletedMax bounds the deleted payloads of a run that wait to be told. Beyond
// it a name may be remembered that cannot be opened any more.
const deletedMax = 256

// notifyPause is how long changes gather before they are told.
const notifyPause = 5 * time.Millisecond

func (n *notifier) init(f *rawFS, c clock.Clock) {
	n.fs, n.clock = f, c
	n.wake, n.stop, n.done = make(chan struct{}, 1), make(chan struct{}), make(chan struct{})
	n.pending = make(map[runs.Ref]pending)
}

// changed is called by the log's committer, after each barrier. What is
// frequent, rows, it leaves out at once where nobody looks.
func (n *notifier) changed(changes []runs.Change) {
	now := n.clock.Boot()
	queued := false
	for _, c := range changes {
		if c.Kinds != runs.ChangedLog || n.interest.recent(c.Ref, now) {
			n.queue(c)
			queued = true
		}
	}
	if !queued {
		return
	}
	select {
	case n.wake <- struct{}{}:
	default: // it has been woken already
	}
}

// worth tells whether the kernel can remember anything that c made stale: of a
// run that goes on what was asked lately, of one that ended what was asked at
// any time.
func (n *notifier) worth(c runs.Change, now time.Duration) bool {
	const always = runs.ChangedSealed | runs.ChangedLate | runs.ChangedDeleted
	if c.Kinds&always != 0 || n.interest.recent(c.Ref, now) {
		return true
	}
	if c.Kinds&runs.ChangedAdmitted != 0 && n.interest.recent(0, now) {
		return true
	}
	r, ok := n.fs.view.Run(c.Ref)
	return ok && r.Sealed()
}

func (n *notifier) queue(c runs.Change) {
	n.mu.Lock()
	defer n.mu.Unlock()
	was, ok := n.pending[c.Ref]
	if !ok && len(n.pending) >= pendingMax {
		n.fs.count.overflows.Add(1)
		if c.Kinds&runs.ChangedSealed != 0 {
			n.lossy.Store(true)
		}
		return
	}
	was.kinds |= c.Kinds
	room := deletedMax - len(was.deleted)
	if len(c.Deleted) > room {
		n.fs.count.overflows.Add(1)
	}
	was.deleted = append(was.deleted, c.Deleted[:min(room, len(c.Deleted))]...)
	n.pending[c.Ref] = was
}

// serve tells the kernel until close is called.
func (n *notifier) serve() {
	defer close(n.done)
	pause := time.NewTimer(0)
	defer pause.Stop()
	for {
		select {
		case <-n.stop:
			return
		case <-n.wake:
		}
		n.drain()
		pause.Reset(notifyPause)
		select {
		case <-n.stop:
			return
		case <-pause.C:
		}
	}
}

func (n *notifier) close() {
	close(n.stop)
	<-n.done
}

// drain tells all that is pending. Directories that many runs share are told
// once.
func (n *notifier) drain() {
	n.mu.Lock()
	changes := n.pending
	n.pending = make(map[runs.Ref]pending)
	n.mu.Unlock()

	now := n.clock.Boot()
	shared := make(map[view.Node]struct{})
	for ref, p := range changes {
		c := runs.Change{Ref: ref, Kinds: p.kinds, Deleted: p.deleted}
		if !n.worth(c, now) {
			continue
		}
		n.fs.view.Effects(c, func(e view.Effect) {
			if _, own := e.Node.Run(); !own && e.What == view.StaleAttr {
				shared[e.Node] = struct{}{}
				return
			}
			n.push(e)
		})
	}
	for node := range shared {
		n.push(view.Effect{What: view.StaleAttr, Node: node})
	}
}

func (n *notifier) push(e view.Effect) {
	grows := e.What == view.StaleAttr && e.Node.Kind() == view.KindLog
	if n.refused.Load() || grows { // a growing log's size is never remembered
		return
	}
	n.fs.count.notifications.Add(1)
	var st fuse.Status
	switch e.What {
	case view.StaleAttr:
		st = n.tell.InodeNotify(uint64(e.Node), -1, 0)
	case view.StaleData:
		st = n.tell.InodeNotify(uint64(e.Node), 0, 0)
	case view.StaleName:
		st = n.tell.EntryNotify(uint64(e.Node), e.Name)
	}
	// ENOENT: the kernel does not know the node, so it remembers nothing.
	if st == fuse.ENOSYS && !n.refused.Swap(true) {
		n.lossy.Store(true)
		n.fs.log.Warn("mount: the kernel takes no notifications; what is live will be asked for each time")
	}
}

// asked notes that the kernel is about to be told about a node, so that
// changes of it are worth telling. It reports whether that was not known yet.
// It comes before the answer is computed: a change after it finds the mark.
func (n *notifier) asked(node view.Node) bool {
	ref, _ := node.Run()
	return n.interest.mark(ref, n.clock.Boot())
}
