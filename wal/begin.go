package wal

import (
	"durafs/segment"
)

// begin starts the new segment that this process writes, in the order that
// Open tells.
func (r *recovery) begin() error {
	r.lastID = r.old.high.Segment
	for _, name := range r.names {
		// A number that a file bears is taken, also if nothing lists it.
		if id, ok := segmentID(name); ok {
			r.lastID = max(r.lastID, id)
		}
	}
	r.lastID++
	e := segEntry{ID: r.lastID, Salt: newSalt(), State: segLive}
	carried, end, prev, err := r.carry(&e)
	if err != nil {
		return err
	}
	f, err := r.makeSpare(e.ID, e.Size, nil)
	if err != nil {
		return err
	}
	if err = r.activate(f, e.ID, e.Salt, carried); err == nil {
		err = r.man.rewrite(r.next(e))
	}
	if err != nil {
		r.abandon(f, e.ID, err)
		return err
	}
	// The commit point. From here on the new list counts.
	r.install(e, &active{newSegFile(e), f}, end, prev)
	return r.removeUnlisted(r.man.state)
}

// carry lays out the batches that nothing vouches for as the first frames of
// the new segment, chooses its size, and replays them with their new places.
// What was read may be in a page cache only, and what an earlier process synced
// may have failed: written and synced again it is certain.
func (r *recovery) carry(e *segEntry) (b []byte, end int64, prev uint32, err error) {
	key := segment.NewKey(e.Salt)
	end = segment.HeaderBytes
	for _, p := range r.scan.pending {
		h := segment.FrameHeader{
			Kind: segment.Batch, LSN: p.LSN, Durable: r.scan.pending[0].LSN - 1, Run: p.Run, Count: p.Count, Prev: prev,
		}
		b = segment.AppendFrame(b, &h, key, end, p.Payload)
		p.Pos = Position{e.ID, uint32(end)}
		end, prev = end+h.Bytes(), h.CRC
		if err := r.scan.hand(p); err != nil {
			return nil, 0, 0, err
		}
	}
	r.rec.Carried = len(r.scan.pending)
	e.Size = r.opts.segmentBytes(0)
	for e.Size < end+r.opts.groupBytesMax() {
		e.Size += r.opts.segmentBytes(0)
	}
	return b, end, prev, nil
}

// next is the state of the manifest with the new segment.
func (r *recovery) next(e segEntry) manifestState {
	next := r.old.clone()
	for id, old := range next.segments {
		if old.State != segLive {
			continue
		}
		if ended, ok := r.scan.ends[id]; ok {
			next.segments[id] = ended
		} else {
			delete(next.segments, id) // it has no frame that counts
		}
	}
	next.segments[e.ID] = e
	next.high.Segment = e.ID
	next.high.LSN = r.scan.last // carried ones are synced by now
	return next
}

// install makes the new segment the active one, and hands what ended to the
// sealer.
func (r *recovery) install(e segEntry, a *active, end int64, prev uint32) {
	for _, old := range r.man.state.sortedSegments() {
		if old.ID == e.ID {
			continue
		}
		s := newSegFile(old)
		r.files.add(s)
		if old.State == segEnded {
			r.toSeal = append(r.toSeal, s)
		}
	}
	a.end.Store(end)
	r.files.add(a.segFile)
	r.writer.seg, r.writer.pos, r.writer.prev = a, end, prev
	r.made = 1
	r.Log.next = r.scan.last + 1
	r.durable.Store(r.scan.last)
}
