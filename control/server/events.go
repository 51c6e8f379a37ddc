package server

import (
	"context"
	"encoding/json"
	"errors"
	"math"
	"net/http"
	"strconv"
	"time"

	"durafs/control"
	"durafs/runs"
)

// eventsPing is how often a stream of events that has nothing to tell says so,
// which shows a reader who is gone.
const eventsPing = 15 * time.Second

// eventBody is control.Event as it is sent.
type eventBody struct {
	Event    runs.EventKind `json:"event"`
	ID       string         `json:"id,omitempty"`
	Record   *runs.Record   `json:"record,omitempty"`
	Records  []*runs.Record `json:"records,omitzero"`
	More     bool           `json:"more,omitempty"`
	Offer    *runs.Offer    `json:"offer,omitempty"`
	Position uint64         `json:"position,omitempty"`
}

// events is GET /v1/events?after=&run=&thread=: server-sent events, without
// end. A reader has no buffer here: it is told from a ring that all readers
// share, at its own pace, and one that the ring has left behind begins anew
// with resync. So one who stops reading costs its connection, until ReadIdle
// ends that.
func (r *request) events() error {
	q, err := r.watchQuery()
	if err != nil {
		return err
	}
	if n := r.s.watchers.Add(1); n > int64(r.s.watchersMax()) {
		r.s.watchers.Add(-1)
		p := problem(http.StatusServiceUnavailable, control.CodeTooManyRequests, "as many streams of events are open as the daemon takes")
		p.Limit, p.Retryable = int64(r.s.watchersMax()), true
		return p
	}
	defer r.s.watchers.Add(-1)
	w, err := r.s.runs.Watch(r.caller, q)
	if err != nil {
		return err
	}
	r.beginEvents()
	if r.Method == http.MethodHead {
		return nil
	}
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	defer context.AfterFunc(r.s.down, cancel)()
	for {
		ev, err := nextEvent(ctx, w)
		switch {
		case ctx.Err() != nil:
			return nil // the reader is gone, or the daemon goes down: it asks again
		case errors.Is(err, context.DeadlineExceeded):
			err = r.sendEvent([]byte(":\n\n"))
		case runs.CodeOf(err) == runs.StaleWriter:
			return nil // who asks again is told why
		case err != nil:
			r.s.log.Error("events cut short", "path", r.URL.Path, "err", err)
			panic(http.ErrAbortHandler)
		default:
			err = r.sendEvent(eventText(ev))
		}
		if err != nil {
			panic(http.ErrAbortHandler) // the reader is gone, or too slow
		}
	}
}

// watchersMax leaves room for other requests beside those that never end.
func (s *Server) watchersMax() int { return max(1, s.limits.RequestsMax/2) }

// nextEvent waits for the next event, or for the time of a ping.
func nextEvent(ctx context.Context, w *runs.Watcher) (runs.Event, error) {
	ctx, cancel := context.WithTimeout(ctx, eventsPing)
	defer cancel()
	return w.Next(ctx)
}

// watchQuery reads what to watch, and from where on: a reader that comes back by
// itself says it in a header, beside the query that it first came with.
func (r *request) watchQuery() (runs.WatchQuery, error) {
	v := r.query([]string{"after", "run", "thread"})
	q := runs.WatchQuery{Run: v.str("run"), Thread: v.str("thread")}
	if v.v.Has("after") {
		after := v.num("after", math.MaxUint64)
		q.After = &after
	}
	if v.err != nil {
		return q, v.err
	}
	last, err := r.header1(control.HeaderLastEventID)
	if err != nil || last == "" {
		return q, err
	}
	after, err := strconv.ParseUint(last, 10, 64)
	if err != nil {
		p := problem(http.StatusBadRequest, control.CodeBadHeader, "the header "+control.HeaderLastEventID+" has the id of an event, a number")
		p.Field = control.HeaderLastEventID
		return q, p
	}
	q.After = &after
	return q, nil
}

func (r *request) beginEvents() {
	h := r.w.Header()
	h["Content-Type"] = []string{control.TypeEvents}
	h["Cache-Control"] = []string{"no-store"}
	r.began = true
	r.readerMayTake()
	r.w.WriteHeader(http.StatusOK)
	r.ctl.Flush()
}

func (r *request) sendEvent(text []byte) error {
	r.readerMayTake()
	if _, err := r.w.Write(text); err != nil {
		return err
	}
	return r.ctl.Flush()
}

// eventText is an event in the form of the standard: its kind, an id where a
// reader may go on behind it, and one line of JSON.
func eventText(ev runs.Event) []byte {
	b := append([]byte("event: "), ev.Kind...)
	if ev.Position != 0 {
		b = strconv.AppendUint(append(b, "\nid: "...), ev.Position, 10)
	}
	data, _ := json.Marshal(eventBody{ev.Kind, ev.ID, ev.Record, ev.Records, ev.More, ev.Offer, ev.Position}) // strings and numbers only
	b = append(append(b, "\ndata: "...), data...)
	return append(b, "\n\n"...)
}
