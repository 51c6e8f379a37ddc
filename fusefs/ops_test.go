package fusefs

import (
	"go/ast"
	"go/parser"
	"go/token"
	"reflect"
	"slices"
	"testing"

	"github.com/hanwen/go-fuse/v2/fuse"

	"durafs/view"
	"durafs/view/viewtest"
)

// reads are the requests that change nothing.
var reads = []string{
	"Lookup", "Forget", "GetAttr", "Readlink", "Access", "GetXAttr", "ListXAttr", "Open", "Read", "Lseek",
	"GetLk", "SetLk", "SetLkw", "Release", "Ioctl", "Flush", "Fsync", "OpenDir", "ReadDir", "ReadDirPlus",
	"ReleaseDir", "FsyncDir", "StatFs", "Statx", "String", "SetDebug", "Init", "OnUnmount",
}

// TestEveryRequestIsAReadOrRefused takes all methods that a file system of
// go-fuse has: a new version of it may bring one more way to change something.
func TestEveryRequestIsAReadOrRefused(t *testing.T) {
	_, f, _, _ := fixture()
	v := reflect.ValueOf(f)
	iface := reflect.TypeFor[fuse.RawFileSystem]()
	for i := range iface.NumMethod() {
		m := iface.Method(i)
		if slices.Contains(reads, m.Name) {
			continue
		}
		args := make([]reflect.Value, m.Type.NumIn())
		for a := range args {
			in := m.Type.In(a)
			args[a] = reflect.Zero(in)
			if in.Kind() == reflect.Pointer {
				args[a] = reflect.New(in.Elem())
			}
		}
		out := v.MethodByName(m.Name).Call(args)
		if st := out[len(out)-1].Interface(); st != fuse.EROFS {
			t.Errorf("%s answers %v, want EROFS", m.Name, st)
		}
	}
}

func TestOpenForWritingIsRefused(t *testing.T) {
	s, f, _, _ := fixture()
	ref := s.Start(viewtest.ID(1))
	for _, flags := range []uint32{1, 2, 3, 0x200, 0x401} {
		in := &fuse.OpenIn{Flags: flags}
		in.NodeId = uint64(view.LogFile(ref, 0))
		if st := f.Open(nil, in, &fuse.OpenOut{}); st != fuse.EROFS {
			t.Errorf("flags %#x: %v", flags, st)
		}
	}
}

// TestWhatTheKernelMayCache: nothing that grows is in the page cache.
func TestWhatTheKernelMayCache(t *testing.T) {
	s, f, _, _ := fixture()
	live, ended := s.Start(viewtest.ID(1)), s.Start(viewtest.ID(2))
	s.Append(live, "x")
	s.Append(ended, "x")
	s.Put(live, "p", "named", []byte("p"))
	s.Late(ended, "{}")
	s.Settle(ended, nil)
	for n, cached := range map[view.Node]bool{
		view.LogFile(live, 0): false, view.LogFile(ended, 0): true,
		view.RecordFile(live): false, view.RecordFile(ended): false,
		view.LateFile(ended): false, view.StatusFile: false, view.PayloadFile(live, 0): true,
	} {
		in, out := &fuse.OpenIn{}, &fuse.OpenOut{}
		in.NodeId = uint64(n)
		if st := f.Open(nil, in, out); st != fuse.OK {
			t.Fatal(st)
		}
		direct, keep := out.OpenFlags&fuse.FOPEN_DIRECT_IO != 0, out.OpenFlags&fuse.FOPEN_KEEP_CACHE != 0
		if direct == cached || keep != cached {
			t.Errorf("node %#x: direct %v, kept %v; want it cached: %v", uint64(n), direct, keep, cached)
		}
	}
}

func TestHandlesAreBounded(t *testing.T) {
	var h handles
	if _, err := h.add(nil, MomentBytesMax+1); err != ErrHandles {
		t.Errorf("too many bytes: %v", err)
	}
	var last uint64
	for range HandlesMax {
		fh, err := h.add(nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		last = fh
	}
	if _, err := h.add(nil, 0); err != ErrHandles {
		t.Errorf("too many files: %v", err)
	}
	h.drop(last)
	if fh, err := h.add(nil, 0); err != nil || fh == last {
		t.Errorf("after one is closed: %d, %v", fh, err)
	}
	h.drop(12345678) // of no file
}

// TestNothingTouchesTheMount: while it is mounted the daemon asks the mount
// table about it, and nothing of the mount itself.
func TestNothingTouchesTheMount(t *testing.T) {
	f, err := parser.ParseFile(token.NewFileSet(), "unmount.go", nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	ast.Inspect(f, func(n ast.Node) bool {
		if sel, ok := n.(*ast.SelectorExpr); ok {
			if pkg, ok := sel.X.(*ast.Ident); ok && pkg.Name == "os" {
				t.Errorf("unmount.go calls os.%s while the mount is there", sel.Sel.Name)
			}
		}
		return true
	})
}
