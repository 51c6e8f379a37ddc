// Package server answers the control API of one store on its Unix sockets.
//
// # The idea
//
// A request passes one door (door.go): who is it (the kernel tells the peer's
// uid), is there room, which route of the one table (routes.go) is meant, may
// this caller take it. Behind the door a handler reads its body strictly and
// within a bound, calls one method of the domain, and answers; there is no
// state here. Whatever goes wrong becomes application/problem+json through one
// table (problems.go).
//
// Nothing that a client does or leaves undone may hold up another one: bodies
// have bounds, senders and readers who stop are cut off, a stream's rows are
// read whether or not its acknowledgements are, and the number of connections
// and of open requests is bounded per socket.
//
// Goroutines: one per connection (net/http's), and three per streamed append
// (stream.go). They end with their requests.
package server

import (
	"context"
	"io"
	"log/slog"
	"net/http"
	"time"

	"durafs/runs"
)

// Domain is what the handlers need of the store; *runs.Store is one.
type Domain interface {
	Start(ctx context.Context, c runs.Caller, r runs.StartRequest) (runs.Started, error)
	Beat(ctx context.Context, c runs.Caller, id, note string) (*runs.Record, error)
	Append(ctx context.Context, c runs.Caller, id string, rows []runs.Row, keyField string) (runs.Appended, error)
	AppendStart(ctx context.Context, c runs.Caller, id string, rows []runs.Row, keyField string, ch *runs.Chain) (func(context.Context) (runs.Appended, error), error)
	EndChain(ch *runs.Chain)
	Put(ctx context.Context, c runs.Caller, id, name string, source runs.Source, contentType string, r io.Reader) (runs.PayloadInfo, bool, error)
	Claim(ctx context.Context, c runs.Caller, id string, r runs.ClaimRequest) (runs.Claimed, error)
	Again(ctx context.Context, c runs.Caller, id string, r runs.AgainRequest) (runs.Claimed, error)
	Outcome(ctx context.Context, c runs.Caller, id string, r runs.OutcomeRequest) (runs.Committed, error)
	Settle(ctx context.Context, c runs.Caller, id string, r runs.SettleRequest) (runs.Settled, error)
	Attach(ctx context.Context, c runs.Caller, id string, r runs.AttachRequest) (runs.Started, error)
	Get(c runs.Caller, id string) (*runs.Record, string, error)
	List(c runs.Caller, q runs.ListQuery) (runs.Page, error)
	Look(c runs.Caller, id string) (runs.Ref, error)
	Info(ref runs.Ref) (runs.Run, bool)
	ReadLogAt(ref runs.Ref, p []byte, off int64) (int, error)
	LogOffset(ref runs.Ref, seq uint64) (int64, error)
	History(ctx context.Context, ref runs.Ref, r runs.HistoryRequest, w io.Writer) error
	PayloadInfo(ref runs.Ref, name string) (runs.PayloadInfo, error)
	OpenPayload(ref runs.Ref, name string) (runs.PayloadReader, error)
	Changed(ref runs.Ref) <-chan struct{}

	lifecycle
	outbox
	Watch(c runs.Caller, q runs.WatchQuery) (*runs.Watcher, error)
	Threads(c runs.Caller, after string, limit int) ([]runs.ThreadInfo, bool, error)
	Thread(c runs.Caller, name string, before uint64, limit int) (runs.ThreadPage, error)
	Post(ctx context.Context, c runs.Caller, name string, r runs.PostRequest) (runs.Posted, error)
	Journal(c runs.Caller, target string, after uint64) ([]runs.JournalRow, error)
	Targets(c runs.Caller) ([]runs.Target, error)
	Enrol(ctx context.Context, c runs.Caller, name string, enrolled bool) (runs.Target, error)
}

var _ Domain = (*runs.Store)(nil)

// Options of New.
type Options struct {
	// Runs is the domain: a *runs.Store.
	Runs Domain
	// Status answers GET /v1/status: a value that marshals to a JSON object.
	Status func() any
	// Healthy is nil, or why the store takes no more writes.
	Healthy func() error
	// Metrics answers GET /metrics; nil for none.
	Metrics http.Handler
	// Reset empties the store, and returns when the next one is there; nil where
	// that is not offered. The server is shut down meanwhile, but for the request
	// that asked.
	Reset func(ctx context.Context, c runs.Caller, r ResetRequest) (ResetDone, error)
	// Compact gives back the room of what nothing refers to, and returns when that
	// is done; nil where that is not offered.
	Compact func(ctx context.Context) (CompactDone, error)
	// OwnerUIDs are owners on the control socket besides the daemon's own uid
	// and root.
	OwnerUIDs []uint32
	// Log is told of panics and of answers of 500 and above; nil discards.
	Log *slog.Logger
	// Limits; zero fields take the defaults.
	Limits Limits
}

// Limits bound what clients can ask for. All are per socket, so that what
// agents do on theirs leaves room on the owner's.
type Limits struct {
	HeaderBytesMax   int // of a request's line and header
	EnvelopeBytesMax int64
	RowBytesMax      int64
	ConnectionsMax   int
	RequestsMax      int // open at the same time
	// SendIdle is how long a sender may pause within a body (in a stream:
	// within a row), ReadIdle how long a reader may leave an answer unread.
	SendIdle, ReadIdle time.Duration
	// EnvelopeTime is how long a whole JSON envelope may take to arrive.
	EnvelopeTime time.Duration
	// ConnectionIdle is how long a connection may be open without a request.
	ConnectionIdle time.Duration

	largeBytesMax int64 // of memory for large rows, all together
	busyTries     int   // how often a stream tries again when the queue is full
}

// DefaultLimits are used where Options leave them zero.
var DefaultLimits = Limits{
	HeaderBytesMax:   32 << 10,
	EnvelopeBytesMax: 1 << 20,
	RowBytesMax:      32 << 20,
	ConnectionsMax:   1000,
	RequestsMax:      1000,
	SendIdle:         30 * time.Second,
	ReadIdle:         2 * time.Minute,
	EnvelopeTime:     30 * time.Second,
	ConnectionIdle:   2 * time.Minute,
	largeBytesMax:    256 << 20,
	busyTries:        busyTriesMax,
}

func (l Limits) withDefaults() Limits {
	d := DefaultLimits
	set(&l.HeaderBytesMax, d.HeaderBytesMax)
	set(&l.EnvelopeBytesMax, d.EnvelopeBytesMax)
	set(&l.RowBytesMax, d.RowBytesMax)
	set(&l.ConnectionsMax, d.ConnectionsMax)
	set(&l.RequestsMax, d.RequestsMax)
	set(&l.SendIdle, d.SendIdle)
	set(&l.ReadIdle, d.ReadIdle)
	set(&l.EnvelopeTime, d.EnvelopeTime)
	set(&l.ConnectionIdle, d.ConnectionIdle)
	set(&l.largeBytesMax, d.largeBytesMax)
	set(&l.busyTries, d.busyTries)
	return l
}

func set[T comparable](v *T, dflt T) {
	var zero T
	if *v == zero {
		*v = dflt
	}
}
