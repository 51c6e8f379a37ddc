package wal

import (
	"errors"

	"durafs/internal/mutant"
	"durafs/segment"
)

// begin starts the new segment that this process writes, in the order that
// Open tells. Where the disk is full it takes what is set aside, and then a
// segment that an earlier process prepared and did not use.
func (r *recovery) begin() error {
	if mutant.On(mutant.OldTailAppended) && r.beginOnOldTail() {
		return nil
	}
	r.lastID = r.old.high.Segment
	for _, name := range r.names {
		// A number that a file bears is taken, also if nothing lists it.
		if id, ok := segmentID(name); ok {
			r.lastID = max(r.lastID, id)
		}
	}
	// What failed when the manifest's names were being changed is not tried
	// again: what is carried on was replayed by then.
	again := func(err error) bool { return isNoSpace(err) && !errors.Is(err, ErrPoisoned) }
	unused := r.unused() // before what is carried on has new places
	err := r.beginIn(r.newSpare)
	if again(err) && r.space.ballast.Free() {
		err = r.beginIn(r.newSpare)
	}
	for _, e := range unused {
		if !again(err) {
			break
		}
		err = r.beginIn(func() (*spare, error) { return r.useAgain(e) })
	}
	return err
}

// beginIn begins in the segment that get makes. First all is done that needs
// space, and can be undone.
func (r *recovery) beginIn(get func() (*spare, error)) error {
	s, err := get()
	if err != nil {
		return err
	}
	carried, end, prev := r.carry(s.segEntry)
	var fresh *staged
	if err = r.activate(s, carried); err == nil {
		fresh, err = r.man.stage(r.next(s.segEntry))
	}
	if err != nil {
		r.abandon(s, err)
		return err
	}
	if err := r.handOn(); err != nil {
		r.man.discard(fresh.copies[:])
		r.abandon(s, err)
		return err
	}
	if err := r.man.replaceWith(fresh); err != nil {
		r.abandon(s, err)
		return err
	}
	// The commit point. From here on the new list counts.
	r.install(s.segEntry, &active{newSegFile(s.segEntry), s.f}, end, prev)
	return r.removeUnlisted(r.man.state)
}

// newSpare is a new file, with room for what is carried on and a group.
func (r *recovery) newSpare() (*spare, error) {
	r.lastID++
	return r.makeSpare(segEntry{ID: r.lastID, Salt: r.opts.Salt(), Size: r.bytesNeeded(), State: segLive}, nil)
}

func (r *recovery) bytesNeeded() int64 {
	need, first := r.bytesCarried()+r.opts.groupBytesMax(), r.opts.segmentBytes(0)
	return (need + first - 1) / first * first
}

// bytesCarried is how far what is carried on reaches, padded.
func (r *recovery) bytesCarried() int64 {
	end := int64(segment.HeaderBytes)
	for _, p := range r.scan.pending {
		end += segment.FrameBytes(int64(len(p.Payload)))
	}
	if r.opts.PadBytes > 0 {
		end += segment.PadBytes(end, r.opts.PadBytes)
	}
	return end
}

// unused are listed segments that were prepared by an earlier process and in
// which no frame counts, large enough for what is carried on. One that has
// what is carried on, and nothing else, does not end before its first frame in
// this sense: until that is elsewhere it has the only copy.
func (r *recovery) unused() (list []segEntry) {
	carries := map[uint32]bool{}
	for _, p := range r.scan.pending {
		carries[p.Pos.Segment] = true
	}
	for _, e := range r.old.sortedSegments() {
		_, ended := r.scan.ends[e.ID]
		if e.State == segLive && !ended && !carries[e.ID] && r.scan.headless[e.ID] == nil && e.Size >= r.bytesCarried() {
			list = append(list, e)
		}
	}
	return list
}

// useAgain makes the new segment of one that is unused, under its own name and
// salt, which takes no space. What may stand in it was never acknowledged, and
// may be in a page cache only: all blocks are written again, and synced, before
// a frame is.
func (r *recovery) useAgain(e segEntry) (*spare, error) {
	f, err := r.fs.OpenWrite(r.path(segmentName(e.ID)))
	if err != nil {
		return nil, err
	}
	for off := int64(segment.HeaderBytes); off < e.Size; off += spareStepBytes {
		step := zeros[:min(spareStepBytes, e.Size-off)]
		if n, err := f.WriteAt(step, off); err != nil || n < len(step) {
			f.Close()
			return nil, errors.Join(err, shortWrite(n, len(step)))
		}
	}
	if err := f.Datasync(); err != nil {
		f.Close()
		return nil, err
	}
	return &spare{segEntry: e, f: f, listed: true}, nil
}

// carry lays out the batches that nothing vouches for as the first frames of
// the new segment. What was read may be in a page cache only, and what an
// earlier process synced may have failed: written and synced again it is
// certain.
func (r *recovery) carry(e segEntry) (b []byte, end int64, prev uint32) {
	key := segment.NewKey(e.Salt)
	end = segment.HeaderBytes
	h := segment.FrameHeader{}
	for i := range r.scan.pending {
		p := &r.scan.pending[i]
		h = segment.FrameHeader{
			Kind: segment.Batch, LSN: p.LSN, Durable: r.scan.pending[0].LSN - 1, Run: p.Run, Count: p.Count, Prev: h.CRC,
		}
		b = segment.AppendFrame(b, &h, key, end, p.Payload)
		p.Pos = Position{e.ID, uint32(end)}
		end += h.Bytes()
	}
	if len(b) > 0 {
		h.Prev = h.CRC
		b = r.pad(b, &h, key, segment.HeaderBytes, e.Size)
		return b, segment.HeaderBytes + int64(len(b)), h.Prev
	}
	return b, end, 0
}

// handOn replays the batches that are carried on, with their new places.
func (r *recovery) handOn() error {
	for _, p := range r.scan.pending {
		if err := r.scan.hand(p); err != nil {
			return err
		}
	}
	r.rec.Carried = len(r.scan.pending)
	return nil
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
		if s, _ := r.files.find(old.ID); s != nil {
			continue // a sealed one, since before it was read
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
	r.made.Store(1)
	r.Log.next = r.scan.last + 1
	r.durable.Store(r.scan.last)
}
