package simdisk

import (
	"io"
	"io/fs"
	"slices"
	"syscall"

	"durafs/internal/vfs"
)

// handle is an open file or directory of one process.
type handle struct {
	d      *Disk
	n      *node
	name   string
	gen    int
	write  bool
	closed bool
}

func (d *Disk) handle(n *node, name string, write bool) *handle {
	n.open++
	d.handles++
	return &handle{d: d, n: n, name: name, gen: d.gen, write: write}
}

// Name implements vfs.File.
func (h *handle) Name() string { return h.name }

// begin is Disk.begin for a call on an open file; err says that it cannot be
// made at all. d.mu is held.
func (h *handle) begin(c vfs.Call) (*Fault, error) {
	if h.gen != h.d.gen {
		return nil, pathError(c, ErrKilled)
	}
	if h.closed {
		return nil, pathError(c, fs.ErrClosed)
	}
	if c.Off < 0 {
		return nil, pathError(c, syscall.EINVAL)
	}
	return h.d.begin(c), nil
}

func (h *handle) call(op vfs.Op) vfs.Call { return vfs.Call{Op: op, Name: h.name} }

// ReadAt implements vfs.File.
func (h *handle) ReadAt(p []byte, off int64) (int, error) {
	return h.read(vfs.Call{Op: vfs.OpRead, Name: h.name, Off: off, Len: int64(len(p))}, p)
}

// ReadUncachedAt implements vfs.File. As the kernel does for O_DIRECT, what is
// dirty is written to the device first; no barrier follows.
func (h *handle) ReadUncachedAt(p []byte, off int64) (int, error) {
	return h.read(vfs.Call{Op: vfs.OpReadUncached, Name: h.name, Off: off, Len: int64(len(p))}, p)
}

func (h *handle) read(c vfs.Call, p []byte) (int, error) {
	h.d.mu.Lock()
	defer h.d.mu.Unlock()
	f, err := h.begin(c)
	if err != nil {
		return 0, err
	}
	if f != nil && !f.Done {
		p = p[:min(int64(len(p)), f.Bytes)]
	}
	from := &h.n.now
	if c.Op == vfs.OpReadUncached && h.n.astray {
		device := h.n.onDevice()
		from = &device
	}
	n := from.read(p, c.Off)
	switch {
	case h.n.unreadable(c.Off, int64(n)):
		clear(p[:n])
		return 0, pathError(c, syscall.EIO)
	case f != nil:
		return n, pathError(c, f.Err)
	case n < len(p):
		return n, io.EOF
	}
	return n, nil
}

// WriteAt implements vfs.File.
func (h *handle) WriteAt(p []byte, off int64) (int, error) {
	c := vfs.Call{Op: vfs.OpWrite, Name: h.name, Off: off, Len: int64(len(p))}
	h.d.mu.Lock()
	defer h.d.mu.Unlock()
	f, err := h.begin(c)
	if err != nil {
		return 0, err
	}
	if !h.write {
		return 0, pathError(c, syscall.EBADF)
	}
	failed, done := f.fails(c)
	if !done {
		p = p[:min(int64(len(p)), f.Bytes)]
	}
	if room := h.d.roomFor(h.n, off, int64(len(p))); room < int64(len(p)) {
		p = p[:room]
		failed = pathError(c, syscall.ENOSPC)
	}
	if len(p) == 0 {
		return 0, h.d.note(c, failed)
	}
	if !h.n.mend(off, int64(len(p))) {
		return 0, h.d.note(c, pathError(c, syscall.EIO))
	}
	h.d.used += h.n.take(off, int64(len(p)))
	if h.d.forgetful {
		h.d.arena.put(h.n.owning(), p, off)
		return len(p), failed
	}
	ch := h.d.arena.writeOf(&h.n.now, p, off, h.d.garbage || h.n.astray)
	h.d.record(c, failed, journalEntry{kind: entryWrite, node: h.n.id, change: ch})
	h.d.core.write(h.n, ch)
	return len(p), failed
}

// Truncate implements vfs.File.
func (h *handle) Truncate(size int64) error {
	c := vfs.Call{Op: vfs.OpTruncate, Name: h.name, Len: size}
	h.d.mu.Lock()
	defer h.d.mu.Unlock()
	f, err := h.begin(c)
	if err != nil {
		return err
	}
	if !h.write || size < 0 {
		return pathError(c, syscall.EINVAL)
	}
	failed, done := f.fails(c)
	if !done {
		return h.d.note(c, failed)
	}
	h.d.used -= h.n.give(size)
	h.n.bad = slices.DeleteFunc(slices.Clone(h.n.bad), func(b int64) bool { return b*BlockBytes >= size })
	ch := h.d.arena.cutOf(&h.n.now, size, h.d.garbage || h.n.astray)
	h.d.record(c, failed, journalEntry{kind: entryWrite, node: h.n.id, change: ch})
	h.d.core.write(h.n, ch)
	return failed
}

// Datasync implements vfs.File.
func (h *handle) Datasync() error {
	c := h.call(vfs.OpDatasync)
	h.d.mu.Lock()
	defer h.d.mu.Unlock()
	f, err := h.begin(c)
	if err != nil {
		return err
	}
	var kept *content
	failed, _ := f.fails(c)
	if failed != nil && f.Err == ErrKilled {
		return failed
	}
	if failed != nil {
		k := h.n.keptBy(f.Keep)
		kept = &k
	}
	h.d.record(c, failed, journalEntry{kind: entrySync, node: h.n.id, kept: kept})
	h.d.core.sync(h.n, kept)
	return failed
}

// WriteBehind implements vfs.File. It promises nothing and does nothing.
func (h *handle) WriteBehind(off, n int64) error {
	c := vfs.Call{Op: vfs.OpWriteBehind, Name: h.name, Off: off, Len: n}
	h.d.mu.Lock()
	defer h.d.mu.Unlock()
	f, err := h.begin(c)
	if err != nil {
		return err
	}
	failed, _ := f.fails(c)
	return failed
}

// Size implements vfs.File.
func (h *handle) Size() (int64, error) {
	h.d.mu.Lock()
	defer h.d.mu.Unlock()
	f, err := h.begin(h.call(vfs.OpSize))
	if err != nil {
		return 0, err
	}
	if f != nil {
		return 0, pathError(h.call(vfs.OpSize), f.Err)
	}
	return h.n.now.size, nil
}

// Close implements vfs.File. The descriptor is given back whatever it returns.
func (h *handle) Close() error { return h.close(vfs.OpClose) }

func (h *handle) close(op vfs.Op) error {
	h.d.mu.Lock()
	defer h.d.mu.Unlock()
	if h.gen != h.d.gen { // its process is gone, and so is the descriptor
		return nil
	}
	f, err := h.begin(h.call(op))
	if err != nil {
		return err
	}
	h.closed = true
	h.n.open--
	h.d.handles--
	h.d.reap(h.n)
	if f != nil && f.Err != ErrKilled {
		return pathError(h.call(op), f.Err)
	}
	return nil
}

// dir is an open directory.
type dir struct{ handle }

// Sync implements vfs.Dir.
func (h *dir) Sync() error {
	c := h.call(vfs.OpDirSync)
	h.d.mu.Lock()
	defer h.d.mu.Unlock()
	f, err := h.begin(c)
	if err != nil {
		return err
	}
	failed, _ := f.fails(c)
	if failed != nil && f.Err == ErrKilled {
		return failed
	}
	var kept []bool
	if failed != nil {
		kept = h.d.namesKeptBy(f.Keep)
	}
	h.d.record(c, failed, journalEntry{kind: entrySyncDir, node: h.n.id, keptNames: kept})
	h.d.syncDir(h.n, kept)
	return failed
}

// Close implements vfs.Dir.
func (h *dir) Close() error { return h.close(vfs.OpDirClose) }
