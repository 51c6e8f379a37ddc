package control

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"sync"
	"time"
)

// DefaultProjectionTimeout is how long a projector may take.
const DefaultProjectionTimeout = 10 * time.Second

const (
	// outcomeBytesMax bounds an outcome; larger output is put as a payload.
	outcomeBytesMax = 256 << 10
	// outcomeTimeout is how long recording an outcome may take beyond the
	// client's Patience and the projection.
	outcomeTimeout = 30 * time.Second
)

// Projector makes the candidate for what a model is shown of an outcome, see
// Candidate. It runs on a goroutine of its own, which is not waited for when
// its time is over: ctx ends then.
type Projector func(ctx context.Context, outcome json.RawMessage) ([]byte, error)

// Settle records what became of the call, a JSON object of at most 256 KiB, and
// what a model is shown of it, and returns what is committed. The outcome is
// sent at once, and is committed from then on whatever becomes of the projector
// or of this process: with the sentinel if projector is nil, panics, fails, is
// not done within the client's ProjectionTimeout, or ctx ends. That ctx ends
// does not keep the outcome from being recorded.
//
// If it cannot be recorded, that is the error, and the handle claims nothing
// more until it is: by calling Settle again, or by the next Claim or Tool.
func (k *Call) Settle(ctx context.Context, outcome json.RawMessage, projector Projector) (Committed, error) {
	if !isObject(outcome) || len(outcome) > outcomeBytesMax {
		return Committed{}, fmt.Errorf("control: an outcome is a JSON object of at most %d bytes", outcomeBytesMax)
	}
	var line bytes.Buffer
	if err := json.Compact(&line, outcome); err != nil {
		return Committed{}, err
	}
	o := &callOutcome{line: append(line.Bytes(), '\n'), done: make(chan struct{})}
	o.project(ctx, k.r.c.projectionTimeout(), projector)
	k.r.mu.Lock()
	k.outcome, k.state = o, callEnded
	k.r.mu.Unlock()
	return k.record(ctx)
}

// record brings the outcome to the daemon, across its restarts.
func (k *Call) record(ctx context.Context) (got Committed, err error) {
	ctx, cancel := k.r.outlasting(ctx)
	defer cancel()
	err = k.r.steady(ctx, func(ctx context.Context) (err error) {
		got, err = k.r.c.sendOutcome(ctx, k.r.id, k.Call, k.outcome)
		return err
	})
	k.r.mu.Lock()
	defer k.r.mu.Unlock()
	switch {
	case err == nil || Code(err) == CodeOutcomeConflict: // the call has ended
		delete(k.r.mu.calls, k.ID)
	default:
		k.state = callStopped
	}
	return got, err
}

// bringOutcomes brings outcomes that could not be recorded.
func (r *Run) bringOutcomes(ctx context.Context) error {
	r.mu.Lock()
	var stopped []*Call
	for _, k := range r.mu.calls {
		if k.state == callStopped {
			stopped = append(stopped, k)
		}
	}
	r.mu.Unlock()
	for _, k := range stopped {
		if _, err := k.record(ctx); err != nil {
			return fmt.Errorf("%w (call %d, %s): %w", ErrUnsettled, k.Call, k.Name, err)
		}
	}
	return nil
}

// outlasting is ctx for what is to be recorded although the caller's time is
// over: it ends a good while after the daemon was waited for.
func (r *Run) outlasting(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(ctx), r.c.patience()+r.c.projectionTimeout()+outcomeTimeout)
}

func (c *Client) projectionTimeout() time.Duration {
	if c.ProjectionTimeout > 0 {
		return c.ProjectionTimeout
	}
	return DefaultProjectionTimeout
}

// callOutcome is an outcome, and the candidate that comes with it or does not.
type callOutcome struct {
	line []byte // the outcome, with its newline

	once      sync.Once
	done      chan struct{} // closed once it is known what is sent
	candidate []byte        // a line; none is sent where it is nil
}

// project races the projector against its time. A candidate that comes later
// goes nowhere.
func (o *callOutcome) project(ctx context.Context, timeout time.Duration, projector Projector) {
	if projector == nil || ctx.Err() != nil {
		o.resolve(nil)
		return
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	context.AfterFunc(ctx, func() { o.resolve(nil) })
	go func() {
		defer cancel()
		o.resolve(candidateOf(ctx, projector, o.line))
	}()
}

func (o *callOutcome) resolve(candidate []byte) {
	o.once.Do(func() {
		o.candidate = candidate
		close(o.done)
	})
}

// candidateOf is what the projector makes, nil if it panics, fails or is late.
func candidateOf(ctx context.Context, projector Projector, line []byte) (candidate []byte) {
	defer func() {
		if recover() != nil {
			candidate = nil
		}
	}()
	b, err := projector(ctx, bytes.TrimSuffix(bytes.Clone(line), []byte("\n")))
	if err != nil || len(b) == 0 || ctx.Err() != nil {
		return nil
	}
	return append(bytes.ReplaceAll(b, []byte("\n"), []byte(" ")), '\n')
}

// sendOutcome sends the outcome's line at once, and the candidate's when that
// is there. It may be sent again at any time: equal ones are one.
func (c *Client) sendOutcome(ctx context.Context, id string, call uint64, o *callOutcome) (Committed, error) {
	k := newOutcomeCall(id, call, o)
	var got Committed
	_, err := c.answer(ctx, k, &got)
	return got, err
}

func newOutcomeCall(id string, number uint64, o *callOutcome) *call {
	return &call{
		method: http.MethodPost, path: runPath(id, "tools", strconv.FormatUint(number, 10), "outcome"),
		header:     http.Header{"Content-Type": {TypeNDJSON}},
		body:       func() (io.Reader, error) { return &outcomeBody{o: o, rest: o.line, closed: make(chan struct{})}, nil },
		bodyBytes:  -1,
		repeatable: true,
	}
}

// outcomeBody is the body of one request: two lines, of which the second is
// waited for.
type outcomeBody struct {
	o    *callOutcome
	rest []byte
	last bool // rest is of the candidate

	once   sync.Once
	closed chan struct{}
}

func (b *outcomeBody) Read(p []byte) (int, error) {
	if len(b.rest) == 0 && !b.last {
		select {
		case <-b.o.done:
			b.rest, b.last = b.o.candidate, true
		case <-b.closed:
			return 0, errors.New("the request is over")
		}
	}
	if len(b.rest) == 0 {
		return 0, io.EOF
	}
	n := copy(p, b.rest)
	b.rest = b.rest[n:]
	return n, nil
}

// Close ends the waiting for the second line: the daemon has answered without
// it.
func (b *outcomeBody) Close() error {
	b.once.Do(func() { close(b.closed) })
	return nil
}
