package wal

import (
	"errors"

	"durafs/segment"
)

// Rot is what was durable and does not check any more. What becomes of a scan
// that meets it:
//
//   - A batch whose header checks, with a payload that does not, harms the run
//     that the header names, and nobody else: it is lost, and the walk goes on
//     behind it, by the length in the header.
//   - Where no header can be believed nobody can tell whose data it was. An
//     ordinary scan ends there, with the damage; a lenient one, which changes
//     nothing and only wants to show what is left, goes on at the next frame
//     that checks, and tells which LSNs are between.

// lose hands on what was lost, behind all batches before it.
func (s *scan) lose(d *DamageError) error {
	if err := s.flush(); err != nil {
		return err
	}
	s.lost++
	if s.damaged == nil {
		return d
	}
	return s.damaged(d)
}

// unknown meets damage of which nobody can tell whose data it was. It begins a
// hole, which ends at the next frame.
func (s *scan) unknown(d *DamageError) error {
	if !s.lenient {
		return d
	}
	if s.hole == nil {
		s.hole = d
		s.hole.LSNFrom = s.last + 1
	}
	return nil
}

// closeHole ends a hole with the batch to, the last that is in it; where
// nobody knows that, with the last that was known durable.
func (s *scan) closeHole(to uint64) error {
	if s.hole == nil {
		return nil
	}
	d := s.hole
	s.hole = nil
	if err := s.flushAll(); err != nil {
		return err
	}
	if d.LSNTo = max(to, d.LSNFrom); to < d.LSNFrom {
		return s.lose(d) // it may be of none, or of any number
	}
	s.last = to
	return s.lose(d)
}

// flushAll delivers what is pending: behind a hole nothing else will vouch for
// it, and what was read from the disk is there.
func (s *scan) flushAll() error {
	if len(s.pending) == 0 {
		return nil
	}
	s.vouched = max(s.vouched, s.pending[len(s.pending)-1].LSN)
	return s.flush()
}

// stepOver moves the walk behind a frame that has rotted. d is the damage, as
// far as it is known; all up to its LSNTo were durable. ended is true when
// nothing more is to be found in this segment.
func (s *scan) stepOver(w *segment.Walker, d *DamageError) (ended bool, err error) {
	s.vouched = max(s.vouched, d.LSNTo)
	if err := s.flush(); err != nil {
		return false, err
	}
	if h, err := w.Pass(); err == nil {
		return false, s.lostFrame(h, d)
	}
	if err := s.unknown(d); err != nil {
		return false, err
	}
	found, err := w.Resync()
	return !found || err != nil, nil
}

// lostFrame is a frame whose header checks and whose payload does not.
func (s *scan) lostFrame(h segment.FrameHeader, d *DamageError) error {
	switch {
	case h.Kind == segment.Batch && (s.damaged == nil || h.Run == 0 && !s.lenient):
		return d
	case h.Kind != segment.Batch:
		s.notes = append(s.notes, d) // it held nothing
		d.LSNFrom, d.LSNTo = 0, 0
		return nil
	}
	if err := s.closeHole(h.LSN - 1); err != nil {
		return err
	}
	s.last = h.LSN
	d.LSNFrom, d.LSNTo, d.Run, d.Count = h.LSN, h.LSN, h.Run, h.Count
	return s.lose(d)
}

// gone meets a segment that cannot be opened, or is another one.
func (s *scan) gone(e segEntry, err error) (tail bool, _ error) {
	var d *DamageError
	if !errors.As(err, &d) {
		return false, err
	}
	if err := s.unknown(d); err != nil {
		return false, err
	}
	if e.State != segLive && s.last < e.Last {
		return false, s.closeHole(e.Last)
	}
	return false, nil
}
