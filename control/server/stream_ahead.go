package server

import (
	"context"

	"durafs/control"
	"durafs/runs"
)

// flight is a group on its way to the disk.
type flight struct {
	g     group
	wait  func(context.Context) (runs.Appended, error)
	extra int64 // bytes of it in Server.ahead
}

// awaitTurn waits until the stream may have one more group of n bytes on its
// way, and returns what of it counts as ahead.
func (s *rowStream) awaitTurn(n int64) (extra int64) {
	ahead := &s.r.s.ahead
	for {
		aloft := s.aloft.Load()
		if aloft == 0 {
			return 0
		}
		if aloft < aheadMax {
			if ahead.Add(n) <= aheadBytesMax {
				return n
			}
			ahead.Add(-n)
		}
		<-s.landed
	}
}

// waitForAll is the waiter.
func (s *rowStream) waitForAll() {
	for f := range s.flights {
		err := s.await(f)
		s.r.s.ahead.Add(-f.extra)
		s.mu.Lock()
		if err != nil && s.bad == nil {
			s.bad, s.badErr = &f, err
		} else {
			f.g.release()
		}
		s.mu.Unlock()
		s.aloft.Add(-1)
		signal(s.landed)
	}
}

// await waits for a group's barrier and counts its rows.
func (s *rowStream) await(f flight) (err error) {
	defer func() {
		if v := recover(); v != nil {
			s.r.panicked(v)
			err = crashed()
		}
	}()
	a, err := f.wait(context.WithoutCancel(s.r.Context()))
	if err != nil {
		return err
	}
	s.mu.Lock()
	s.acked, s.lastSeq = f.g.first-1+uint64(len(f.g.rows)), a.LastSeq
	s.mu.Unlock()
	signal(s.news)
	return nil
}

// land waits until no group is on its way.
func (s *rowStream) land() {
	for s.aloft.Load() > 0 {
		<-s.landed
	}
}

// resolve ends the stream if a group did not stand, and reports that.
func (s *rowStream) resolve() bool {
	s.mu.Lock()
	bad, err := s.bad, s.badErr
	s.mu.Unlock()
	if bad == nil {
		return false
	}
	s.land()
	s.refused(bad.g, err)
	bad.g.release()
	s.mu.Lock()
	s.bad = nil // s.err says it
	s.mu.Unlock()
	return true
}

func crashed() *control.Problem {
	return problem(500, control.CodeOutcomeUnknown, "the daemon failed at this request; its log has the reason")
}
