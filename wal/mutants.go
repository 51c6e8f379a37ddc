package wal

import (
	"durafs/internal/mutant"
	"durafs/segment"
)

// The faults of package mutant that take more than a condition. None of this is
// in a usual build.

// barrier makes durable what was written to the active segment.
func (l *Log) barrier(g *group) error {
	if mutant.On(mutant.AckBeforeBarrier) && g.last%2 == 1 {
		return nil // the next group's does it
	}
	err := l.writer.seg.f.Datasync()
	if err != nil && mutant.On(mutant.SyncRetried) {
		err = l.writer.seg.f.Datasync()
	}
	return err
}

// publishNewest publishes what is accepted and not durable.
func (l *Log) publishNewest() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, g := range l.queue[min(1, len(l.queue)):] {
		l.state.Publish(g.batches)
	}
}

// durableOf is the mark that the frames of a group bear.
func (l *Log) durableOf(g *group) uint64 {
	if mutant.On(mutant.DurableIsAccepted) {
		return g.last - 1
	}
	return l.durable.Load()
}

// beginOnOldTail goes on in the last segment of an earlier process.
func (r *recovery) beginOnOldTail() bool {
	list := r.old.sortedSegments()
	for i := len(list) - 1; i >= 0; i-- {
		e := list[i]
		end, ok := r.scan.ends[e.ID]
		if e.State != segLive || !ok || len(r.scan.pending) > 0 || end.End+segment.HeaderBytes > e.Size {
			continue
		}
		f, err := r.fs.OpenWrite(r.path(segmentName(e.ID)))
		if err != nil {
			return false
		}
		prev, err := r.lastFrame(e, end.End)
		next := r.old.clone()
		if err != nil || r.man.rewrite(next) != nil {
			return false
		}
		delete(r.man.state.segments, e.ID)
		r.install(e, &active{newSegFile(e), f}, end.End, prev)
		r.man.state.segments[e.ID] = e
		r.lastID = r.old.high.Segment
		return true
	}
	return false
}

// lastFrame is the header checksum of the last frame before end.
func (r *recovery) lastFrame(e segEntry, end int64) (prev uint32, err error) {
	err = r.scan.aside(e, false, func(w *segment.Walker) error {
		w.LSN = 0
		w.FreeStart()
		for w.Offset() < end {
			if _, err := w.Next(); err != nil {
				return err
			}
		}
		prev = w.Prev
		return nil
	})
	return prev, err
}
