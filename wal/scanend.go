package wal

import (
	"errors"
	"fmt"
	"io"

	"durafs/internal/mutant"
	"durafs/segment"
)

// checkEnd looks at where the walk through a segment that ended has stopped:
// at its end, with what the manifest says; or at rot. ended is true when
// nothing more is to be found in it.
func (s *scan) checkEnd(e segEntry, w *segment.Walker, stopped error) (ended bool, err error) {
	if stopped != nil {
		return s.stepOver(w, s.rotAt(e, w.Offset(), max(e.Last, s.vouched), stopped))
	}
	short := s.short
	s.short = nil
	switch {
	case s.last == e.Last:
		return true, nil
	case short == nil:
		short = &DamageError{
			File: segmentName(e.ID), Offset: e.End, LSNFrom: s.last + 1, LSNTo: max(e.Last, s.last+1),
			Reason: fmt.Sprintf("the segment ends with LSN %d, not %d", s.last, e.Last),
		}
	}
	return true, s.unknown(short)
}

// rotAt is the damage where a walk stopped; all up to LSN to were durable.
func (s *scan) rotAt(e segEntry, off int64, to uint64, stopped error) *DamageError {
	if at, unread := s.unread.unreadable(off); unread != nil && at <= off+segment.FrameBytesMax {
		stopped = unread
	}
	d := &DamageError{File: segmentName(e.ID), Offset: off}
	errors.As(damageAt(d.File, off, s.last+1, to, stopped), &d)
	return d
}

// liveEnd decides what the end of the valid frames in a live segment is.
//
//   - The next segment goes on with the LSN that is missing here: this one was
//     full, and its end is just its end.
//   - Something behind it, here or in a later segment or in the manifest, says
//     that the missing LSN was durable: rot. See stepOver.
//   - A segment from here on has neither a header nor a frame that continues
//     the log: rot. No crash harms a header, which was synced before the
//     segment was listed, so what is gone with it may have been durable.
//   - Something behind it cannot be read: nobody can tell, and it is not cut.
//   - Nothing says so: here is the end of the log. What lies behind it, if
//     anything, was in flight.
//
// ended is true when nothing more is to be found in this segment, tail when
// nothing behind it counts either.
func (s *scan) liveEnd(i int, e segEntry, w *segment.Walker, bad *segment.InvalidError) (tail, ended bool, err error) {
	missing, end := s.last+1, w.Offset()
	stopped := error(&segment.InvalidError{Offset: end, Reason: "no frame"})
	if bad != nil {
		stopped = bad
	}
	if s.short != nil {
		d := s.short
		if bad != nil {
			d = s.rotAt(e, end, missing, stopped)
		}
		ended, err = s.stepOver(w, d)
		if ended {
			s.short = nil
		}
		return false, ended, err
	}
	claims, found, err := s.claimsHere(e, w)
	if err != nil {
		return false, false, damageAt(segmentName(e.ID), end, missing, missing, err)
	}
	if claims < missing {
		goesOn, err := s.goesOn(i + 1)
		if err != nil {
			return false, false, err
		}
		if goesOn {
			s.vouched = max(s.vouched, s.last) // its first header says so
			if err := s.flush(); err != nil {
				return false, false, err
			}
			e.State, e.End, e.Last = segEnded, end, s.last
			s.ends[e.ID] = e
			return false, true, nil
		}
	}
	later, laterFound, err := s.claimsFrom(i + 1)
	if err != nil {
		return false, false, err
	}
	if d := max(claims, later, s.vouched); d >= missing && !mutant.On(mutant.RotIsCut) {
		s.rotIn = e.ID
		rot := s.rotAt(e, end, d, stopped)
		if later := s.unreadLater; later != nil && (bad == nil || s.looksUnused(e, bad.Reason)) {
			// This segment just ends here, and what goes on from it cannot be read.
			rot.File, rot.Offset, rot.Reason, rot.Err = later.File, later.Offset, later.Reason, later.Err
		}
		ended, err := s.stepOver(w, rot)
		return false, ended, err
	}
	if d := s.cannotTell(i, e, end); d != nil {
		return true, true, s.unknown(d)
	}
	if found || laterFound || bad != nil && !s.looksUnused(e, bad.Reason) {
		s.cut = &Cut{File: segmentName(e.ID), Offset: end, LSN: missing, Reason: stopped.(*segment.InvalidError).Reason}
	}
	s.tailEnd(e, end)
	return true, true, nil
}

// looksUnused tells whether what stopped the walk is what stands where nothing
// was written yet.
func (s *scan) looksUnused(e segEntry, reason string) bool {
	switch reason {
	case segment.ReasonZeros, segment.ReasonNoRoom:
		return true
	case segment.ReasonHeader:
		return s.recycled[e.ID]
	}
	return false
}

// cannotTell is why nobody can tell whether the log ends at end, nil if it
// does.
func (s *scan) cannotTell(i int, e segEntry, end int64) *DamageError {
	missing := s.last + 1
	if at, cause := s.unread.unreadable(end); cause != nil {
		return s.rotAt(e, at, missing, cause)
	}
	for j, later := range s.list[i:] {
		if cause := s.headless[later.ID]; cause != nil && (j > 0 || end == segment.HeaderBytes) {
			return &DamageError{
				File: segmentName(later.ID), LSNFrom: missing, LSNTo: missing,
				Reason: "neither the header nor a frame can be read", Err: cause,
			}
		}
	}
	return s.unreadLater
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
		first, err := s.peek(e)
		var invalid *segment.InvalidError
		if err != nil && !errors.As(err, &invalid) && !errors.Is(err, io.EOF) {
			if s.passOver(e, err) {
				return false, nil
			}
			return false, damageAt(segmentName(e.ID), segment.HeaderBytes, s.last+1, max(s.vouched, s.last+1), err)
		}
		next := s.last
		if first.Count > 0 {
			next++
		}
		return err == nil && first.LSN == next && first.Durable == s.last, nil
	}
	return false, nil
}

// peek reads the header of a segment's first frame: what it goes on from is
// told by that also where its payload has rotted.
func (s *scan) peek(e segEntry) (h segment.FrameHeader, err error) {
	err = s.aside(e, true, func(w *segment.Walker) error {
		h, err = w.Pass()
		return err
	})
	return h, err
}

// aside looks into another segment than the one that is walked; brief: at its
// first frame only.
func (s *scan) aside(e segEntry, brief bool, look func(*segment.Walker) error) error {
	unread, ahead, short := s.unread, s.ahead, s.short
	s.ahead = nil // its memory is in use
	defer func() { s.unread, s.ahead, s.short = unread, ahead, short }()
	f, w, err := s.open(e, brief)
	if err != nil {
		return err
	}
	defer f.Close()
	defer w.Close()
	err = look(w)
	if at, cause := s.unread.unreadable(0); cause != nil && s.unreadLater == nil {
		s.unreadLater = s.rotAt(e, at, s.last+1, cause)
	}
	if s.unreadLater == nil {
		s.unreadLater = s.short // of a lenient scan, nil in general: the file is cut
	}
	return err
}

// passOver lets a lenient scan go on where a later segment could not be looked
// into. It keeps that in mind: what it says the log's end is may not be it.
func (s *scan) passOver(e segEntry, err error) bool {
	if err == nil || !s.lenient || fromLaterVersion(err) {
		return false
	}
	if !errors.As(err, &s.unreadLater) {
		errors.As(damageAt(segmentName(e.ID), 0, s.last+1, s.last+1, err), &s.unreadLater)
	}
	return true
}

// claimsHere is the largest durable behind the walk's offset in its segment.
// Where the walk has met rot before it stays what it was then: the largest
// stands in the last frames.
func (s *scan) claimsHere(e segEntry, w *segment.Walker) (durable uint64, found bool, err error) {
	if s.rotIn == e.ID {
		return s.claims[e.ID], false, nil
	}
	durable, found, err = w.Claims()
	s.claims[e.ID] = durable
	return durable, found, err
}

// claimsFrom is the largest durable of any frame in the segments from i on.
func (s *scan) claimsFrom(i int) (claims uint64, found bool, err error) {
	for _, e := range s.list[i:] {
		durable, known := s.claims[e.ID]
		any := known
		if !known {
			err := s.aside(e, false, func(w *segment.Walker) (err error) {
				durable, any, err = w.Claims()
				return err
			})
			if s.passOver(e, err) {
				continue
			}
			if err != nil {
				return 0, false, damageAt(segmentName(e.ID), 0, 0, 0, err)
			}
			if any {
				s.claims[e.ID] = durable
			}
		}
		claims, found = max(claims, durable), found || any
	}
	return claims, found, nil
}
