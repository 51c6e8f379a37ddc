package control

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
)

// RowSource is where Run.Deliver takes its rows from: a file that grows, or a
// buffer. Rows are numbered from 1.
type RowSource interface {
	// ReadRows appends rows to buf, from number n on: each one JSON object
	// ended by a newline, as many as are at hand up to about max bytes. It
	// waits until there is one. It returns buf and how many rows it appended;
	// io.EOF, with no row, says that n is behind the last one for good; it
	// returns ctx's error when ctx ends.
	//
	// Rows that were acknowledged (StreamOptions.OnAck) are not asked for
	// again. Calls do not overlap.
	ReadRows(ctx context.Context, n uint64, buf []byte, max int) (rows []byte, count int, err error)
}

// StreamOptions says how a stream is delivered.
type StreamOptions struct {
	// Key names the field of each row that holds an idempotency key of its
	// own, so that rows may safely be sent twice. Without it the log is read
	// back after a break, and nobody else may write rows to the run meanwhile.
	Key string
	// OnAck is called, from one goroutine, when the first acked rows of the
	// stream are durable; lastSeq is the sequence number of the last of them,
	// 0 where that is not known (found again after a break).
	OnAck func(acked, lastSeq uint64)
	// OnBreak is called when the stream broke and is about to wait and go on.
	OnBreak func(err error)
	// WindowBytes bounds what Run.Stream keeps of rows that are not
	// acknowledged; 0 for DefaultWindowBytes.
	WindowBytes int
}

// streamReadBytes is how much is asked of a RowSource at a time.
const streamReadBytes = 64 << 10

// Deliver sends the rows of src, in order and each once, and returns when src
// has ended and all are durable. It attaches and sends again what was not
// acknowledged, as often as the daemon is restarted.
//
// It starts behind the first acked rows (0 at first) and returns how many are
// durable, with nil, or with what it could not go on for: an error matching
// ErrAway when the daemon stayed away for the client's Patience, ctx's, src's,
// ErrOutcomeUnknown when the stream broke again and again, or a *Problem,
// whose Row is the row's number in src (no-space is one: it may pass). Calling
// it again with the count returned goes on.
func (r *Run) Deliver(ctx context.Context, src RowSource, acked uint64, o StreamOptions) (uint64, error) {
	r.rows.Lock()
	defer r.rows.Unlock()
	d := &delivery{r: r, src: src, o: o, acked: acked}
	err := d.run(ctx)
	return d.acked, err
}

// delivery is one Deliver. It belongs to the goroutine of Deliver; the
// connection's goroutine only touches the rowBody of its request.
type delivery struct {
	r     *Run
	src   RowSource
	o     StreamOptions
	acked uint64 // rows of src that are durable
}

func (d *delivery) run(ctx context.Context) error {
	var wait backoff
	for breaks := 0; ; {
		before := d.acked
		err := d.r.steady(ctx, d.once)
		if err == nil || ctx.Err() != nil || !errors.Is(err, ErrOutcomeUnknown) {
			return err
		}
		if d.o.OnBreak != nil {
			d.o.OnBreak(err)
		}
		if breaks++; d.acked > before {
			breaks, wait = 0, backoff{}
		}
		if breaks == attemptsMax || wait.sleep(ctx, err) != nil {
			return err
		}
		if d.o.Key == "" {
			if err := d.reconcile(ctx); err != nil {
				return err
			}
		}
	}
}

// once sends one request with the rows behind d.acked.
func (d *delivery) once(ctx context.Context) error {
	reading, cancel := context.WithCancel(ctx)
	defer cancel()
	base := d.acked
	body := &rowBody{ctx: reading, src: d.src, next: base + 1}
	_, err := d.r.c.Stream(ctx, d.r.id, d.o.Key, body, func(a Ack) {
		if a.Acked > 0 {
			d.ack(base+a.Acked, a.LastSeq)
		}
	})
	cancel()
	sent, srcErr := body.end()
	if srcErr != nil {
		return srcErr
	}
	if err == nil && d.acked != sent {
		return fmt.Errorf("%w: the stream ended well, with %d rows acknowledged of %d", ErrOutcomeUnknown, d.acked, sent)
	}
	var p *Problem
	if errors.As(err, &p) && p.Row > 0 {
		p.Row += base
	}
	return err
}

func (d *delivery) ack(n, seq uint64) {
	if n <= d.acked {
		return
	}
	d.acked = n
	d.r.saw(seq)
	if d.o.OnAck != nil {
		d.o.OnAck(n, seq)
	}
}

// reconcile finds out which rows behind d.acked are in the log: they are the
// ones that src has next, in order, if nobody else writes rows.
func (d *delivery) reconcile(ctx context.Context) error {
	var want [][]byte
	return d.r.readBehind(ctx, func(line []byte) error {
		if len(want) == 0 {
			b, _, err := d.src.ReadRows(ctx, d.acked+1, nil, streamReadBytes)
			if err != nil {
				return fmt.Errorf("%w: a row in the log is not of this stream: %w", ErrOutcomeUnknown, err)
			}
			want = bytes.SplitAfter(bytes.TrimSuffix(b, []byte("\n")), []byte("\n"))
		}
		if !sameRow(line, canonicalRow(want[0])) {
			return fmt.Errorf("%w: row %d of the log was written by somebody else while the stream was broken", ErrOutcomeUnknown, RowSeq(line))
		}
		want = want[1:]
		d.ack(d.acked+1, RowSeq(line))
		return nil
	})
}

// rowBody is a request body that reads its rows from a source.
type rowBody struct {
	ctx context.Context
	src RowSource

	mu    sync.Mutex // held while the connection's goroutine reads
	next  uint64     // number of the row behind buf
	buf   []byte
	rest  []byte // of buf, not given yet
	err   error
	ended bool // nobody may touch src any more
}

func (b *rowBody) Read(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for len(b.rest) == 0 && b.err == nil {
		if b.ended {
			return 0, io.ErrClosedPipe
		}
		rows, n, err := b.src.ReadRows(b.ctx, b.next, b.buf[:0], streamReadBytes)
		if err != nil {
			b.err = err
			break
		}
		b.buf, b.rest = rows, rows
		b.next += uint64(n)
	}
	if len(b.rest) == 0 {
		return 0, b.err
	}
	n := copy(p, b.rest)
	b.rest = b.rest[n:]
	return n, nil
}

// end waits until the source is not being read any more (b.ctx has ended) and
// tells up to which row it was read, and the source's own error, if that is
// what ended the stream.
func (b *rowBody) end() (sent uint64, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.ended = true
	if b.err == io.EOF || errors.Is(b.err, context.Canceled) || errors.Is(b.err, context.DeadlineExceeded) {
		return b.next - 1, nil
	}
	return b.next - 1, b.err
}
