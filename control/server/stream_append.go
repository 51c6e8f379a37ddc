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
		if s.resolve() {
			continue
		}
		if g, ok := s.take(); ok {
			s.appendGroup(g)
			continue
		}
		select {
		case <-s.more:
		case <-s.landed:
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
	if s.bad != nil || s.aloft.Load() > 0 || len(s.pending.rows) > 0 || !done && !s.stopped {
		return false
	}
	s.err, s.errRow = s.behind, s.behindRow
	return true
}

func (s *rowStream) goingDown() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.whole && !s.stopped {
		s.down = true
		s.stop(lingerTimeDown)
	}
}

// appendGroup sends a group on its way.
func (s *rowStream) appendGroup(g group) {
	f := flight{g: g, extra: s.awaitTurn(int64(g.bytes))}
	departed := false
	defer func() {
		if !departed {
			s.r.s.ahead.Add(-f.extra)
		}
	}()
	var err error
	if f.wait, err = s.accept(g.rows); err == nil {
		departed = true
		s.aloft.Add(1)
		s.flights <- f
		return
	}
	s.land()
	if !s.resolve() { // what was before it has stood
		s.refused(g, err)
	}
	g.release()
}

// refused ends the stream for a group that was not taken; nothing is on its
// way. If it was for one row, those before it are good.
func (s *rowStream) refused(g group, err error) {
	r, ok := errors.AsType[*runs.Refusal](err)
	if !ok || r.Row == 0 || r.Row > len(g.rows) {
		s.fail(err, 0)
		return
	}
	row := g.first + uint64(r.Row-1)
	if r.Row > 1 {
		s.r.s.runs.EndChain(&s.chain)
		s.chain = runs.Chain{}
		g.rows = g.rows[:r.Row-1]
		wait, err := s.accept(g.rows)
		if err == nil {
			err = s.await(flight{g: g, wait: wait})
		}
		if err != nil {
			s.fail(err, 0)
			return
		}
	}
	s.fail(r, row)
}

// accept has rows accepted, and tries again for a while when the queue is
// full: that holds this stream back and is no reason to end it. What is on its
// way is seen through even when the client is gone.
func (s *rowStream) accept(rows []runs.Row) (wait func(context.Context) (runs.Appended, error), err error) {
	ctx := context.WithoutCancel(s.r.Context())
	for try := 0; try < s.r.s.limits.busyTries; {
		wait, err = s.r.s.runs.AppendStart(ctx, s.r.caller, s.id, rows, s.key, &s.chain)
		switch {
		case !errors.Is(err, wal.ErrBusy):
			return wait, err
		case s.aloft.Load() > 0:
			<-s.landed // which makes room
		case !s.pause(min(busyWaitMin<<min(try, 10), busyWaitMax)):
			return nil, err
		default:
			try++
		}
	}
	return nil, wal.ErrBusy
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
