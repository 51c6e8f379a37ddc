package wal

import (
	"fmt"
	"slices"
	"sync"
	"sync/atomic"

	"durafs/internal/vfs"
	"durafs/segment"
)

// openFilesMax bounds the descriptors kept open for reading.
const openFilesMax = 64

// segFile is a segment as this process knows it.
type segFile struct {
	id   uint32
	name string
	salt uint64
	key  segment.Key
	size int64 // of the file while it is written
	// end is where the durable frames end. It grows while the segment is the
	// active one, and readers go no further.
	end atomic.Int64
	// closed is set when end will not change any more.
	closed atomic.Bool
	// last is the LSN of the last frame; the writer sets it before closed.
	last uint64
	// footer is set when the segment is sealed and its footer can be used.
	footer atomic.Pointer[segment.Footer]

	// Guarded by files.mu.
	f    vfs.File
	refs int
	used uint64
	gone bool // dropped: nobody opens it again
	lent bool // see Lend
}

func newSegFile(e segEntry) *segFile {
	s := &segFile{id: e.ID, name: segmentName(e.ID), salt: e.Salt, key: segment.NewKey(e.Salt), size: e.Size, last: e.Last}
	s.end.Store(segment.HeaderBytes)
	if e.State != segLive {
		s.end.Store(e.End)
		s.closed.Store(true)
	}
	return s
}

// entry is what the manifest says of the segment while it is live.
func (s *segFile) entry() segEntry {
	return segEntry{ID: s.id, Salt: s.salt, Size: s.size, State: segLive}
}

func segmentName(id uint32) string { return fmt.Sprintf("%010d.seg", id) }

func spareName(id uint32) string { return fmt.Sprintf("spare-%010d.seg", id) }

// files is the table of segments, for readers.
type files struct {
	fs   vfs.FS
	path func(string) string
	// table is sorted by id. It is replaced as a whole, under mu.
	table atomic.Pointer[[]*segFile]

	// mu guards the open descriptors. unused is told when one is released that
	// nobody else reads.
	mu     sync.Mutex
	unused *sync.Cond
	opened []*segFile
	tick   uint64
	closed bool
}

func newFiles(fsys vfs.FS, path func(string) string) *files {
	f := &files{fs: fsys, path: path}
	f.unused = sync.NewCond(&f.mu)
	f.table.Store(new([]*segFile))
	return f
}

// add puts a segment at the end of the table: ids only grow.
func (t *files) add(s *segFile) {
	t.mu.Lock()
	defer t.mu.Unlock()
	next := append(slices.Clone(*t.table.Load()), s)
	t.table.Store(&next)
}

// remove takes a segment out of the table.
func (t *files) remove(s *segFile) {
	t.mu.Lock()
	defer t.mu.Unlock()
	next := slices.DeleteFunc(slices.Clone(*t.table.Load()), func(o *segFile) bool { return o == s })
	t.table.Store(&next)
}

// retire takes a segment that was dropped out of the table, waits until nobody
// reads it, and tells whether it was lent.
func (t *files) retire(id uint32) (lent bool) {
	s, _ := t.find(id)
	if s == nil {
		return false
	}
	t.remove(s)
	t.mu.Lock()
	defer t.mu.Unlock()
	s.gone = true // for who found it in an older table
	for s.refs > 0 {
		t.unused.Wait()
	}
	if s.f != nil {
		s.f.Close()
		s.f = nil
		t.opened = slices.DeleteFunc(t.opened, func(o *segFile) bool { return o == s })
	}
	return s.lent
}

func (t *files) lend(id uint32) bool {
	s, _ := t.find(id)
	if s == nil {
		return false
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	s.lent = true
	return !s.gone
}

// find returns the segment with this id and the one that follows it; nil where
// there is none.
func (t *files) find(id uint32) (s, next *segFile) {
	table := *t.table.Load()
	i, ok := slices.BinarySearchFunc(table, id, func(s *segFile, id uint32) int { return int(int64(s.id) - int64(id)) })
	if !ok {
		return nil, nil
	}
	if i+1 < len(table) {
		next = table[i+1]
	}
	return table[i], next
}

// acquire opens a segment for reading, or joins those who read it already. The
// caller calls release when it is done. After close it is ErrClosed.
func (t *files) acquire(s *segFile) (vfs.File, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	switch {
	case t.closed:
		return nil, ErrClosed
	case s.gone:
		return nil, noSuchSegment(s.id, 0)
	}
	if s.f == nil {
		f, err := t.fs.Open(t.path(s.name))
		if err != nil {
			return nil, err
		}
		s.f = f
		t.opened = append(t.opened, s)
		t.evict()
	}
	t.tick++
	s.refs, s.used = s.refs+1, t.tick
	return s.f, nil
}

func (t *files) release(s *segFile) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if s.refs--; s.refs == 0 {
		t.unused.Broadcast()
	}
	if t.closed {
		t.closeUnused()
	}
	t.evict()
}

// evict closes descriptors that nobody uses, those used last longest ago
// first, until there are few enough. One that is in use stays open.
func (t *files) evict() {
	for len(t.opened) > openFilesMax {
		oldest := -1
		for i, s := range t.opened[:len(t.opened)-1] { // the newest is about to be used
			if s.refs == 0 && (oldest < 0 || s.used < t.opened[oldest].used) {
				oldest = i
			}
		}
		if oldest < 0 {
			return
		}
		t.opened[oldest].f.Close()
		t.opened[oldest].f = nil
		t.opened = slices.Delete(t.opened, oldest, oldest+1)
	}
}

// close closes all descriptors, those in use when they are released.
func (t *files) close() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.closed = true
	t.closeUnused()
}

func (t *files) closeUnused() {
	for _, s := range t.opened {
		if s.refs == 0 {
			s.f.Close()
			s.f = nil
		}
	}
	t.opened = slices.DeleteFunc(t.opened, func(s *segFile) bool { return s.f == nil })
}
