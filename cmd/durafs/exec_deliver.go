package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"durafs/cmd/durafs/internal/output"
	"durafs/cmd/durafs/internal/spool"
	"durafs/control"
	"durafs/internal/daemon"
)

const (
	// startWait is how long a command waits for its run to be durable, where
	// a daemon takes the connection but is slow to answer.
	startWait = 2 * time.Second
	// patience is how long a request waits for a daemon that is away before
	// the delivery looks whether it should go on at all.
	patience = time.Minute
	// Between two attempts the delivery waits for a time from retryMin on,
	// doubling up to retryMax.
	retryMin = 25 * time.Millisecond
	retryMax = time.Second
)

// delivery brings a run to the store from one goroutine: it starts it,
// sends its rows, and settles it, and tries again for as long as that can
// help.
type delivery struct {
	socket  string
	request control.StartRequest
	rows    *spool.Spool

	// begun is closed when the first attempt to start the run is over, and
	// aborted when the owner has cancelled the run.
	begun, aborted chan struct{}
	// outcome takes how the run ended, once.
	outcome chan control.SettleRequest
	// done is closed when the goroutine has ended; err is set before.
	done chan struct{}
	err  error

	// cancel ends the goroutine. It is set before that begins.
	cancel context.CancelFunc
	// first is what the first attempt came to; it is set before begun is
	// closed and not changed any more.
	first error
	// last is why the newest attempt failed; the goroutine's own until done is closed.
	last error

	// interrupts gives the signals that come when the command has ended.
	interrupts <-chan os.Signal
}

func newDelivery(socket string, r control.StartRequest, rows *spool.Spool) *delivery {
	return &delivery{
		socket: socket, request: r, rows: rows,
		begun: make(chan struct{}), aborted: make(chan struct{}),
		outcome: make(chan control.SettleRequest, 1), done: make(chan struct{}),
	}
}

// begin starts the delivery's goroutine.
func (d *delivery) begin(ctx context.Context) {
	ctx, d.cancel = context.WithCancel(ctx)
	go func() {
		defer close(d.done)
		defer d.cancel()
		d.err = d.all(ctx)
	}()
}

func (d *delivery) all(ctx context.Context) error {
	r, err := d.start(ctx)
	if err != nil {
		return err
	}
	defer r.Close()
	watching, stop := context.WithCancel(ctx)
	defer stop()
	go func() {
		select {
		case <-r.Abort():
			close(d.aborted)
		case <-watching.Done():
		}
	}()
	if err := d.deliver(ctx, r); err != nil {
		return err
	}
	select {
	case outcome := <-d.outcome:
		return d.steadily(ctx, func() error {
			_, err := r.Settle(ctx, outcome)
			return err
		})
	case <-ctx.Done():
		return d.why(ctx)
	}
}

// start starts the run, at once or as soon as there is a daemon.
func (d *delivery) start(ctx context.Context) (r *control.Run, err error) {
	r, d.first = d.startOnce(ctx)
	close(d.begun)
	if d.first == nil {
		return r, nil
	}
	first := true
	err = d.steadily(ctx, func() error {
		if first { // it was tried just now
			first = false
			return d.first
		}
		r, err = d.startOnce(ctx)
		return err
	})
	return r, err
}

// startOnce asks once. A daemon that is away is no reason to wait here: the
// command may be waiting for us.
func (d *delivery) startOnce(ctx context.Context) (*control.Run, error) {
	c := &control.Client{Socket: d.socket, Patience: patience}
	path, err := c.SocketPath()
	if err != nil {
		return nil, err
	}
	if err := probe(path); err != nil {
		return nil, fmt.Errorf("%w: %w", control.ErrAway, err)
	}
	return c.Run(ctx, d.request)
}

// deliver sends rows until there will be no more and all are durable.
func (d *delivery) deliver(ctx context.Context, r *control.Run) error {
	acked := uint64(0)
	return d.steadily(ctx, func() (err error) {
		acked, err = r.Deliver(ctx, d.rows, acked, control.StreamOptions{
			Key:   output.KeyField,
			OnAck: func(n, _ uint64) { d.rows.Ack(n) },
		})
		return err
	})
}

// steadily repeats step until it succeeds, ctx ends, or repeating is of no use.
func (d *delivery) steadily(ctx context.Context, step func() error) error {
	for wait := retryMin; ; wait = min(2*wait, retryMax) {
		err := step()
		switch {
		case err == nil:
			return nil
		case ctx.Err() != nil:
			return d.why(ctx)
		case hopeless(err):
			return err
		}
		d.last = err
		select {
		case <-time.After(wait/2 + rand.N(wait/2)):
		case <-ctx.Done():
			return d.why(ctx)
		}
	}
}

// why is the reason for having to give up: the newest failure, which tells
// more than that time was over.
func (d *delivery) why(ctx context.Context) error {
	if d.last != nil {
		return d.last
	}
	return ctx.Err()
}

// hopeless reports whether the store has said no, for good.
func hopeless(err error) bool {
	p, ok := errors.AsType[*control.Problem](err)
	return ok && !p.Retryable && p.Status < 500
}

// refused is the store's final no to the run, if that is what the first
// attempt to start it came to by now.
func (d *delivery) refused() error {
	select {
	case <-d.begun:
		if d.first != nil && hopeless(d.first) {
			return d.first
		}
	default:
	}
	return nil
}

// finish hands over how the run ended and waits for the delivery, for drain at
// most, or until someone interrupts us. It returns why not everything was
// delivered.
func (d *delivery) finish(outcome control.SettleRequest, drain time.Duration) error {
	d.outcome <- outcome
	timeout := time.After(drain)
	for {
		select {
		case <-d.done:
			return d.err
		case sig := <-d.interrupts:
			if !ends(sig) {
				continue
			}
		case <-timeout:
		}
		break
	}
	d.cancel()
	<-d.done
	return d.err
}

// ends reports whether a signal asks a process to end.
func ends(sig os.Signal) bool {
	switch sig {
	case syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT:
		return true
	}
	return false
}

// agentSocket is the agents' socket that goes with what a client would use,
// absolute, whether or not it is there now.
func agentSocket(socket string) string {
	path, err := (&control.Client{Socket: socket}).SocketPath()
	if err != nil {
		path = filepath.Join(".durafs", control.SocketName)
	}
	if abs, err := filepath.Abs(path); err == nil {
		path = abs
	}
	return daemon.AgentSocket(path)
}
