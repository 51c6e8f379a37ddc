package fusefs

import (
	"log/slog"
	"runtime/debug"
	"syscall"

	"github.com/hanwen/go-fuse/v2/fuse"

	"durafs/internal/clock"
	"durafs/view"
)

// rawFS answers the kernel. Every method may be called concurrently. Methods
// that would change something are in readonly.go, files in file.go,
// directories in dir.go.
type rawFS struct {
	fuse.RawFileSystem // ENOSYS for what is neither

	view    *view.View
	owner   owner
	space   func() (Space, error)
	log     *slog.Logger
	handles handles
	notify  notifier
	count   counters
}

func newRawFS(o Options) *rawFS {
	f := &rawFS{
		RawFileSystem: fuse.NewDefaultRawFileSystem(),
		view:          o.View, owner: newOwner(o), space: o.Space, log: o.Log,
	}
	f.notify.init(f, o.Clock)
	return f
}

func (f *rawFS) String() string { return "durafs" }

// fail makes an error the status of an answer. EIO is said in the log, with
// its reason, since whoever meets it sees a number only.
func (f *rawFS) fail(op string, n uint64, err error) fuse.Status {
	e := errno(err)
	if e == syscall.EIO {
		f.count.failures.Add(1)
		f.log.Error("mount: "+op+" failed", "node", n, "err", err)
	}
	return fuse.Status(e)
}

// panicked is called by go-fuse for a handler that panicked.
func (f *rawFS) panicked(v any) fuse.Status {
	f.count.panics.Add(1)
	f.count.failures.Add(1)
	f.log.Error("mount: a handler panicked", "panic", v, "stack", string(debug.Stack()))
	return fuse.EIO
}

func (f *rawFS) Lookup(_ <-chan struct{}, h *fuse.InHeader, name string, out *fuse.EntryOut) fuse.Status {
	f.count.requests.Add(1)
	dir := view.Node(h.NodeId)
	f.notify.asked(dir)
	a, err := f.view.Lookup(dir, name)
	switch {
	case err == nil:
		// What is live is marked as asked for and then read once more: a
		// change from here on finds the mark.
		if a.Live && f.notify.asked(a.Node) {
			a, err = f.view.Attr(a.Node)
		}
	case err == view.ErrNotExist && view.NegativeName(dir, name) && !f.notify.refused.Load():
		out.SetEntryTimeout(liveTimeout) // and NodeId 0: there is none
		return fuse.OK
	}
	if err != nil {
		return f.fail("lookup", h.NodeId, err)
	}
	f.fillEntry(a, out)
	return fuse.OK
}

// Forget has nothing to forget: nodes are computed.
func (f *rawFS) Forget(nodeid, nlookup uint64) {}

func (f *rawFS) GetAttr(_ <-chan struct{}, in *fuse.GetAttrIn, out *fuse.AttrOut) fuse.Status {
	f.count.requests.Add(1)
	n := view.Node(in.NodeId)
	f.notify.asked(n)
	a, err := f.attr(in, n)
	if err != nil {
		return f.fail("getattr", in.NodeId, err)
	}
	out.SetTimeout(f.attrTimeout(a))
	f.owner.fill(a, &out.Attr)
	return fuse.OK
}

// attr answers who holds a moment open with the size of that moment.
func (f *rawFS) attr(in *fuse.GetAttrIn, n view.Node) (view.Attr, error) {
	if in.Flags()&fuse.FUSE_GETATTR_FH != 0 {
		if h, ok := f.handles.get(in.Fh()); ok {
			return f.view.AttrOf(n, h)
		}
	}
	return f.view.Attr(n)
}

func (f *rawFS) Readlink(_ <-chan struct{}, h *fuse.InHeader) ([]byte, fuse.Status) {
	f.count.requests.Add(1)
	target, err := f.view.Readlink(view.Node(h.NodeId))
	if err != nil {
		return nil, f.fail("readlink", h.NodeId, err)
	}
	return []byte(target), fuse.OK
}

func (f *rawFS) StatFs(_ <-chan struct{}, h *fuse.InHeader, out *fuse.StatfsOut) fuse.Status {
	f.count.requests.Add(1)
	*out = fuse.StatfsOut{Bsize: statfsBlockBytes, Frsize: statfsBlockBytes, NameLen: view.NameBytesMax}
	if f.space == nil {
		return fuse.OK
	}
	s, err := f.space()
	if err != nil {
		return f.fail("statfs", h.NodeId, err)
	}
	out.Blocks = uint64(max(s.SizeBytes, 0)) / statfsBlockBytes
	out.Bfree = uint64(max(s.FreeBytes, 0)) / statfsBlockBytes
	out.Bavail = out.Bfree
	if s.Inodes >= 0 { // else df would compute a negative number of used ones
		out.Files, out.Ffree = uint64(s.Inodes), uint64(max(s.FreeInodes, 0))
	}
	return fuse.OK
}

const statfsBlockBytes = 4096

func (f *rawFS) snapshot() Stats {
	return Stats{
		Requests: f.count.requests.Load(), Failures: f.count.failures.Load(),
		Panics: f.count.panics.Load(), Handles: f.handles.len(),
		Notifications: f.count.notifications.Load(), Overflows: f.count.overflows.Load(),
		Pushing: !f.notify.refused.Load(),
	}
}

func defaults(o Options) Options {
	if o.Log == nil {
		o.Log = slog.Default()
	}
	if o.Clock == nil {
		o.Clock = clock.System
	}
	return o
}
