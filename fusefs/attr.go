package fusefs

import (
	"io/fs"
	"syscall"
	"time"

	"github.com/hanwen/go-fuse/v2/fuse"

	"durafs/view"
)

// owner is who owns the files and what they may.
type owner struct {
	uid, gid          uint32
	dirPerm, filePerm uint32
}

func newOwner(o Options) owner {
	w := owner{uid: uint32(syscall.Geteuid()), gid: uint32(syscall.Getegid())}
	if o.UID != nil {
		w.uid = *o.UID
	}
	if o.GID != nil {
		w.gid = *o.GID
	}
	w.dirPerm = uint32(o.Mode.Perm()) &^ 0o222
	if w.dirPerm == 0 {
		w.dirPerm = 0o500
	}
	w.filePerm = w.dirPerm &^ 0o111
	return w
}

// fill writes a's attributes as the kernel takes them.
func (w owner) fill(a view.Attr, out *fuse.Attr) {
	*out = fuse.Attr{
		Ino: uint64(a.Node),
		// Blocks are of 512 bytes whatever the block size is, and too few of
		// them make copying programs look for holes.
		Size: uint64(a.Size), Blocks: uint64(a.Size+511) / 512, Blksize: blockBytes,
		Mode:  w.mode(a.Type),
		Nlink: 1, // also of a directory: it tells find to count no children
		Owner: fuse.Owner{Uid: w.uid, Gid: w.gid},
	}
	if t := a.Mtime; t.Unix() > 0 {
		s, ns := uint64(t.Unix()), uint32(t.Nanosecond())
		out.Mtime, out.Mtimensec = s, ns
		out.Ctime, out.Ctimensec = s, ns
		out.Atime, out.Atimensec = s, ns
	}
}

func (w owner) mode(t fs.FileMode) uint32 {
	switch t {
	case fs.ModeDir:
		return syscall.S_IFDIR | w.dirPerm
	case fs.ModeSymlink:
		return syscall.S_IFLNK | 0o777
	}
	return syscall.S_IFREG | w.filePerm
}

// blockBytes is the size that programs are advised to read in.
const blockBytes = 128 << 10

// attrTimeout is how long the kernel may remember a's attributes.
//
// Of a file that grows, not at all: its readers get what there is at the time,
// past any size that was remembered, and a program that has read 20 bytes and
// is then told a size of 10 believes that the file was truncated (tail -f
// begins again at the start).
func (f *rawFS) attrTimeout(a view.Attr) time.Duration {
	file := a.Type == 0
	switch {
	case a.Sealed, !file && !a.Live:
		return sealedTimeout
	case file && a.Live, f.notify.refused.Load():
		return 0
	}
	return liveTimeout
}

// entryTimeout is how long it may remember what a name means. Names do not
// move, but for a log's, and then the old node answers ESTALE, at which the
// kernel looks the name up again; and for a link's in the directory of a phase.
func (f *rawFS) entryTimeout(a view.Attr) time.Duration {
	switch {
	case a.Live && f.notify.refused.Load():
		return 0
	case a.Live && a.Node.Kind() == view.KindLink:
		return liveTimeout
	}
	return sealedTimeout
}

func (f *rawFS) fillEntry(a view.Attr, out *fuse.EntryOut) {
	out.NodeId = uint64(a.Node)
	out.SetEntryTimeout(f.entryTimeout(a))
	out.SetAttrTimeout(f.attrTimeout(a))
	f.owner.fill(a, &out.Attr)
}
