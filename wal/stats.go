package wal

import "sync/atomic"

// counters are written by the committer, but where it says otherwise.
type counters struct {
	barriers, batches, bytes atomic.Uint64
	recycled                 atomic.Uint64 // by the keeper
}

func (c *counters) note(batches int, bytes int64) {
	c.barriers.Add(1)
	c.batches.Add(uint64(batches))
	c.bytes.Add(uint64(bytes))
}

// Stats is what a log tells about itself. Counters count from Open.
type Stats struct {
	Durable       uint64 // LSN
	Segments      int
	SegmentBytes  int64 // of all segments, as far as they are durable
	QueueBatches  int
	QueueBytes    int64
	Barriers      uint64 // one per group
	Batches       uint64 // made durable
	BytesWritten  uint64 // frames given to write calls
	ManifestEdits uint64
	// Recycled counts the segments that were made of dropped ones.
	Recycled     uint64
	ShortOfSpace bool
	// Ballast is true while the space for a full disk is set aside.
	Ballast bool
}

// Stats tells how the log is.
func (l *Log) Stats() Stats {
	s := Stats{
		Durable:       l.durable.Load(),
		Barriers:      l.stats.barriers.Load(),
		Batches:       l.stats.batches.Load(),
		BytesWritten:  l.stats.bytes.Load(),
		ManifestEdits: l.man.edits.Load(),
		Recycled:      l.stats.recycled.Load(),
		Ballast:       l.space.ballast.Held(),
	}
	for _, f := range *l.files.table.Load() {
		s.Segments++
		s.SegmentBytes += f.end.Load()
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	s.QueueBatches, s.QueueBytes = l.queuedBatches, l.queuedBytes
	s.ShortOfSpace = l.short != nil
	return s
}
