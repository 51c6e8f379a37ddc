package cas

import (
	"container/list"
	"sync"

	"durafs/internal/vfs"
)

// fileCache keeps the files of packs open: at most max, unless more are in use
// at one time. A file is never closed while someone uses it.
type fileCache struct {
	fs  vfs.FS
	max int

	mu     sync.Mutex
	open   map[uint32]*handle
	idle   *list.List // handles without a user, the longest idle in front
	closed bool
}

// handle is an open file of a pack. It may be used between acquire and
// release.
type handle struct {
	p *pack
	f vfs.File

	// fileCache.mu guards these.
	users int
	gone  bool          // not in open any more; the last user closes
	elem  *list.Element // in idle

	index sync.Once // guards the two below: see lookup.go
	foot  trailer
	walk  []entry // sorted; set where there is no sound footer
}

func newFileCache(fsys vfs.FS, max int) *fileCache {
	return &fileCache{fs: fsys, max: max, open: make(map[uint32]*handle), idle: list.New()}
}

// acquire returns the pack's file, opened for reading if it is not open yet.
func (c *fileCache) acquire(p *pack) (*handle, error) {
	if h, err := c.use(p.seq, nil); h != nil || err != nil {
		return h, err
	}
	f, err := c.openPack(p)
	if err != nil {
		return nil, err
	}
	return c.use(p.seq, &handle{p: p, f: f})
}

// openPack opens the file under the name it has at this time: p.mu is held so
// that the sealer cannot rename it in between.
func (c *fileCache) openPack(p *pack) (vfs.File, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return c.fs.Open(p.name)
}

// use takes the open handle of seq, or puts fresh there and takes that.
func (c *fileCache) use(seq uint32, fresh *handle) (*handle, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		if fresh != nil {
			fresh.f.Close()
		}
		return nil, ErrClosed
	}
	h := c.open[seq]
	switch {
	case h != nil && fresh != nil: // another was quicker
		fresh.f.Close()
	case h == nil && fresh == nil:
		return nil, nil
	case h == nil:
		h = fresh
		c.open[seq] = h
	}
	if h.elem != nil {
		c.idle.Remove(h.elem)
		h.elem = nil
	}
	h.users++
	c.evict()
	return h, nil
}

func (c *fileCache) release(h *handle) {
	c.mu.Lock()
	defer c.mu.Unlock()
	h.users--
	switch {
	case h.users > 0:
	case h.gone:
		h.f.Close()
	default:
		h.elem = c.idle.PushBack(h)
		c.evict()
	}
}

// evict closes idle files above max. The caller holds mu.
func (c *fileCache) evict() {
	for len(c.open) > c.max && c.idle.Len() > 0 {
		c.forget(c.idle.Front().Value.(*handle))
	}
}

// forget takes h out; its file is closed now or by its last user. The caller
// holds mu.
func (c *fileCache) forget(h *handle) {
	delete(c.open, h.p.seq)
	h.gone = true
	if h.elem != nil {
		c.idle.Remove(h.elem)
		h.elem = nil
	}
	if h.users == 0 {
		h.f.Close()
	}
}

// drop closes the pack's file when its last user is done.
func (c *fileCache) drop(p *pack) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if h := c.open[p.seq]; h != nil {
		c.forget(h)
	}
}

func (c *fileCache) close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.closed = true
	for _, h := range c.open {
		c.forget(h)
	}
}
