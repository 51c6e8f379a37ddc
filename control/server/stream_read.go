package server

import (
	"io"

	"durafs/control"
	"durafs/runs"
)

// read takes rows until the body ends or the stream is stopped. A stream that
// was stopped reads on for a while and drops what comes, as (*request).leave
// does for other bodies.
func (s *rowStream) read() {
	for s.arm(s.in.within()) {
		lines, err := s.in.read(s.r.Body, s.r.s.limits.RowBytesMax)
		if len(lines) > 0 {
			s.offer(lines)
		}
		if err == io.EOF {
			s.r.senderMayTake(0)
			s.ended.Store(true)
			s.mu.Lock()
			s.whole = !s.stopped // else rows of it may have been dropped
			s.mu.Unlock()
			return
		}
		if err != nil {
			s.readError(err)
		}
	}
	n, err := io.Copy(io.Discard, io.LimitReader(s.r.Body, lingerBytesMax))
	if err == nil && n < lingerBytesMax {
		s.ended.Store(true)
	}
}

// arm sets how long the sender may take for what is read next: as long as it
// likes between rows, SendIdle within one. It reports whether to read on.
func (s *rowStream) arm(within bool) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.stopped:
		return false
	case within:
		s.r.senderMayTake(s.r.s.limits.SendIdle)
	default:
		s.r.senderMayTake(0)
	}
	return true
}

// readError ends the stream for what the reader met. After an error of the
// body further reads give it again.
func (s *rowStream) readError(err error) {
	if err == errRowTooLarge {
		max := s.r.s.limits.RowBytesMax
		s.failBehind(tooLarge(control.CodeRowTooLarge, max+1, max), true)
		return
	}
	s.failBehind(bodyError(err), false)
}

// failBehind ends the stream behind the rows that were read. The error is of
// the next row, or of none.
func (s *rowStream) failBehind(err error, ofRow bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stopped {
		return // whoever stopped it said why
	}
	s.behind = err
	if ofRow {
		s.behindRow = s.split + 1
	}
	s.stop(lingerTimeMax)
	signal(s.more)
}

// offer hands lines on, and waits while there are too many.
func (s *rowStream) offer(lines [][]byte) {
	s.mu.Lock()
	if s.stopped {
		s.mu.Unlock()
		return
	}
	p := &s.pending
	if len(p.rows) == 0 {
		p.first = s.split + 1
	}
	if n := len(p.bufs); n == 0 || p.bufs[n-1] != s.in.buf {
		p.bufs = append(p.bufs, s.in.buf)
		s.in.buf.refs.Add(1)
	}
	for _, l := range lines {
		p.rows = append(p.rows, runs.Row{JSON: l})
		p.bytes += len(l) + rowOverheadBytes
	}
	s.split += uint64(len(lines))
	for signal(s.more); !s.stopped && (p.bytes >= pendingBytesMax || len(p.rows) >= groupRowsMax); {
		s.mu.Unlock()
		<-s.room
		s.mu.Lock()
	}
	s.mu.Unlock()
}
