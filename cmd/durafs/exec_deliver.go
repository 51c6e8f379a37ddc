package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"syscall"
	"time"

	"durafs/cmd/durafs/internal/process"
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
	// open gives the handle of the run: of one that it starts, or that was
	// taken over before. claim says what is run.
	open   func(context.Context) (*control.Run, error)
	claim  control.ToolCall
	safety string
	rows   *spool.Spool
	// keyField of the rows is their key.
	keyField string

	// begun is closed when the first attempt to begin is over, and aborted when
	// the owner has cancelled the run.
	begun, aborted chan struct{}
	abort          func() // closes aborted, once
	// mark takes where the command runs, once, or is closed if it does not.
	mark chan process.Mark
	// outcome takes how the command ended, once.
	outcome chan ending
	// done is closed when the goroutine has ended; err is set before.
	done chan struct{}
	err  error

	// cancel ends the goroutine. It is set before that begins.
	cancel context.CancelFunc
	// first is what the first attempt came to; it is set before begun is
	// closed and not changed any more.
	first error
	// last is why the newest attempt failed; it, run and call are the
	// goroutine's own until begun, and done, is closed.
	last error
	run  *control.Run
	call *control.Call
	// cancelled says that the run ended as its owner wants it; set before done is
	// closed.
	cancelled bool

	// interrupts gives the signals that come when the command has ended.
	interrupts <-chan os.Signal
}

// ending is how the command ended, for the store.
type ending struct {
	settle  control.SettleRequest
	outcome []byte // of its call
	shown   []byte // to a model
	abort   string // how it was ended, if it was
}

func newDelivery(open func(context.Context) (*control.Run, error), claim control.ToolCall, safety string, rows *spool.Spool) *delivery {
	d := &delivery{
		open: open, claim: claim, safety: safety, rows: rows,
		begun: make(chan struct{}), aborted: make(chan struct{}), mark: make(chan process.Mark, 1),
		outcome: make(chan ending, 1), done: make(chan struct{}),
	}
	d.abort = sync.OnceFunc(func() { close(d.aborted) })
	return d
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
	defer func() {
		if d.run != nil {
			d.run.Close()
		}
	}()
	if err := d.start(ctx); err != nil {
		return err
	}
	watching, stop := context.WithCancel(ctx)
	defer stop()
	go func() {
		select {
		case <-d.run.Abort():
			d.abort()
		case <-watching.Done():
		}
	}()
	if err := d.putMark(ctx); err != nil && !isFull(err) && !d.isCancelled(ctx, err) {
		return err
	}
	full := d.deliver(ctx, d.run)
	if full != nil && !isFull(full) && !d.isCancelled(ctx, full) {
		return full
	}
	select {
	case end := <-d.outcome:
		if err := d.end(ctx, end); err != nil || !isFull(full) {
			return err
		}
		return full // it has ended as it should, but for rows that had no room
	case <-ctx.Done():
		return d.why(ctx)
	}
}

// isCancelled reports whether err says that the owner has cancelled the run,
// and lets the command know. Rows are late from then on.
func (d *delivery) isCancelled(ctx context.Context, err error) bool {
	switch control.Code(err) {
	case control.CodeCancelled:
	case control.CodeFinished, "settle-conflict":
		rec, _, err := d.run.Client().Get(ctx, d.run.ID())
		if err != nil || rec.Phase != control.PhaseCancelled {
			return false
		}
		d.cancelled = true
	default:
		return false
	}
	d.abort()
	return true
}

// putMark notes where the command runs, so that whoever finds the run
// interrupted can tell whether it still does.
func (d *delivery) putMark(ctx context.Context) error {
	var m process.Mark
	select {
	case m = <-d.mark:
	case <-ctx.Done():
		return d.why(ctx)
	}
	if len(m.Processes) == 0 {
		return nil
	}
	text, err := json.Marshal(m)
	if err != nil {
		return err
	}
	return d.steadily(ctx, func() error {
		_, err := d.run.Payload(ctx, markName(d.run.Record().Epoch), control.TypeJSON, bytes.NewReader(text))
		if control.Code(err) == "payload-conflict" {
			err = nil // an earlier process of this epoch
		}
		return err
	})
}

// markName is the payload that has where the command runs in an epoch.
func markName(epoch uint64) string { return "process-" + strconv.FormatUint(epoch, 10) }

// end tells the store how the command ended: first the outcome of its call,
// then the end of the run. A cancelled run takes the former, and ends when it
// is told that the command has.
func (d *delivery) end(ctx context.Context, end ending) error {
	err := d.steadily(ctx, func() error {
		_, err := d.call.Settle(ctx, end.outcome, func(context.Context, json.RawMessage) ([]byte, error) { return end.shown, nil })
		return err
	})
	if err != nil && !d.isCancelled(ctx, err) && control.Code(err) != "outcome-conflict" {
		return err
	}
	err = d.steadily(ctx, func() error {
		_, err := d.run.Settle(ctx, end.settle)
		return err
	})
	if control.Code(err) == control.CodeCancelled {
		d.cancelled = true
		err = d.steadily(ctx, func() error {
			_, err := d.run.Client().Abort(ctx, d.run.ID(), end.abort)
			return err
		})
	}
	if err != nil && d.isCancelled(ctx, err) {
		err = nil
	}
	return err
}

// start starts the run and claims the command, at once or as soon as there is
// a daemon.
func (d *delivery) start(ctx context.Context) error {
	d.first = d.startOnce(ctx)
	close(d.begun)
	if d.first == nil {
		return nil
	}
	first := true
	return d.steadily(ctx, func() error {
		if first { // it was tried just now
			first = false
			return d.first
		}
		return d.startOnce(ctx)
	})
}

// startOnce does what is left of both.
func (d *delivery) startOnce(ctx context.Context) (err error) {
	if d.run == nil {
		if d.run, err = d.open(ctx); err != nil {
			return err
		}
	}
	d.call, err = d.run.Claim(ctx, d.claim, d.safety)
	return err
}

// startRun starts a run. A daemon that is away is no reason to wait here: the
// command may be waiting for us.
func startRun(socket string, r control.StartRequest) func(context.Context) (*control.Run, error) {
	c := &control.Client{Socket: socket, Patience: patience}
	return func(ctx context.Context) (*control.Run, error) {
		path, err := c.SocketPath()
		if err != nil {
			return nil, err
		}
		if err := probe(path); err != nil {
			return nil, fmt.Errorf("%w: %w", control.ErrAway, err)
		}
		return c.Run(ctx, r)
	}
}

// deliver sends rows until there will be no more and all are durable.
func (d *delivery) deliver(ctx context.Context, r *control.Run) error {
	acked := uint64(0)
	return d.steadily(ctx, func() (err error) {
		acked, err = r.Deliver(ctx, d.rows, acked, control.StreamOptions{
			Key:   d.keyField,
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
	return ok && !p.Retryable && p.Status < 500 || isFull(err)
}

// isFull reports whether the run is at its bound: it takes no more rows, but its
// end.
func isFull(err error) bool { return control.Code(err) == control.CodeRunBytes }

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
func (d *delivery) finish(end ending, drain time.Duration) error {
	d.outcome <- end
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
