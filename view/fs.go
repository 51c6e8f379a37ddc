package view

import (
	"errors"
	"io"
	"io/fs"
	"path"
	"slices"
	"strings"
	"time"

	"durafs/runs"
)

// FS is the tree as io/fs sees it: of the runs that there were when it was
// made, each file as of the moment of its opening. It implements ReadDirFS,
// StatFS and ReadLinkFS, and may be used concurrently.
type FS struct {
	v      *View
	newest runs.Ref
}

var (
	_ fs.ReadDirFS  = (*FS)(nil)
	_ fs.StatFS     = (*FS)(nil)
	_ fs.ReadLinkFS = (*FS)(nil)
)

// FS takes a snapshot: runs admitted later are not in it.
func (v *View) FS() *FS { return &FS{v: v, newest: v.src.Newest()} }

// Open opens a file or directory, following links.
func (f *FS) Open(name string) (fs.File, error) {
	a, err := f.walk("open", name, true)
	if err != nil {
		return nil, err
	}
	info := fileInfo{path.Base(name), a}
	if a.Type.IsDir() {
		return &openDir{fs: f, info: info, name: name}, nil
	}
	h, err := f.v.Open(a.Node)
	if err != nil {
		return nil, pathError("open", name, err)
	}
	info.Attr.Size = h.Size()
	return &openFile{info: info, SectionReader: io.NewSectionReader(h, 0, info.Attr.Size)}, nil
}

// Stat tells about a file or directory, following links.
func (f *FS) Stat(name string) (fs.FileInfo, error) { return f.stat("stat", name, true) }

// Lstat tells about a file, directory or link.
func (f *FS) Lstat(name string) (fs.FileInfo, error) { return f.stat("lstat", name, false) }

func (f *FS) stat(op, name string, follow bool) (fs.FileInfo, error) {
	a, err := f.walk(op, name, follow)
	if err != nil {
		return nil, err
	}
	return fileInfo{path.Base(name), a}, nil
}

// ReadLink tells where a link points to.
func (f *FS) ReadLink(name string) (string, error) {
	a, err := f.walk("readlink", name, false)
	if err != nil {
		return "", err
	}
	target, err := f.v.Readlink(a.Node)
	if err != nil {
		return "", pathError("readlink", name, fs.ErrInvalid)
	}
	return target, nil
}

// ReadDir lists a directory, sorted by name.
func (f *FS) ReadDir(name string) ([]fs.DirEntry, error) {
	a, err := f.walk("readdir", name, true)
	if err != nil {
		return nil, err
	}
	var list []fs.DirEntry
	err = f.v.ReadDir(a.Node, 0, true, func(e Entry) bool {
		if f.has(e.Node) {
			list = append(list, dirEntry{f.v, e})
		}
		return true
	})
	if err != nil {
		return nil, pathError("readdir", name, err)
	}
	slices.SortFunc(list, func(a, b fs.DirEntry) int { return strings.Compare(a.Name(), b.Name()) })
	return list, nil
}

// has tells whether a node is in the snapshot.
func (f *FS) has(n Node) bool {
	if n.Kind() == KindGroup {
		refs, _ := f.v.grouped(n)
		return len(refs) > 0 && refs[0] <= f.newest
	}
	ref, ok := n.Run()
	return !ok || ref <= f.newest
}

// walk finds the node of a path. Links on the way are followed, at its end if
// follow is set; each of them leads to a run's directory.
func (f *FS) walk(op, name string, follow bool) (Attr, error) {
	if !fs.ValidPath(name) {
		return Attr{}, pathError(op, name, fs.ErrInvalid)
	}
	a, err := f.v.Attr(Root)
	for rest := name; err == nil && rest != "" && name != "."; {
		var elem string
		elem, rest, _ = strings.Cut(rest, "/")
		a, err = f.v.Lookup(a.Node, elem)
		if err == nil && !f.has(a.Node) {
			err = ErrNotExist
		}
		if err == nil && a.Type == fs.ModeSymlink && (follow || rest != "") {
			a, err = f.v.Attr(RunDir(a.Node.run()))
		}
	}
	if err != nil {
		return Attr{}, pathError(op, name, err)
	}
	return a, nil
}

func pathError(op, name string, err error) error {
	if errors.Is(err, ErrNotExist) || errors.Is(err, ErrNotDir) || errors.Is(err, ErrStale) || errors.Is(err, ErrNameTooLong) {
		err = fs.ErrNotExist
	}
	return &fs.PathError{Op: op, Path: name, Err: err}
}

type fileInfo struct {
	name string
	Attr Attr
}

func (i fileInfo) Name() string       { return i.name }
func (i fileInfo) Size() int64        { return i.Attr.Size }
func (i fileInfo) Mode() fs.FileMode  { return i.Attr.Mode() }
func (i fileInfo) ModTime() time.Time { return i.Attr.mtime() }
func (i fileInfo) IsDir() bool        { return i.Attr.Type.IsDir() }

// Sys is the node's Attr.
func (i fileInfo) Sys() any { return i.Attr }

// dirEntry is an entry of a listing. What it was not listed with is asked for
// when somebody wants it.
type dirEntry struct {
	v *View
	e Entry
}

func (d dirEntry) Name() string      { return d.e.Name }
func (d dirEntry) IsDir() bool       { return d.e.Node.Type().IsDir() }
func (d dirEntry) Type() fs.FileMode { return d.e.Node.Type() }
func (d dirEntry) String() string    { return fs.FormatDirEntry(d) }

func (d dirEntry) Info() (fs.FileInfo, error) {
	a := d.e.Attr
	if a.Node == 0 {
		var err error
		if a, err = d.v.Attr(d.e.Node); err != nil {
			return nil, pathError("stat", d.e.Name, err)
		}
	}
	return fileInfo{d.e.Name, a}, nil
}

// openFile is an open file; Read, Seek and ReadAt are the section's.
type openFile struct {
	*io.SectionReader
	info fileInfo
}

func (f *openFile) Stat() (fs.FileInfo, error) { return f.info, nil }
func (f *openFile) Close() error               { return nil }

// openDir is an open directory; it is listed when its first entry is read.
type openDir struct {
	fs     *FS
	name   string
	info   fileInfo
	listed bool
	rest   []fs.DirEntry
}

func (d *openDir) Stat() (fs.FileInfo, error) { return d.info, nil }
func (d *openDir) Close() error               { return nil }

func (d *openDir) Read([]byte) (int, error) { return 0, pathError("read", d.name, ErrIsDir) }

func (d *openDir) ReadDir(n int) ([]fs.DirEntry, error) {
	if !d.listed {
		list, err := d.fs.ReadDir(d.name)
		if err != nil {
			return nil, err
		}
		d.rest, d.listed = list, true
	}
	if n > 0 && len(d.rest) == 0 {
		return nil, io.EOF
	}
	if n <= 0 || n > len(d.rest) {
		n = len(d.rest)
	}
	list := d.rest[:n:n]
	d.rest = d.rest[n:]
	return list, nil
}
