package fusefs

import (
	"github.com/hanwen/go-fuse/v2/fuse"

	"durafs/view"
)

// OpenDir holds nothing: a listing goes on from its cookie alone.
func (f *rawFS) OpenDir(_ <-chan struct{}, in *fuse.OpenIn, _ *fuse.OpenOut) fuse.Status {
	f.count.requests.Add(1)
	if _, err := f.view.Attr(view.Node(in.NodeId)); err != nil {
		return f.fail("opendir", in.NodeId, err)
	}
	return fuse.OK
}

func (f *rawFS) ReleaseDir(*fuse.ReleaseIn) {}

func (f *rawFS) ReadDir(_ <-chan struct{}, in *fuse.ReadIn, out *fuse.DirEntryList) fuse.Status {
	return f.list(in, out, false)
}

func (f *rawFS) ReadDirPlus(_ <-chan struct{}, in *fuse.ReadIn, out *fuse.DirEntryList) fuse.Status {
	return f.list(in, out, true)
}

// list fills out with the entries behind the cookie in.Offset. With plus each
// has the answer to the LOOKUP that would follow.
func (f *rawFS) list(in *fuse.ReadIn, out *fuse.DirEntryList, plus bool) fuse.Status {
	f.count.requests.Add(1)
	dir := view.Node(in.NodeId)
	f.notify.asked(dir)
	for _, dot := range []dirEntry{
		{view.CookieDot, ".", dir}, {view.CookieDotDot, "..", f.view.Parent(dir)},
	} {
		if view.Cookie(in.Offset) < dot.cookie && !add(out, dot, plus, nil) {
			return fuse.OK
		}
	}
	err := f.view.ReadDir(dir, view.Cookie(in.Offset), plus, func(e view.Entry) bool {
		if plus && e.Attr.Live {
			f.notify.asked(e.Node)
		}
		return add(out, dirEntry{e.Cookie, e.Name, e.Node}, plus, func(o *fuse.EntryOut) {
			if e.Attr.Node != 0 { // else the kernel looks it up, and gets the reason
				f.fillEntry(e.Attr, o)
			}
		})
	})
	if err != nil {
		return f.fail("readdir", in.NodeId, err)
	}
	return fuse.OK
}

type dirEntry struct {
	cookie view.Cookie
	name   string
	node   view.Node
}

// add reports whether there was room for one more. The kernel counts no lookup
// for an entry whose fill leaves the node id 0, nor for the dots.
func add(out *fuse.DirEntryList, e dirEntry, plus bool, fill func(*fuse.EntryOut)) bool {
	d := fuse.DirEntry{Name: e.name, Ino: uint64(e.node), Off: uint64(e.cookie), Mode: typeBits(e.node)}
	if !plus {
		return out.AddDirEntry(d)
	}
	entry := out.AddDirLookupEntry(d)
	if entry != nil && fill != nil {
		fill(entry)
	}
	return entry != nil
}

func typeBits(n view.Node) uint32 { return owner{}.mode(n.Type()) }
