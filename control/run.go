package control

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"
)

const (
	// beatEvery is how often a Run beats, unless a third of its lease is less.
	beatEvery = 15 * time.Second
	// beatTimeout bounds one beat, so that a daemon that hangs does not keep
	// the next beat from trying.
	beatTimeout = 10 * time.Second
)

// Run is a handle for one run that this process is the agent of. It keeps the
// writer token, in memory only, and beats. When the daemon was restarted, or
// the run was silent for longer than its lease, it attaches: it takes the run
// back, and repeats what was not acknowledged. While the daemon is away its
// methods wait, for the client's Patience.
//
// The run's rows are written once: a row with a key is found by the daemon,
// and a row without one is looked for in the log before it is repeated. That
// holds as long as this handle is the only writer of rows without keys.
//
// Its methods may be called concurrently. Close ends the beating, not the run.
type Run struct {
	c  *Client
	id string

	wanted context.Context // ends when the owner cancelled the run
	abort  context.CancelFunc
	live   context.Context // until Close, or the end of the run
	stop   context.CancelFunc
	done   chan struct{} // closed when the beating goroutine has ended

	listening sync.WaitGroup // for the goroutine that listens for an abort

	attaching sync.Mutex // one attach at a time
	rows      sync.Mutex // one row without a key, or stream, at a time

	mu struct { // guards what follows
		sync.Mutex
		record   *Record
		epoch    uint64
		attached uint64 // how often the run was taken back
		lastSeq  uint64 // highest sequence number that this handle knows of
		listens  bool   // for an abort
		lost     error  // why the handle is of no use any more
		// calls are those of this handle that are not committed, by label.
		calls map[string]*Call
		// inherited are the calls that were open when the handle was made: what
		// ran them is gone.
		inherited map[uint64]bool
	}
}

// Run starts a run and returns the handle for it. ctx is for the start only.
func (c *Client) Run(ctx context.Context, r StartRequest) (*Run, error) {
	s, err := c.Start(ctx, r)
	if err != nil {
		return nil, err
	}
	if s.Writer == "" {
		return nil, fmt.Errorf("run %s was started before with this idempotency key, and has gone on: its writer is not given again", s.Record.ID)
	}
	return c.WithWriter(s.Writer).Adopt(ctx, s.Record.ID)
}

// Adopt returns the handle for a run that was started elsewhere, with the
// client's Writer token: it reads the record once, and begins to beat. Calls
// that are open then are taken to have ended with whoever ran them.
func (c *Client) Adopt(ctx context.Context, id string) (*Run, error) {
	if c.Writer == "" {
		return nil, errors.New("control: a run is adopted with its writer token")
	}
	rec, _, err := c.Get(ctx, id)
	if err != nil {
		return nil, err
	}
	r := &Run{c: c, id: id, done: make(chan struct{})}
	r.wanted, r.abort = context.WithCancel(context.Background())
	r.mu.calls, r.mu.inherited = map[string]*Call{}, map[uint64]bool{}
	for _, o := range rec.OpenCalls {
		r.mu.inherited[o.Call] = true
	}
	r.note(rec)
	r.saw(rec.Log.LastSeq)
	r.live, r.stop = context.WithCancel(context.Background())
	go r.beats(r.live, beatInterval(rec.LeaseMS))
	return r, nil
}

// ID is the run's id.
func (r *Run) ID() string { return r.id }

// Token is the run's writer token, for a process that acts for the run.
func (r *Run) Token() string { return r.c.Writer }

// Client is a client that acts with the run's writer token.
func (r *Run) Client() *Client { return r.c }

// Record is the run's record as it was last answered.
func (r *Run) Record() *Record {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.mu.record
}

// Abort is closed once the handle learns that the owner cancelled the run: from
// a beat, and from the first call of Abort on also from a stream of events,
// which says it at once.
func (r *Run) Abort() <-chan struct{} {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.mu.listens && r.live.Err() == nil {
		r.mu.listens = true
		r.listening.Go(r.listen)
	}
	return r.wanted.Done()
}

// Attached counts how often the handle took the run back.
func (r *Run) Attached() uint64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.mu.attached
}

// Lost tells why the handle cannot write any more (another writer took over,
// the run is finished), nil while it can.
func (r *Run) Lost() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.mu.lost
}

// Close stops beating. The run goes on; without beats its lease will expire.
func (r *Run) Close() error {
	r.mu.Lock()
	r.stop() // from here on nobody begins to listen
	r.mu.Unlock()
	<-r.done
	r.listening.Wait()
	return nil
}

// Payload stores a payload, see Client.Put. A reader that cannot seek is read
// once: if the daemon goes away in the midst of it, that is the error.
func (r *Run) Payload(ctx context.Context, name, contentType string, rd io.Reader) (Put, error) {
	// One call for all attempts: it alone knows where rd stood at first, and
	// whether something was read from it.
	k, err := putCall(r.id, name, contentType, rd)
	if err != nil {
		return Put{}, err
	}
	var p Put
	err = r.steady(ctx, func(ctx context.Context) error {
		_, err := r.c.answer(ctx, k, &p)
		return err
	})
	return p, err
}

// Settle ends the run, see Client.Settle, and then the beating.
func (r *Run) Settle(ctx context.Context, q SettleRequest) (Settled, error) {
	var s Settled
	err := r.steady(ctx, func(ctx context.Context) (err error) {
		s, err = r.c.Settle(ctx, r.id, q)
		return err
	})
	if err == nil {
		r.note(s.Record)
		r.stop()
	}
	return s, err
}

// Beat beats now, with a note.
func (r *Run) Beat(ctx context.Context, note string) error {
	return r.steady(ctx, func(ctx context.Context) error {
		b, err := r.c.Beat(ctx, r.id, note)
		if err == nil {
			r.beaten(b)
		}
		return err
	})
}

// note keeps what an answer tells of the run.
func (r *Run) note(rec *Record) {
	if rec == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.mu.record, r.mu.epoch = rec, rec.Epoch
}
