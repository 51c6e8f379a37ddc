package control

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
)

// The kinds of events.
const (
	// EventSnapshot has records as they are; the last of a snapshot has no
	// More.
	EventSnapshot = "snapshot"
	// EventRecord is a revision of a record.
	EventRecord = "record"
	// EventRemoved tells of a run whose admission was undone.
	EventRemoved = "removed"
	// EventAbort asks the run's agent to abort.
	EventAbort = "abort"
	// EventOffer tells that a paused run may be resumed now.
	EventOffer = "offer"
	// EventResync says that changes were missed: what was kept is to be
	// forgotten, and a snapshot follows.
	EventResync = "resync"
)

// Event is one thing that a watcher is told. What has a Position was durable
// before it was told.
type Event struct {
	Kind    string    `json:"event"`
	ID      string    `json:"id,omitempty"`      // of the run
	Record  *Record   `json:"record,omitempty"`  // of a record
	Records []*Record `json:"records,omitempty"` // of a snapshot
	More    bool      `json:"more,omitempty"`    // of a snapshot
	Offer   *Offer    `json:"offer,omitempty"`
	// Position is what WatchQuery.After takes to go on behind this event, 0 for
	// an event that has none.
	Position uint64 `json:"position,omitempty"`
}

// WatchQuery says what to watch: one run, one thread, or every run that is not
// finished.
type WatchQuery struct {
	Run, Thread string
	// After goes on behind the Position that an earlier watcher was told; nil
	// begins with a snapshot.
	After *uint64
}

// eventBytesMax bounds an event that is read as a whole.
const eventBytesMax = 16 << 20

// Watch tells of changes as they become durable, without end. It needs an owner,
// or the writer token of the run that is named. Errors of the first request are
// returned here. The caller closes the watcher.
func (c *Client) Watch(ctx context.Context, q WatchQuery) (*Watcher, error) {
	ctx, cancel := context.WithCancel(ctx)
	w := &Watcher{c: c, ctx: ctx, cancel: cancel, q: q, since: map[string]uint64{}, shown: map[string]uint64{}}
	if err := w.open(); err != nil {
		cancel()
		return nil, err
	}
	return w, nil
}

// Watcher is told of changes, each revision of a run once and in order: when the
// connection breaks or the daemon is restarted it goes on where it was, and
// waits for the client's Patience for the daemon to come back. It is for one
// goroutine; Close may be called from another.
//
// Offers and requests to abort are of the moment and not repeated, but for an
// abort that still stands: after a restart Resumable has the offers.
type Watcher struct {
	c      *Client
	ctx    context.Context
	cancel context.CancelFunc
	q      WatchQuery
	body   io.ReadCloser
	r      *bufio.Reader

	// What would be told again after a broken connection: since are the
	// revisions told behind q.After, and shown those of the snapshot, which has
	// records that are newer than its position.
	since, shown map[string]uint64
	line         []byte
}

// Next waits for the next event.
func (w *Watcher) Next() (Event, error) {
	for {
		ev, err := w.read()
		if err != nil {
			if err := w.reopen(err); err != nil {
				return Event{}, err
			}
			continue
		}
		if w.take(&ev) {
			return ev, nil
		}
	}
}

// Close ends the watching.
func (w *Watcher) Close() error {
	w.cancel()
	return nil
}

// take notes how far the telling is, and leaves out what was told before.
func (w *Watcher) take(ev *Event) bool {
	fresh := true
	switch ev.Kind {
	case EventResync:
		w.q.After, w.since, w.shown = nil, map[string]uint64{}, map[string]uint64{}
	case EventSnapshot:
		for _, rec := range ev.Records {
			w.shown[rec.ID] = rec.Revision
		}
	case EventRecord:
		if ev.Record == nil {
			break
		}
		revision := ev.Record.Revision
		if fresh = revision > max(w.since[ev.ID], w.shown[ev.ID]); fresh {
			w.since[ev.ID] = revision
			delete(w.shown, ev.ID)
		}
	case EventRemoved:
		delete(w.since, ev.ID)
		delete(w.shown, ev.ID)
	}
	if ev.Position != 0 {
		at := ev.Position
		w.q.After = &at
		clear(w.since)
	}
	return fresh
}

func (w *Watcher) open() error {
	k := &call{method: http.MethodGet, path: "/v1/events", query: w.q.values(), repeatable: true}
	resp, err := w.c.do(w.ctx, k)
	if err != nil {
		return err
	}
	w.body = resp.Body // ends with w.ctx
	w.r = bufio.NewReaderSize(resp.Body, 64<<10)
	return nil
}

// reopen goes on behind the last position that was told, after err.
func (w *Watcher) reopen(err error) error {
	w.body.Close()
	if w.ctx.Err() != nil {
		return w.ctx.Err()
	}
	if errors.Is(err, errBadEvent) {
		return err
	}
	ctx, cancel := context.WithTimeout(w.ctx, w.c.patience())
	defer cancel()
	var wait backoff
	for {
		if wait.sleep(ctx, err) != nil {
			return err
		}
		openErr := w.open()
		if openErr == nil || !isAway(openErr) {
			return openErr
		}
		err = openErr
	}
}

var errBadEvent = errors.New("control: an event is not what it should be")

// read reads one event. Comments, and fields that have no use here, are passed
// over.
func (w *Watcher) read() (ev Event, err error) {
	var data []byte
	for {
		line, err := w.readLine()
		if err != nil {
			return ev, err
		}
		if text, ok := bytes.CutPrefix(line, []byte("data:")); ok {
			if data = append(data, text...); len(data) > eventBytesMax {
				return ev, fmt.Errorf("%w: it has more than %d bytes", errBadEvent, eventBytesMax)
			}
		}
		if len(line) > 0 || data == nil {
			continue
		}
		if err := json.Unmarshal(data, &ev); err != nil {
			return ev, fmt.Errorf("%w: %w", errBadEvent, err)
		}
		return ev, nil
	}
}

// readLine reads a line, which is valid until the next call.
func (w *Watcher) readLine() ([]byte, error) {
	w.line = w.line[:0]
	for {
		part, err := w.r.ReadSlice('\n')
		w.line = append(w.line, part...)
		switch {
		case len(w.line) > eventBytesMax:
			return nil, fmt.Errorf("%w: a line has more than %d bytes", errBadEvent, eventBytesMax)
		case err == nil:
			return bytes.TrimRight(w.line, "\r\n"), nil
		case err != bufio.ErrBufferFull:
			return nil, err
		}
	}
}

func (q WatchQuery) values() url.Values {
	v := url.Values{}
	if q.Run != "" {
		v.Set("run", q.Run)
	}
	if q.Thread != "" {
		v.Set("thread", q.Thread)
	}
	if q.After != nil {
		v.Set("after", strconv.FormatUint(*q.After, 10))
	}
	return v
}
