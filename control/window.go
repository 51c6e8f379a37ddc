package control

import (
	"context"
	"errors"
	"io"
	"sync"
)

// DefaultWindowBytes is how much a Stream keeps of rows that are not
// acknowledged.
const DefaultWindowBytes = 4 << 20

// Stream appends rows to a run as fast as the disk takes them: many rows are
// on their way at a time. It keeps what is not acknowledged in memory, to send
// it again after a restart. Its methods may be called concurrently.
type Stream struct {
	w      *window
	cancel context.CancelFunc
	done   chan struct{}
	err    error // of the delivery; set before done is closed
}

// Stream opens a stream of rows; see StreamOptions and Deliver. ctx ends it.
// While it is open, Log of the same handle waits. The caller closes it.
func (r *Run) Stream(ctx context.Context, o StreamOptions) *Stream {
	ctx, cancel := context.WithCancel(ctx)
	if o.WindowBytes <= 0 {
		o.WindowBytes = DefaultWindowBytes
	}
	s := &Stream{w: newWindow(o.WindowBytes), cancel: cancel, done: make(chan struct{})}
	onAck := o.OnAck
	o.OnAck = func(acked, lastSeq uint64) {
		s.w.ack(acked)
		if onAck != nil {
			onAck(acked, lastSeq)
		}
	}
	go func() {
		defer close(s.done)
		_, s.err = r.Deliver(ctx, s.w, 0, o)
		s.w.fail(s.err)
	}()
	return s
}

// Log adds one row: bytes or a value, as Run.Log takes it. It waits while the
// window is full. That it returned nil says nothing about the disk; Flush and
// Close do.
func (s *Stream) Log(row any) error {
	b, err := rowBytes(row)
	if err != nil {
		return err
	}
	return s.w.add(canonicalRow(b))
}

// Flush returns when the rows added so far are durable.
func (s *Stream) Flush(ctx context.Context) error { return s.w.flush(ctx) }

// Close ends the stream and returns when every row is durable, or why not.
func (s *Stream) Close() error {
	s.w.end()
	<-s.done
	s.cancel()
	return s.err
}

var errStreamClosed = errors.New("control: the stream is closed")

// window holds the rows of a Stream that are not acknowledged; it is the
// stream's RowSource.
type window struct {
	bytesMax int

	mu sync.Mutex // guards what follows
	// rows holds each row with its newline; the first has number acked+1.
	rows    [][]byte
	bytes   int
	acked   uint64
	ended   bool
	err     error
	changed chan struct{} // closed and made anew at each change
}

func newWindow(bytesMax int) *window {
	return &window{bytesMax: bytesMax, changed: make(chan struct{})}
}

// change wakes whoever waits; mu is held.
func (w *window) change() {
	close(w.changed)
	w.changed = make(chan struct{})
}

// await waits, with mu held, for the next change.
func (w *window) await(ctx context.Context) error {
	ch := w.changed
	w.mu.Unlock()
	defer w.mu.Lock()
	select {
	case <-ch:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (w *window) add(row []byte) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	for w.err == nil && !w.ended && len(w.rows) > 0 && w.bytes+len(row) > w.bytesMax {
		w.await(context.Background()) // the delivery's end is a change too
	}
	switch {
	case w.err != nil:
		return w.err
	case w.ended:
		return errStreamClosed
	}
	w.rows = append(w.rows, append(row, '\n'))
	w.bytes += len(row) + 1
	w.change()
	return nil
}

func (w *window) ack(n uint64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	k := int(min(n-w.acked, uint64(len(w.rows))))
	for _, row := range w.rows[:k] {
		w.bytes -= len(row)
	}
	w.rows = w.rows[k:]
	w.acked += uint64(k)
	w.change()
}

func (w *window) flush(ctx context.Context) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	want := w.acked + uint64(len(w.rows))
	for w.acked < want {
		if w.err != nil {
			return w.err
		}
		if err := w.await(ctx); err != nil {
			return err
		}
	}
	return nil
}

func (w *window) end() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.ended = true
	w.change()
}

// fail ends the window for good: err, or the end of the stream.
func (w *window) fail(err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.ended = true
	w.err = err
	w.change()
}

// ReadRows implements RowSource.
func (w *window) ReadRows(ctx context.Context, n uint64, buf []byte, max int) ([]byte, int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for {
		if i := n - w.acked - 1; n > w.acked && i < uint64(len(w.rows)) {
			rows, count := takeRows(w.rows[i:], buf, max)
			return rows, count, nil
		}
		if w.ended {
			return buf, 0, io.EOF
		}
		if err := w.await(ctx); err != nil {
			return buf, 0, err
		}
	}
}

func takeRows(rows [][]byte, buf []byte, max int) ([]byte, int) {
	count := 0
	for _, row := range rows {
		if count > 0 && len(buf)+len(row) > max {
			break
		}
		buf = append(buf, row...)
		count++
	}
	return buf, count
}
