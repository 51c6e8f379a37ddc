package wal

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"

	"durafs/internal/vfs"
	"durafs/segment"
)

// scan reads all segments in the order of their ids and finds out where what
// can be believed ends. It changes nothing but syncs what it reads.
type scan struct {
	ctx     context.Context
	fs      vfs.FS
	dir     string
	storeID [16]byte
	list    []segEntry
	// readOnly leaves the syncing out: the log may be open beside this.
	readOnly bool
	// deliver is called with each batch that a later frame or the manifest
	// calls durable, in the order of LSNs.
	deliver func(Frame) error

	// last is the LSN of the last valid batch, vouched the highest that
	// anything calls durable.
	last    uint64
	vouched uint64
	// pending are batches that nothing vouches for yet: the last group of the
	// last segment, at the end. Their payloads lie one after the other in kept,
	// since the walk goes on and most groups are vouched for by the next one:
	// it is used again and again, and a copy costs no allocation.
	pending []Frame
	kept    []byte
	// ends tells where live segments were found to end; one that is missing
	// ends where the tail begins, or has no frame.
	ends map[uint32]segEntry
	// cut tells what was found and cannot be believed, if anything.
	cut     *Cut
	batches uint64
	bytes   int64
	notes   []error
	walker  *segment.Walker
	ahead   *ahead // of the segment that was opened last, if it is a large one
	// headless are the segments whose header block is damaged.
	headless map[uint32]bool
}

// Cut tells what recovery did not keep: the remains of a write that was never
// acknowledged.
type Cut struct {
	File   string
	Offset int64
	// LSN is that of the first batch that is not kept.
	LSN    uint64
	Reason string
}

func (s *scan) run() error {
	for i, e := range s.list {
		if err := s.ctx.Err(); err != nil {
			return err
		}
		tail, err := s.segment(i, e)
		if err != nil || tail {
			return err
		}
	}
	if s.last < s.vouched {
		return &DamageError{
			File: "MANIFEST-A", LSNFrom: s.last + 1, LSNTo: s.vouched,
			Reason: "the segments end before what is known to be durable",
		}
	}
	return nil
}

// segment scans one segment. tail is true when nothing behind it counts.
func (s *scan) segment(i int, e segEntry) (tail bool, err error) {
	f, w, err := s.open(e)
	if err != nil {
		return false, err
	}
	defer f.Close()
	start := w.Offset()
	stopped := s.walk(e, w)
	s.bytes += w.Offset() - start
	var bad *segment.InvalidError
	if stopped != nil && !errors.As(stopped, &bad) {
		var own *deliverError
		if errors.As(stopped, &own) {
			return false, own.err
		}
		return false, damageAt(segmentName(e.ID), w.Offset(), s.last+1, max(s.vouched, s.last+1), stopped)
	}
	if e.State != segLive {
		return false, s.checkEnd(e, w, stopped)
	}
	return s.liveEnd(i, e, w, bad)
}

// deliverError is an error of the callback, which is returned as it is.
type deliverError struct{ err error }

func (e *deliverError) Error() string { return e.err.Error() }

// open opens a segment and checks what can be checked without its frames. A
// file that may have been written since the last successful sync is synced,
// and read past the page cache.
func (s *scan) open(e segEntry) (vfs.File, *segment.Walker, error) {
	name := segmentName(e.ID)
	f, err := s.fs.Open(filepath.Join(s.dir, name))
	if err != nil {
		return nil, nil, damageAt(name, 0, s.last+1, max(e.Last, s.vouched), err)
	}
	read, err := s.check(f, e)
	if err != nil {
		f.Close()
		return nil, nil, err
	}
	end := e.End
	if e.State == segLive {
		end = e.Size
	}
	if end > aheadBytes {
		s.ahead = newAhead(read, end, s.ahead)
		read, f = s.ahead.ReadAt, aheadFile{f, s.ahead}
	}
	w := segment.NewWalker(read, segment.NewKey(e.Salt), segment.HeaderBytes, end, s.last)
	if s.walker != nil {
		w.Reuse(s.walker)
	}
	s.walker = w
	return f, w, nil
}

// check checks a segment but for its frames, and tells how to read it.
func (s *scan) check(f vfs.File, e segEntry) (read func([]byte, int64) (int, error), err error) {
	name, end := segmentName(e.ID), e.End
	read = f.ReadAt
	if e.State == segLive {
		end = e.Size
	}
	if e.State == segLive && !s.readOnly {
		read = f.ReadUncachedAt
		if err := f.Datasync(); err != nil {
			return nil, fmt.Errorf("wal: %s cannot be synced: %w", name, err)
		}
	}
	size, err := f.Size()
	if err != nil {
		return nil, damageAt(name, 0, 0, 0, err)
	}
	if size < end {
		return nil, &DamageError{
			File: name, Offset: size, LSNFrom: s.last + 1, LSNTo: max(e.Last, s.vouched, s.last+1),
			Reason: fmt.Sprintf("the file has %d bytes of %d", size, end),
		}
	}
	h, err := readHeader(read, segment.LogFile, s.storeID)
	var invalid *segment.InvalidError
	switch {
	case errors.As(err, &invalid):
		// The manifest knows the salt, so the frames can be read without it.
		if !s.headless[e.ID] {
			s.notes = append(s.notes, damageAt(name, 0, 0, 0, err))
		}
		if s.headless == nil {
			s.headless = map[uint32]bool{}
		}
		s.headless[e.ID] = true
	case err != nil:
		return nil, damageAt(name, 0, 0, 0, err)
	case h.ID != e.ID || h.Salt != e.Salt:
		return nil, &DamageError{File: name, Reason: fmt.Sprintf("the file is another one: its header says segment %d", h.ID)}
	}
	return read, nil
}

// walk takes frames until one is not valid (that error), or the end (nil).
func (s *scan) walk(e segEntry, w *segment.Walker) error {
	first := true
	for {
		f, err := w.Next()
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return err
		case f.Kind == segment.Manifest:
			return &segment.InvalidError{Offset: f.Offset, Reason: "a frame of a manifest"}
		}
		if first && f.Durable < s.last {
			// No frame of a segment is written before everything in the one
			// before it is durable.
			return &segment.InvalidError{Offset: f.Offset, Reason: "does not vouch for the segment before it"}
		}
		first = false
		if err := s.take(e.ID, f); err != nil {
			return &deliverError{err}
		}
	}
}

// take delivers a frame, or keeps it until something vouches for it.
func (s *scan) take(id uint32, f segment.Frame) error {
	if f.Durable > s.vouched {
		s.vouched = f.Durable
	}
	if err := s.flush(); err != nil {
		return err
	}
	s.last = f.LSN
	if f.Kind != segment.Batch {
		return nil
	}
	b := Frame{LSN: f.LSN, Run: f.Run, Count: f.Count, Payload: f.Payload, Pos: Position{id, uint32(f.Offset)}}
	if f.LSN > s.vouched {
		from := len(s.kept)
		s.kept = append(s.kept, b.Payload...)
		b.Payload = s.kept[from:len(s.kept):len(s.kept)]
		s.pending = append(s.pending, b)
		return nil
	}
	return s.hand(b)
}

// flush delivers the pending batches that are vouched for by now.
func (s *scan) flush() error {
	n := 0
	for ; n < len(s.pending) && s.pending[n].LSN <= s.vouched; n++ {
		if err := s.hand(s.pending[n]); err != nil {
			return err
		}
	}
	if n > 0 {
		s.pending = slices.Delete(s.pending, 0, n)
	}
	if len(s.pending) == 0 {
		s.kept = s.kept[:0]
	}
	return nil
}

func (s *scan) hand(b Frame) error {
	s.batches++
	return s.deliver(b)
}

// checkEnd checks that a segment that ended holds what the manifest says.
func (s *scan) checkEnd(e segEntry, w *segment.Walker, stopped error) error {
	if stopped != nil {
		return damageAt(segmentName(e.ID), w.Offset(), s.last+1, max(e.Last, s.vouched), stopped)
	}
	if s.last != e.Last {
		return &DamageError{
			File: segmentName(e.ID), Offset: e.End, LSNFrom: s.last + 1, LSNTo: max(e.Last, s.last+1),
			Reason: fmt.Sprintf("the segment ends with LSN %d, not %d", s.last, e.Last),
		}
	}
	return nil
}

// liveEnd decides what the end of the valid frames in a live segment is.
//
//   - The next segment goes on with the LSN that is missing here: this one was
//     full, and its end is just its end.
//   - Something behind it, here or in a later segment or in the manifest, says
//     that the missing LSN was durable: rot.
//   - A segment from here on has neither a header nor a frame that continues
//     the log: rot. No crash harms a header, which was synced before the
//     segment was listed, so what is gone with it may have been durable.
//   - Nothing says so: here is the end of the log. What lies behind it, if
//     anything, was in flight.
func (s *scan) liveEnd(i int, e segEntry, w *segment.Walker, bad *segment.InvalidError) (tail bool, err error) {
	missing, end := s.last+1, w.Offset()
	claims, found, err := w.Claims()
	if err != nil {
		return false, damageAt(segmentName(e.ID), end, missing, missing, err)
	}
	if claims < missing {
		goesOn, err := s.goesOn(i + 1)
		if err != nil {
			return false, err
		}
		if goesOn {
			e.State, e.End, e.Last = segEnded, end, s.last
			s.ends[e.ID] = e
			return false, nil
		}
	}
	later, laterFound, err := s.claimsFrom(i + 1)
	if err != nil {
		return false, err
	}
	reason := "no frame"
	if bad != nil {
		reason = bad.Reason
	}
	if d := max(claims, later, s.vouched); d >= missing {
		return false, &DamageError{File: segmentName(e.ID), Offset: end, LSNFrom: missing, LSNTo: d, Reason: reason}
	}
	for j, later := range s.list[i:] {
		if s.headless[later.ID] && (j > 0 || end == segment.HeaderBytes) {
			return false, &DamageError{
				File: segmentName(later.ID), LSNFrom: missing, LSNTo: missing, Reason: "neither the header nor a frame can be read",
			}
		}
	}
	if found || laterFound || bad != nil && bad.Reason != segment.ReasonZeros && bad.Reason != segment.ReasonNoRoom {
		s.cut = &Cut{File: segmentName(e.ID), Offset: end, LSN: missing, Reason: reason}
	}
	s.tailEnd(e, end)
	return true, nil
}

// tailEnd notes where the last segment ends: before the batches that nothing
// vouches for, since these are carried on.
func (s *scan) tailEnd(e segEntry, end int64) {
	last := s.last
	if len(s.pending) > 0 {
		end, last = int64(s.pending[0].Pos.Offset), s.pending[0].LSN-1
	}
	if end > segment.HeaderBytes {
		e.State, e.End, e.Last = segEnded, end, last
		s.ends[e.ID] = e
	}
}

// goesOn tells whether the first segment from i on that has frames begins with
// the missing LSN. What could not be read, or is from a later version, is no
// answer: taken for a no it would end the log here.
func (s *scan) goesOn(i int) (bool, error) {
	for ; i < len(s.list); i++ {
		e := s.list[i]
		if e.State != segLive && e.End == segment.HeaderBytes {
			continue // ended before its first frame
		}
		f, w, err := s.open(e)
		if err != nil {
			return false, err
		}
		first, err := w.Next()
		f.Close()
		var invalid *segment.InvalidError
		if err != nil && !errors.As(err, &invalid) && !errors.Is(err, io.EOF) {
			return false, damageAt(segmentName(e.ID), segment.HeaderBytes, s.last+1, max(s.vouched, s.last+1), err)
		}
		return err == nil && first.LSN == s.last+1 && first.Durable == s.last, nil
	}
	return false, nil
}

// claimsFrom is the largest durable of any frame in the segments from i on.
func (s *scan) claimsFrom(i int) (claims uint64, found bool, err error) {
	for _, e := range s.list[i:] {
		f, w, err := s.open(e)
		if err != nil {
			return 0, false, err
		}
		c, any, err := w.Claims()
		f.Close()
		if err != nil {
			return 0, false, damageAt(segmentName(e.ID), 0, 0, 0, err)
		}
		claims, found = max(claims, c), found || any
	}
	return claims, found, nil
}
