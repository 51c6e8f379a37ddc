package cas

import (
	"container/list"
	"sync"
)

// chunkCache keeps decoded, verified chunks and nodes, the latest used ones,
// up to a number of bytes. What is in it is never changed.
type chunkCache struct {
	max int

	mu    sync.Mutex
	bytes int
	items map[ID]*cached
	used  *list.List // the longest unused in front
}

// cached is a chunk or a node, or one that someone is about to load.
type cached struct {
	id    ID
	ready chan struct{} // closed when the rest is set
	chunk []byte
	node  *node
	err   error
	elem  *list.Element // chunkCache.mu guards it
}

func newChunkCache(max int) *chunkCache {
	return &chunkCache{max: max, items: make(map[ID]*cached), used: list.New()}
}

func (c *cached) size() int {
	if c.node != nil {
		return len(c.node.Child) * nodeChildBytes
	}
	return len(c.chunk)
}

// has reports whether id is there or on its way.
func (c *chunkCache) has(id ID) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.items[id] != nil
}

// get returns what load sets for id; of several callers one loads. Errors are
// not kept.
func (c *chunkCache) get(id ID, load func(*cached) error) (*cached, error) {
	c.mu.Lock()
	it := c.items[id]
	if it != nil {
		if it.elem != nil {
			c.used.MoveToBack(it.elem)
		}
		c.mu.Unlock()
		<-it.ready
		return it, it.err
	}
	it = &cached{id: id, ready: make(chan struct{})}
	c.items[id] = it
	c.mu.Unlock()

	it.err = load(it)
	close(it.ready)
	c.mu.Lock()
	defer c.mu.Unlock()
	if it.err != nil {
		delete(c.items, id)
		return it, it.err
	}
	it.elem = c.used.PushBack(it)
	c.bytes += it.size()
	for c.bytes > c.max && c.used.Len() > 1 {
		old := c.used.Remove(c.used.Front()).(*cached)
		delete(c.items, old.id)
		c.bytes -= old.size()
	}
	return it, nil
}
