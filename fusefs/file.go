package fusefs

import (
	"io"
	"syscall"

	"github.com/hanwen/go-fuse/v2/fuse"

	"durafs/view"
)

func (f *rawFS) Open(_ <-chan struct{}, in *fuse.OpenIn, out *fuse.OpenOut) fuse.Status {
	f.count.requests.Add(1)
	if in.Flags&syscall.O_ACCMODE != syscall.O_RDONLY || in.Flags&syscall.O_TRUNC != 0 {
		return fuse.EROFS
	}
	n := view.Node(in.NodeId)
	a, err := f.view.Attr(n)
	if err != nil {
		return f.fail("open", in.NodeId, err)
	}
	h, err := f.view.Open(n)
	if err == nil && n.Kind() != view.KindLog {
		out.Fh, err = f.handles.add(h, moment(n, h))
	}
	if err != nil {
		return f.fail("open", in.NodeId, err)
	}
	out.OpenFlags = f.openFlags(a)
	return fuse.OK
}

// moment is how many bytes of memory an open file holds.
func moment(n view.Node, h view.Handle) int64 {
	if n.Kind() == view.KindPayload {
		return 0 // it is read from the store
	}
	if r, ok := h.(interface{ HeldBytes() int64 }); ok {
		return r.HeldBytes() // it is made anew for each read
	}
	return h.Size()
}

// openFlags lets the kernel keep in its page cache what never changes again,
// and nothing else. Nobody needs a FLUSH at closing.
func (f *rawFS) openFlags(a view.Attr) uint32 {
	switch {
	case !a.Sealed:
		return fuse.FOPEN_DIRECT_IO | fuse.FOPEN_NOFLUSH
	case a.Node.Kind() == view.KindLog && f.notify.lossy.Load():
		// A log that was spliced while it grew may have left zeros in the
		// page cache, and nobody told the kernel to drop them at its sealing:
		// this open does.
		return fuse.FOPEN_NOFLUSH
	}
	return fuse.FOPEN_KEEP_CACHE | fuse.FOPEN_NOFLUSH
}

func (f *rawFS) Read(_ <-chan struct{}, in *fuse.ReadIn, buf []byte) (fuse.ReadResult, fuse.Status) {
	f.count.requests.Add(1)
	h, err := f.handle(in.Fh, view.Node(in.NodeId))
	if err != nil {
		return nil, f.fail("read", in.NodeId, err)
	}
	got, err := h.ReadAt(buf[:min(len(buf), int(in.Size))], int64(in.Offset))
	if err != nil && err != io.EOF {
		return nil, f.fail("read", in.NodeId, err)
	}
	return fuse.ReadResultData(buf[:got]), fuse.OK
}

// handle is the open file fh, or the node's content of now.
func (f *rawFS) handle(fh uint64, n view.Node) (view.Handle, error) {
	if h, ok := f.handles.get(fh); ok {
		return h, nil
	}
	return f.view.Open(n)
}

func (f *rawFS) Release(_ <-chan struct{}, in *fuse.ReleaseIn) { f.handles.drop(in.Fh) }

// Lseek is asked for data and holes only. There are no holes, but for the one
// that every file has at its end.
func (f *rawFS) Lseek(_ <-chan struct{}, in *fuse.LseekIn, out *fuse.LseekOut) fuse.Status {
	f.count.requests.Add(1)
	h, err := f.handle(in.Fh, view.Node(in.NodeId))
	if err != nil {
		return f.fail("lseek", in.NodeId, err)
	}
	size := uint64(h.Size())
	switch {
	case in.Whence != seekData && in.Whence != seekHole:
		return fuse.EINVAL
	case in.Offset >= size:
		return fuse.Status(syscall.ENXIO)
	case in.Whence == seekData:
		out.Offset = in.Offset
	default:
		out.Offset = size
	}
	return fuse.OK
}

const (
	seekData = 3
	seekHole = 4
)

// Flush and Fsync have nothing to do. ENOSYS says so once for the whole mount,
// and the calls succeed without asking again.
func (f *rawFS) Flush(<-chan struct{}, *fuse.FlushIn) fuse.Status    { return fuse.ENOSYS }
func (f *rawFS) Fsync(<-chan struct{}, *fuse.FsyncIn) fuse.Status    { return fuse.ENOSYS }
func (f *rawFS) FsyncDir(<-chan struct{}, *fuse.FsyncIn) fuse.Status { return fuse.ENOSYS }
