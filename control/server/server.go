package server

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"durafs/internal/clock"
)

// Socket says which of the two sockets a request came by.
type Socket uint8

const (
	// Control is control.sock: owners by uid, everyone else an agent.
	Control Socket = iota
	// Agent is agent.sock: every caller is an agent, whatever its uid.
	Agent
)

// Server answers the API. Its methods may be called concurrently.
type Server struct {
	opt    Options
	limits Limits
	runs   Domain
	log    *slog.Logger
	clock  clock.Clock
	owners map[uint32]bool
	stats  counters

	// closing is closed when Shutdown begins: followers and streams end.
	closing   chan struct{}
	closeOnce sync.Once
	// down is the same as a context.
	down   context.Context
	goDown context.CancelFunc

	// watchers counts the streams of events that are open.
	watchers atomic.Int64

	// large is the memory of bodies and rows beyond their first buffers.
	large budget
	// ahead is the bytes of groups that streams have on their way beyond their
	// first ones.
	ahead atomic.Int64

	mu      sync.Mutex // guards servers
	servers []*http.Server

	unused unused
}

// New makes a server; Serve makes it answer.
func New(opt Options) *Server {
	s := &Server{
		opt:     opt,
		limits:  opt.Limits.withDefaults(),
		runs:    opt.Runs,
		log:     opt.Log,
		clock:   clock.System,
		owners:  map[uint32]bool{0: true, uint32(os.Getuid()): true},
		closing: make(chan struct{}),
	}
	s.down, s.goDown = context.WithCancel(context.Background())
	s.large.max = s.limits.largeBytesMax
	if s.log == nil {
		s.log = slog.New(slog.DiscardHandler)
	}
	for _, uid := range opt.OwnerUIDs {
		s.owners[uid] = true
	}
	return s
}

// Serve answers on l, which is one of the two sockets, until Shutdown; then it
// returns nil. It closes l.
func (s *Server) Serve(l net.Listener, kind Socket) error {
	limited := newLimited(l, s.limits.ConnectionsMax)
	h := &http.Server{
		Handler:           s.handler(kind),
		ReadHeaderTimeout: s.limits.EnvelopeTime,
		IdleTimeout:       s.limits.ConnectionIdle,
		MaxHeaderBytes:    s.limits.HeaderBytesMax,
		ConnContext:       func(ctx context.Context, c net.Conn) context.Context { return withPeer(ctx, c) },
		ConnState:         s.unused.note,
		ErrorLog:          slog.NewLogLogger(s.log.Handler(), slog.LevelDebug),
		// HTTP/1 only: full duplex and deadlines are per connection.
	}
	s.stats.listeners.add(limited)
	s.mu.Lock()
	s.servers = append(s.servers, h)
	s.mu.Unlock()
	if s.isClosing() {
		l.Close()
		return nil
	}
	if err := h.Serve(limited); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// Shutdown ends the serving: no new connections, followers end, streams
// acknowledge what is on its way and end, other requests are answered. When
// ctx ends first, what is left is cut off.
func (s *Server) Shutdown(ctx context.Context) error {
	s.closeOnce.Do(func() { close(s.closing) })
	s.goDown()
	s.mu.Lock()
	servers := s.servers
	s.mu.Unlock()
	var errs []error
	for _, h := range servers {
		late := time.AfterFunc(unusedGrace, s.unused.close)
		if err := h.Shutdown(ctx); err != nil {
			errs = append(errs, err, h.Close())
		}
		late.Stop()
	}
	return errors.Join(errs...)
}

func (s *Server) isClosing() bool {
	select {
	case <-s.closing:
		return true
	default:
		return false
	}
}

// counters are what Stats shows.
type counters struct {
	requests, refused, failed, panics atomic.Uint64
	cut, rows                         atomic.Uint64
	open                              atomic.Int64
	listeners                         listeners
}

// Stats counts what the server did since it was made.
type Stats struct {
	Requests uint64 // answered
	Refused  uint64 // with 4xx
	Failed   uint64 // with 5xx
	Panics   uint64 // handlers that panicked
	Cut      uint64 // senders and readers who were too slow
	Rows     uint64 // acknowledged

	OpenRequests    int64
	OpenConnections int64
}

// Stats tells the counts now.
func (s *Server) Stats() Stats {
	c := &s.stats
	return Stats{
		Requests: c.requests.Load(), Refused: c.refused.Load(), Failed: c.failed.Load(),
		Panics: c.panics.Load(), Cut: c.cut.Load(), Rows: c.rows.Load(),
		OpenRequests: c.open.Load(), OpenConnections: c.listeners.open(),
	}
}
