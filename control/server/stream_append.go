package server

import (
	"context"
	"errors"
	"time"

	"durafs/runs"
	"durafs/wal"
)

// take gives the appender its next group, if there is one.
func (s *rowStream) take() (g group, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	p := &s.pending
	if len(p.rows) == 0 || s.err != nil {
		return group{}, false
	}
	g = *p
	n, size := 0, 0
	for n < len(g.rows) && n < groupRowsMax {
		row := len(g.rows[n].JSON) + rowOverheadBytes
		if n > 0 && size+row > groupBytesMax {
			break
		}
		size += row
		n++
	}
	if n == len(g.rows) {
		*p = group{}
	} else {
		*p = group{rows: g.rows[n:], bytes: g.bytes - size, first: g.first + uint64(n), bufs: append([]*rowBuffer(nil), g.bufs...)}
		for _, b := range g.bufs {
			b.refs.Add(1)
		}
		g.rows = g.rows[:n:n]
	}
	signal(s.room)
	return g, true
}

// appendGroups is the appender. It also sees the daemon going down: rows that
// were read are still taken, further ones are not.
func (s *rowStream) appendGroups() {
	closing := s.r.s.closing
	for done := s.done; !s.through(done == nil); {
		if g, ok := s.take(); ok {
			s.appendGroup(g)
			g.release()
			continue
		}
		select {
		case <-s.more:
		case <-closing:
			closing = nil
			s.goingDown()
		case <-done:
			done = nil
		}
	}
}

// through reports whether nothing is left to append: the stream has failed, or
// all that will come has come and is durable.
func (s *rowStream) through(done bool) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err != nil {
		return true
	}
	if len(s.pending.rows) > 0 || !done && !s.stopped {
		return false
	}
	s.err, s.errRow = s.behind, s.behindRow
	return true
}

func (s *rowStream) goingDown() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.ended.Load() && !s.stopped {
		s.down = true
		s.stop(lingerTimeDown)
	}
}

// appendGroup appends a group and counts it. If it is refused for one row,
// those before it are good.
func (s *rowStream) appendGroup(g group) {
	err := s.tryAppend(g.rows, g.first)
	if r, ok := errors.AsType[*runs.Refusal](err); ok && r.Row > 0 && r.Row <= len(g.rows) {
		good := g.rows[:r.Row-1]
		row := g.first + uint64(len(good))
		if len(good) > 0 {
			if err := s.tryAppend(good, g.first); err != nil {
				s.fail(err, 0)
				return
			}
		}
		s.fail(r, row)
		return
	}
	if err != nil {
		s.fail(err, 0)
	}
}

// tryAppend appends rows, again for a while when the queue is full: that holds
// this stream back and is no reason to end it. What is on its way is seen
// through even when the client is gone.
func (s *rowStream) tryAppend(rows []runs.Row, first uint64) error {
	ctx := context.WithoutCancel(s.r.Context())
	for try := range s.r.s.limits.busyTries {
		a, err := s.r.s.runs.Append(ctx, s.r.caller, s.id, rows, s.key)
		if err == nil {
			s.mu.Lock()
			s.acked, s.lastSeq = first-1+uint64(len(rows)), a.LastSeq
			s.mu.Unlock()
			signal(s.news)
			return nil
		}
		if !errors.Is(err, wal.ErrBusy) || !s.pause(min(busyWaitMin<<min(try, 10), busyWaitMax)) {
			return err
		}
	}
	return wal.ErrBusy
}

// pause waits, and reports whether to go on: not when the daemon goes down.
func (s *rowStream) pause(d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-s.r.s.closing:
		return false
	}
}
