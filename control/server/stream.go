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
//	acker       waits for groups to become durable, in order
//	ack writer  writes the newest acknowledgement
//
// so that no one of them holds up another: rows that have come while groups
// are on their way to the disk wait together and make the next group (which is
// never waited for: a single row goes at once), and an acknowledgement that
// the client does not read only keeps its writer waiting, who finds the newest
// one when that is over.
const (
	groupRowsMax  = 1024
	groupBytesMax = copyBytes // but for a single larger row
	// groupsInFlight is how many groups are on their way to the disk at once.
	groupsInFlight = 4

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
	changed sync.Cond  // on mu: pending, flying, err, or stopped changed
	pending group
	flying  int // groups on their way
	split   uint64
	acked   uint64
	lastSeq uint64
	stopped bool // the reader reads no more
	down    bool // because the daemon goes down
	busy    int  // how often in a row the queue was full
	err     error
	errRow  uint64

	ended  atomic.Bool   // the body came to its end
	flight chan group    // to the acker; has room for groupsInFlight
	news   chan struct{} // to the ack writer: acked has changed
}

// group is rows that are appended together.
type group struct {
	rows  []runs.Row
	first uint64 // number of the first row, from 1
	buf   *rowBuffer
	wait  func(context.Context) (runs.Appended, error)
}

// appendStream is POST …/log with rows as NDJSON.
func (r *request) appendStream(key string) error {
	id := r.PathValue("id")
	if _, err := r.s.runs.Look(r.caller, id); err != nil {
		return err
	}
	if err := r.ctl.EnableFullDuplex(); err != nil {
		return err
	}
	s := &rowStream{
		r: r, id: id, key: key,
		flight: make(chan group, groupsInFlight),
		news:   make(chan struct{}, 1),
	}
	s.changed.L = &s.mu
	return s.run()
}

func (s *rowStream) run() error {
	s.r.ctl.SetWriteDeadline(time.Time{}) // of an earlier request on this connection
	var acker, writer sync.WaitGroup
	acker.Go(s.ackGroups)
	writer.Go(s.writeAcks)
	readErr := s.read()
	s.r.over = true

	s.mu.Lock()
	for s.flying > 0 || len(s.pending.rows) > 0 && s.err == nil {
		s.changed.Wait()
	}
	if s.err == nil && readErr != nil {
		s.err = readErr
	}
	if s.err == nil && s.down && !s.ended.Load() {
		s.err = shuttingDown()
	}
	s.mu.Unlock()
	close(s.flight)
	acker.Wait()
	s.in.close()
	s.r.readerMayTake() // an ack writer that is stuck gets this long
	close(s.news)
	writer.Wait()
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
		a.Problem = s.rowProblem()
		a.Row = s.errRow
		if a.Problem.Status >= 500 {
			s.r.s.log.Warn("stream failed", "run", s.id, "row", s.errRow, "code", a.Problem.Code, "err", s.err)
		}
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
	s.r.ctl.SetReadDeadline(time.Unix(1, 0)) // wakes a reader that waits
	s.changed.Broadcast()
}

// fail ends the stream at a row (0: at none in particular); mu is held.
func (s *rowStream) fail(err error, row uint64) {
	if s.err == nil {
		s.err, s.errRow = err, row
	}
	s.pending.rows = nil
	s.stop()
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

// read takes rows until the body ends. It returns why it ended before. The
// read deadline is then over: net/http must not wait for more of the body.
func (s *rowStream) read() error {
	for s.arm(s.in.within()) {
		lines, err := s.in.read(s.r.Body, s.r.s.limits.RowBytesMax)
		if (len(lines) > 0 || s.in.full()) && !s.offer(lines) {
			return nil
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

func (s *rowStream) readError(err error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stopped && errors.Is(err, os.ErrDeadlineExceeded) {
		return nil // stop says why
	}
	if err == errRowTooLarge {
		s.errRow = s.split + 1
		return tooLarge(control.CodeRowTooLarge, s.r.s.limits.RowBytesMax+1, s.r.s.limits.RowBytesMax)
	}
	return bodyError(err)
}

// offer hands lines on, and waits while the buffer that holds them is full. It
// reports whether to read on.
func (s *rowStream) offer(lines [][]byte) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stopped {
		return false
	}
	if len(s.pending.rows) == 0 {
		s.pending.first, s.pending.buf = s.split+1, s.in.buf
	}
	for _, l := range lines {
		s.pending.rows = append(s.pending.rows, runs.Row{JSON: l})
	}
	s.split += uint64(len(lines))
	s.launch()
	for s.in.full() && len(s.pending.rows) > 0 && !s.stopped {
		s.changed.Wait()
	}
	return !s.stopped
}

// launch sends pending rows on their way, as many groups as may be; mu is
// held. The order of the calls of AppendStart is the order of the rows.
func (s *rowStream) launch() {
	for len(s.pending.rows) > 0 && s.flying < groupsInFlight && s.err == nil {
		g := s.pending
		g.rows = cutGroup(g.rows)
		err := s.start(&g)
		if errors.Is(err, wal.ErrBusy) && s.busy < busyTriesMax {
			s.later()
			return
		}
		if err != nil {
			s.refused(g, err)
			return
		}
		s.busy = 0
		s.took(len(g.rows))
	}
}

// start accepts one group.
func (s *rowStream) start(g *group) (err error) {
	ctx := context.WithoutCancel(s.r.Context()) // what is accepted is seen through
	if g.wait, err = s.r.s.runs.AppendStart(ctx, s.r.caller, s.id, g.rows, s.key); err != nil {
		return err
	}
	g.buf.refs.Add(1)
	s.flying++
	s.flight <- *g
	return nil
}

// took drops the first n pending rows.
func (s *rowStream) took(n int) {
	s.pending.first += uint64(n)
	s.pending.rows = s.pending.rows[n:]
	if len(s.pending.rows) == 0 {
		s.pending.rows = nil // the group on its way has the array
	}
	s.changed.Broadcast()
}

// refused is a group that was not accepted. If it is for one row, those before
// it are good.
func (s *rowStream) refused(g group, err error) {
	row := uint64(0)
	if r, ok := errors.AsType[*runs.Refusal](err); ok && r.Row > 0 {
		row = g.first + uint64(r.Row) - 1
		if g.rows = g.rows[:r.Row-1]; len(g.rows) > 0 {
			if again := s.start(&g); again != nil {
				err, row = again, 0
			}
		}
	}
	s.fail(err, row)
}

// later tries again when the queue was full: when the next of this stream's
// groups is through, or after a while.
func (s *rowStream) later() {
	wait := min(busyWaitMin<<min(s.busy, 10), busyWaitMax)
	s.busy++
	if s.flying > 0 {
		return
	}
	time.AfterFunc(wait, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.launch()
	})
}

// cutGroup is the rows of one group.
func cutGroup(rows []runs.Row) []runs.Row {
	n, size := 0, 0
	for n < len(rows) && n < groupRowsMax && (n == 0 || size+len(rows[n].JSON) <= groupBytesMax) {
		size += len(rows[n].JSON)
		n++
	}
	return rows[:n:n]
}

// ackGroups is the acker. It also sees the daemon going down: rows that were
// read are still taken, further ones are not.
func (s *rowStream) ackGroups() {
	closing := s.r.s.closing
	for {
		select {
		case g, ok := <-s.flight:
			if !ok {
				return
			}
			s.land(g)
		case <-closing:
			closing = nil
			s.mu.Lock()
			s.goingDown()
			s.mu.Unlock()
		}
	}
}

// goingDown ends the stream where it is; mu is held.
func (s *rowStream) goingDown() {
	if !s.stopped {
		s.down = true
		s.stop()
	}
}

// land waits for a group and counts it.
func (s *rowStream) land(g group) {
	a, err := g.wait(context.WithoutCancel(s.r.Context()))
	s.mu.Lock()
	defer s.mu.Unlock()
	s.flying--
	switch {
	case err != nil:
		s.fail(err, 0)
	case s.acked+1 == g.first:
		s.acked += uint64(len(g.rows))
		s.lastSeq = a.LastSeq
		s.tell()
	}
	g.buf.release()
	s.launch()
	s.changed.Broadcast()
}

// tell wakes the ack writer, if it is not awake already.
func (s *rowStream) tell() {
	select {
	case s.news <- struct{}{}:
	default:
	}
}

// writeAcks is the ack writer.
func (s *rowStream) writeAcks() {
	var b []byte
	for range s.news {
		s.mu.Lock()
		acked, lastSeq := s.acked, s.lastSeq
		s.mu.Unlock()
		b = appendAck(b[:0], acked, lastSeq)
		if !s.write(b) {
			for range s.news { // nobody reads: rows are taken all the same
			}
			return
		}
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
