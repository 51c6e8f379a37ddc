package server

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"sync"
	"time"

	"durafs/control"
	"durafs/projection"
	"durafs/runs"
)

// outcome is POST /v1/runs/{id}/tools/{call}/outcome. The body is two lines of
// JSON, the outcome and then the projection. Once the first is there the domain
// takes over, and reads the second as far as it waits for it.
func (r *request) outcome() error {
	call, err := r.callNumber()
	if err != nil {
		return err
	}
	if err := r.contentType(control.TypeNDJSON); err != nil {
		return err
	}
	if err := r.ctl.EnableFullDuplex(); err != nil { // the answer may come before the second line
		return err
	}
	b := &outcomeBody{r: r, in: bufio.NewReaderSize(r.Body, 16<<10), done: make(chan struct{})}
	defer b.free()
	r.senderMayTake(r.s.limits.EnvelopeTime)
	line, err := b.line(runs.OutcomeBytesMax)
	if err != nil && !(err == io.EOF && len(line) > 0) {
		return outcomeError(err)
	}
	r.senderMayTake(0) // the projection has a time of its own
	got, err := r.s.runs.Outcome(r.Context(), r.caller, r.PathValue("id"), runs.OutcomeRequest{
		Call: call, Outcome: line, Projection: b.projection,
	})
	b.stop()
	if err != nil {
		return err
	}
	if !r.over {
		r.w.Header().Set("Connection", "close")
	}
	return r.answer(http.StatusOK, got)
}

// outcomeError is what reading the outcome's line came to.
func outcomeError(err error) error {
	if err == io.EOF {
		p := problem(http.StatusBadRequest, control.CodeBadJSON, "the body is empty; it has two lines, the outcome and the projection")
		p.Field = "outcome"
		return p
	}
	return bodyError(err)
}

// outcomeBody reads the two lines. The second is read on a goroutine of the
// domain's; stop ends that before the request does.
type outcomeBody struct {
	r  *request
	in *bufio.Reader

	held int // of Server.large

	mu      sync.Mutex // guards what follows
	reading bool
	stopped bool
	done    chan struct{} // closed when the reading has ended
}

var errStopped = errors.New("the request is over")

// projection reads the second line. No line and no error say that the sender
// has ended without one.
func (b *outcomeBody) projection(context.Context) ([]byte, error) {
	b.mu.Lock()
	if b.stopped {
		b.mu.Unlock()
		return nil, errStopped
	}
	b.reading = true
	b.mu.Unlock()
	defer close(b.done)
	line, err := b.line(projection.CandidateBytesMax)
	if err == io.EOF {
		b.r.over = true
		err = nil
	}
	if _, large := err.(*control.Problem); large {
		return []byte{}, nil // it came, and is refused
	}
	if len(line) == 0 {
		return nil, err
	}
	return line, err
}

// stop ends the reading and waits until it has ended.
func (b *outcomeBody) stop() {
	b.mu.Lock()
	b.stopped = true
	reading := b.reading
	b.mu.Unlock()
	if !reading {
		return
	}
	select {
	case <-b.done:
	default:
		b.r.ctl.SetReadDeadline(time.Unix(1, 0)) // long over: a read that waits returns
		<-b.done
	}
}

// line reads a line of at most max bytes, without its end; io.EOF comes with a
// last line that has none. Memory is taken as bytes come.
func (b *outcomeBody) line(max int) ([]byte, error) {
	var line []byte
	for {
		part, err := b.in.ReadSlice('\n')
		if size := len(line) + len(part); size > max+len("\r\n") {
			return nil, tooLarge(control.CodeBodyTooLarge, int64(size), int64(max))
		}
		if err := b.grow(&line, len(part)); err != nil {
			return nil, err
		}
		line = append(line, part...)
		switch {
		case err == nil || err == io.EOF:
			return bytes.TrimSuffix(bytes.TrimSuffix(line, []byte("\n")), []byte("\r")), err
		case !errors.Is(err, bufio.ErrBufferFull):
			return nil, err
		}
	}
}

// grow makes room for n bytes more, and takes what is large from the memory for
// that.
func (b *outcomeBody) grow(line *[]byte, n int) error {
	if len(*line)+n <= cap(*line) {
		return nil
	}
	size := max(2*cap(*line), len(*line)+n)
	if size > copyBytes {
		if err := b.r.s.large.take(size); err != nil {
			return err
		}
		b.held += size
	}
	*line = append(make([]byte, 0, size), *line...)
	return nil
}

func (b *outcomeBody) free() {
	if b.held > 0 {
		b.r.s.large.give(b.held)
	}
}
