package server

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"durafs/control"
	"durafs/runs"
	"durafs/wal"
)

// A streamed append is three goroutines:
//
//	reader      the handler's own: takes bytes, splits lines
//	appender    appends what has come, as one group after the other
//	ack writer  writes the newest acknowledgement
//
// so that none holds up another. Rows that come while a group is on its way to
// the disk wait together and are the next group; a row that comes alone goes
// at once. An acknowledgement that the client does not read keeps only its
// writer waiting, who then finds the newest one.
//
// Groups go one after the other, and not several at once, because of what may
// go wrong: that a row is refused, that the queue or the disk is full, is
// known only when everything it was decided upon is durable. A group that was
// accepted in between would be rows behind a gap.
const (
	groupRowsMax = 8 << 10
	// groupBytesMax keeps a group one batch of the log, which is there as a
	// whole or not at all. It counts rowOverheadBytes for what the log has
	// beside a row's bytes.
	groupBytesMax    = 960 << 10
	rowOverheadBytes = 64
	// pendingBytesMax is where the reader waits: one group is on its way to
	// the disk, and the next one is full.
	pendingBytesMax = groupBytesMax

	busyWaitMin  = 5 * time.Millisecond
	busyWaitMax  = 250 * time.Millisecond
	busyTriesMax = 24 // with the waits above, about five seconds
)

// rowStream is one streamed append.
type rowStream struct {
	r   *request
	id  string
	key string

	// The reader owns in.
	in lineReader

	mu      sync.Mutex // guards what follows
	pending group
	split   uint64 // rows that the reader has found
	acked   uint64
	lastSeq uint64
	stopped bool // the reader reads no more
	down    bool // because the daemon goes down
	err     error
	errRow  uint64

	ended atomic.Bool   // the body came to its end
	more  chan struct{} // to the appender: pending has grown
	room  chan struct{} // to the reader: pending has shrunk, or stopped
	done  chan struct{} // closed when the reader has ended
	news  chan struct{} // to the ack writer: acked has changed
}

// group is rows that are appended together, and the buffers they lie in.
type group struct {
	rows  []runs.Row
	bufs  []*rowBuffer
	bytes int
	first uint64 // number of the first row, from 1
}

func (g *group) release() {
	for _, b := range g.bufs {
		b.release()
	}
}

// appendStream is POST …/log with rows as NDJSON.
func (r *request) appendStream(key string) error {
	id := r.PathValue("id")
	if _, err := r.s.runs.Look(r.caller, id); err != nil && runs.CodeOf(err) != runs.StaleWriter {
		return err // before a row is read; what a stale writer says is kept as late
	}
	if err := r.ctl.EnableFullDuplex(); err != nil {
		return err
	}
	s := &rowStream{
		r: r, id: id, key: key,
		more: make(chan struct{}, 1),
		room: make(chan struct{}, 1),
		news: make(chan struct{}, 1),
		done: make(chan struct{}),
	}
	return s.run()
}

func (s *rowStream) run() error {
	s.r.ctl.SetWriteDeadline(time.Time{}) // of an earlier request on this connection
	var appender, writer sync.WaitGroup
	appender.Go(s.appendGroups)
	writer.Go(s.writeAcks)
	readErr := s.read()
	s.r.over = s.ended.Load()
	close(s.done)
	appender.Wait()
	s.in.close()
	s.pending.release()
	s.r.readerMayTake() // an ack writer that is stuck gets this long
	close(s.news)
	writer.Wait()
	switch {
	case s.err != nil:
	case readErr != nil:
		s.err = readErr
	case s.down && !s.ended.Load():
		s.err = shuttingDown()
	}
	return s.last()
}

// last ends the answer: with a status if nothing has been said and nothing was
// taken, else with the last line.
func (s *rowStream) last() error {
	s.r.s.stats.rows.Add(s.acked)
	if s.err != nil && s.acked == 0 && !s.r.began {
		return s.rowProblem()
	}
	a := control.Ack{Acked: s.acked, LastSeq: s.lastSeq, Done: s.err == nil}
	if s.err != nil {
		a.Problem, a.Row = s.rowProblem(), s.errRow
		s.r.failed = true
		s.r.s.log.Info("stream ended", "run", s.id, "row", s.errRow, "code", a.Problem.Code, "err", s.err)
	}
	b, _ := json.Marshal(a) // strings and numbers only
	s.r.readerMayTake()
	s.write(append(b, '\n'))
	return nil
}

func (s *rowStream) rowProblem() *control.Problem {
	p := *problemOf(s.err)
	p.Row = s.errRow
	return &p
}

// stop ends the reading of rows; mu is held.
func (s *rowStream) stop() {
	s.stopped = true
	s.r.ctl.SetReadDeadline(time.Unix(1, 0)) // wakes a reader that waits for bytes
	signal(s.room)
}

// fail ends the stream at a row (0: at none in particular).
func (s *rowStream) fail(err error, row uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err == nil {
		s.err, s.errRow = err, row
	}
	s.stop()
}

// signal wakes the one who waits on ch, or who will.
func signal(ch chan struct{}) {
	select {
	case ch <- struct{}{}:
	default:
	}
}

// read takes rows until the body ends, and tells why it ended before that. The
// read deadline is then over: net/http must not wait for more of the body.
func (s *rowStream) read() error {
	for s.arm(s.in.within()) {
		lines, err := s.in.read(s.r.Body, s.r.s.limits.RowBytesMax)
		if len(lines) > 0 {
			s.offer(lines)
		}
		if err == io.EOF {
			s.r.senderMayTake(0)
			s.ended.Store(true)
			return nil
		}
		if err != nil {
			return s.readError(err)
		}
	}
	return nil
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

func (s *rowStream) readError(err error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stopped && errors.Is(err, os.ErrDeadlineExceeded) {
		return nil // whoever stopped it said why
	}
	if err == errRowTooLarge {
		s.errRow = s.split + 1
		return tooLarge(control.CodeRowTooLarge, s.r.s.limits.RowBytesMax+1, s.r.s.limits.RowBytesMax)
	}
	return bodyError(err)
}

// offer hands lines on, and waits while there are too many.
func (s *rowStream) offer(lines [][]byte) {
	s.mu.Lock()
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
	for {
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
		case <-s.done:
			if len(s.more) == 0 { // what was offered last is taken
				return
			}
		}
	}
}

func (s *rowStream) goingDown() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.ended.Load() && s.err == nil && !s.stopped {
		s.down = true
		s.stop()
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
	for try := range busyTriesMax {
		a, err := s.r.s.runs.Append(ctx, s.r.caller, s.id, rows, s.key)
		if err == nil {
			s.mu.Lock()
			s.acked, s.lastSeq = first-1+uint64(len(rows)), a.LastSeq
			s.mu.Unlock()
			signal(s.news)
			return nil
		}
		if !errors.Is(err, wal.ErrBusy) {
			return err
		}
		time.Sleep(min(busyWaitMin<<min(try, 10), busyWaitMax))
	}
	return wal.ErrBusy
}

// writeAcks is the ack writer.
func (s *rowStream) writeAcks() {
	var b []byte
	gone := false
	for range s.news {
		s.mu.Lock()
		acked, lastSeq := s.acked, s.lastSeq
		s.mu.Unlock()
		b = appendAck(b[:0], acked, lastSeq)
		gone = gone || !s.write(b) // nobody reads: rows are taken all the same
	}
}

// write sends a line. Only the ack writer calls it, and then last.
func (s *rowStream) write(line []byte) bool {
	if !s.r.began {
		s.r.began = true
		s.r.w.Header()["Content-Type"] = ndjsonType
		if !s.ended.Load() {
			// What of the body is never read must not be taken for a request.
			s.r.w.Header().Set("Connection", "close")
		}
		s.r.w.WriteHeader(http.StatusOK)
	}
	if _, err := s.r.w.Write(line); err != nil {
		return false
	}
	return s.r.ctl.Flush() == nil
}

func shuttingDown() *control.Problem {
	p := problem(http.StatusServiceUnavailable, control.CodeShuttingDown, "the daemon is going down; it may be back soon")
	p.Retryable = true
	return p
}
