package view

import (
	"bytes"
	"io"

	"durafs/runs"
)

// Handle is an open file. It needs no closing and may be used concurrently.
//
// ReadAt fills p, or gets to the end of the file (io.EOF), or fails: an error
// other than io.EOF means that nothing of p is to be believed.
type Handle interface {
	io.ReaderAt
	// Size is the size now. It grows for a log, and is fixed for the rest.
	Size() int64
}

// Open opens a file. It is seen as of this moment for as long as the handle is
// held, but for a log, and late writes, which grow under it by whole rows.
func (v *View) Open(n Node) (Handle, error) {
	if n.Type()&modeDir != 0 {
		return nil, ErrIsDir
	}
	switch n.Kind() {
	case KindFixed:
		return v.openFixed(n)
	case KindThread:
		if n.threadFile() > threadJSON {
			return nil, ErrNotExist
		}
		return opened(v.threadFile(n))
	}
	r, err := v.info(n)
	if err != nil {
		return nil, err
	}
	switch {
	case n == RecordFile(r.Ref):
		text, err := v.record(r.Ref)
		return bytes.NewReader(text), err
	case n == HistoryFile(r.Ref):
		return opened(v.history(r))
	case n.Kind() == KindTool && n == ToolFile(r.Ref, n.file()):
		text, err := v.call(r, n.file())
		return bytes.NewReader(text), err
	case n == LateFile(r.Ref) && r.LateBytes > 0:
		return &growing{size: v.lateBytes(r.Ref), read: v.src.ReadLateAt, ref: r.Ref, replaced: func() bool { return false }}, nil
	case n.Kind() == KindLog:
		if _, err := logAttr(Attr{Node: n}, r); err != nil {
			return nil, err
		}
		return &growing{size: v.logBytes(r), read: v.src.ReadLogAt, ref: r.Ref, replaced: func() bool {
			now, ok := v.src.Info(r.Ref)
			return !ok || now.Generation != r.Generation
		}}, nil
	case n.Kind() == KindPayload:
		return v.openPayload(n, r)
	}
	return nil, ErrNotExist
}

// opened keeps a nil pointer from becoming a handle.
func opened(r *rendered, err error) (Handle, error) {
	if err != nil {
		return nil, err
	}
	return r, nil
}

// openFixed opens the status or a journal.
func (v *View) openFixed(n Node) (Handle, error) {
	if n == StatusFile {
		return bytes.NewReader(v.status()), nil
	}
	t, err := v.target(n)
	if err != nil {
		return nil, err
	}
	text, err := v.journal(t)
	return bytes.NewReader(text), err
}

func (v *View) openPayload(n Node, r runs.Run) (Handle, error) {
	p, err := v.payloadByOrdinal(r, n.file())
	if err != nil {
		return nil, err
	}
	f, err := v.src.OpenPayload(r.Ref, p.Name)
	if err != nil {
		return nil, err
	}
	return &whole{ReaderAt: f, size: p.Bytes}, nil
}

// record is the text of the file record.
func (v *View) record(ref runs.Ref) ([]byte, error) {
	rec, err := v.src.Record(ref)
	if err != nil {
		return nil, err
	}
	return indented(rec)
}

// growing is a file that gets longer: what it had stays as it was.
type growing struct {
	size func() int64
	read func(runs.Ref, []byte, int64) (int, error)
	ref  runs.Ref
	// replaced tells that read gives the bytes of another file by now.
	replaced func() bool
}

func (g *growing) Size() int64 { return g.size() }

func (g *growing) ReadAt(p []byte, off int64) (int, error) {
	n, err := readFull(p, off, g.size(), func(p []byte, off int64) (int, error) { return g.read(g.ref, p, off) })
	if n > 0 && g.replaced() {
		return 0, ErrStale
	}
	return n, err
}

// logBytes tells the size of r's log, which stays what it was once another
// generation has taken its place.
func (v *View) logBytes(r runs.Run) func() int64 {
	return func() int64 {
		if now, ok := v.src.Info(r.Ref); ok && now.Generation == r.Generation {
			return now.LogBytes
		}
		return r.LogBytes
	}
}

func (v *View) lateBytes(ref runs.Ref) func() int64 {
	return func() int64 {
		r, _ := v.src.Info(ref)
		return r.LateBytes
	}
}

// whole is a file of a size that was told before it was opened.
type whole struct {
	io.ReaderAt
	size int64
}

func (w *whole) Size() int64 { return w.size }

func (w *whole) ReadAt(p []byte, off int64) (int, error) {
	return readFull(p, off, w.size, w.ReaderAt.ReadAt)
}

// readFull reads what p asks for up to size, all of it or nothing: a short
// answer in the middle would be taken for the end of the file.
func readFull(p []byte, off, size int64, read func([]byte, int64) (int, error)) (int, error) {
	if off >= size {
		return 0, io.EOF
	}
	want := p[:min(int64(len(p)), size-off)]
	for got := 0; got < len(want); {
		n, err := read(want[got:], off+int64(got))
		got += n
		if err != nil && (err != io.EOF || got < len(want)) {
			return 0, unexpected(err)
		}
		if n == 0 && err == nil {
			return 0, io.ErrNoProgress
		}
	}
	if len(want) < len(p) {
		return len(want), io.EOF
	}
	return len(want), nil
}

func unexpected(err error) error {
	if err == io.EOF {
		return io.ErrUnexpectedEOF
	}
	return err
}
