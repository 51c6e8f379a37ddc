package server

import (
	"encoding/json"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"durafs/control"
	"durafs/runs"
)

// A streamed append is four goroutines:
//
//	reader      the handler's own: takes bytes, splits lines
//	appender    checks and encodes what has come, as one group after the other
//	waiter      waits for the groups' barriers, in their order
//	ack writer  writes the newest acknowledgement
//
// so that none holds up another. Rows that come while groups are on their way
// to the disk wait together and are the next group; a row that comes alone
// goes at once. An acknowledgement that the client does not read keeps only
// its writer waiting, who then finds the newest one.
//
// While one group is in its barrier the next ones are checked, encoded and
// accepted. That a group is refused may be known only when everything it was
// decided upon is durable; the groups of a stream are a runs.Chain, so that
// none that came behind it is accepted, which would be rows behind a gap.
const (
	groupRowsMax = 4 << 10
	// groupBytesMax lets a group share its barrier with another one, and is
	// within what the log keeps as a whole or not at all. It counts
	// rowOverheadBytes for what the log has beside a row's bytes.
	groupBytesMax    = 480 << 10
	rowOverheadBytes = 64
	// pendingBytesMax is where the reader waits: the next group is full.
	pendingBytesMax = groupBytesMax
	// aheadMax is how many groups of one stream are on their way. A stream may
	// always have one; further ones only as long as those of all streams have
	// less than aheadBytesMax, so that the log's queue has room for others.
	aheadMax      = 4
	aheadBytesMax = 6 << 20

	busyWaitMin  = 5 * time.Millisecond
	busyWaitMax  = 250 * time.Millisecond
	busyTriesMax = 24 // by default; with the waits above, about five seconds
)

// rowStream is one streamed append.
type rowStream struct {
	r   *request
	id  string
	key string

	// The reader owns in.
	in lineReader

	// flights go from the appender to the waiter; landed tells the appender
	// that one has ended; aloft counts them.
	chain   runs.Chain
	flights chan flight
	landed  chan struct{}
	aloft   atomic.Int32

	mu      sync.Mutex // guards what follows
	pending group
	split   uint64 // rows that the reader has found
	acked   uint64
	lastSeq uint64
	stopped bool // no more rows are taken
	down    bool // because the daemon goes down
	whole   bool // the body came to its end, and every row of it was taken
	err     error
	errRow  uint64
	// behind ends the stream when all rows that were read are through.
	behind    error
	behindRow uint64
	// bad is the first flight that did not stand, and badErr why. The appender
	// deals with it when no flight is left.
	bad    *flight
	badErr error

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
		r: r, id: id, key: key, in: lineReader{large: &r.s.large},
		more: make(chan struct{}, 1),
		room: make(chan struct{}, 1),
		news: make(chan struct{}, 1),
		done: make(chan struct{}),

		flights: make(chan flight, aheadMax),
		landed:  make(chan struct{}, 1),
	}
	return s.run()
}

func (s *rowStream) run() error {
	s.r.ctl.SetWriteDeadline(time.Time{}) // of an earlier request on this connection
	var appender, waiter, writer sync.WaitGroup
	writer.Go(s.writeAcks)
	waiter.Go(s.waitForAll)
	appender.Go(func() {
		s.guarded(s.appendGroups)
		close(s.flights)
		waiter.Wait()
		s.r.s.runs.EndChain(&s.chain)
		s.r.readerMayTake() // an ack writer that is stuck gets this long
		close(s.news)
		writer.Wait()
		s.last()
	})
	s.guarded(s.read) // whatever happens there, the others are to end
	close(s.done)
	appender.Wait()
	s.r.over = s.ended.Load()
	s.in.close()
	s.pending.release()
	return nil
}

// guarded runs fn of a stream's goroutine, which is not the handler's: what the
// door does for a panic of that one is done here.
func (s *rowStream) guarded(fn func()) {
	defer func() {
		if v := recover(); v != nil {
			s.r.panicked(v)
			s.fail(crashed(), 0)
		}
	}()
	fn()
}

// last ends the answer: with a status if nothing has been said and nothing was
// taken, else with the last line. The appender comes to it at once when
// something is wrong, while the reader drops what still comes: a client that
// is sending hears of it only so.
func (s *rowStream) last() {
	s.mu.Lock()
	if s.err == nil && s.down {
		s.err = shuttingDown()
	}
	a := control.Ack{Acked: s.acked, LastSeq: s.lastSeq, Done: s.err == nil, Row: s.errRow}
	err := s.err
	s.mu.Unlock()

	s.r.s.stats.rows.Add(a.Acked)
	if err != nil {
		p := *problemOf(err)
		p.Row, a.Problem = a.Row, &p
		if a.Acked == 0 && !s.r.began {
			s.r.fail(&p)
			s.r.ctl.Flush()
			return
		}
		s.r.s.log.Info("stream ended", "run", s.id, "row", a.Row, "code", p.Code, "err", err)
	}
	b, _ := json.Marshal(a) // strings and numbers only
	s.r.readerMayTake()
	s.write(append(b, '\n'))
}

// stop ends the taking of rows; mu is held. The reader drops what comes for a
// while yet.
func (s *rowStream) stop(linger time.Duration) {
	s.stopped = true
	s.r.senderMayTake(min(linger, s.r.s.limits.SendIdle))
	signal(s.room)
}

// fail ends the stream at a row (0: at none in particular).
func (s *rowStream) fail(err error, row uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err == nil {
		s.err, s.errRow = err, row
	}
	if !s.stopped {
		s.stop(lingerTimeMax)
	}
}

// signal wakes the one who waits on ch, or who will.
func signal(ch chan struct{}) {
	select {
	case ch <- struct{}{}:
	default:
	}
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

// write sends a line. The ack writer calls it, and when that has ended, last.
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
