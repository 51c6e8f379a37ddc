package control

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"sync"
	"time"
)

// ErrAway is matched by errors of requests that never reached a daemon: nobody
// listens on the socket. Nothing was changed.
var ErrAway = errors.New("the durafs daemon is away")

// DefaultPatience is how long what follows a daemon across its restarts (a
// Run's methods, a LogReader) waits for it to come back.
const DefaultPatience = 30 * time.Second

// connectionsIdleMax bounds the idle connections that a client keeps.
const connectionsIdleMax = 64

// Client speaks to a daemon. Its zero value finds the daemon's socket and is
// ready to use; its methods may be called concurrently. Fields are set before
// the first call.
//
// Errors: a *Problem for what the daemon answered, else one that matches
// ErrAway (never sent) or ErrOutcomeUnknown (sent, no answer), else the
// context's. Requests are repeated, a few seconds at most, where that cannot
// do anything twice: when nobody listens, when the daemon says it is busy, and
// when the connection breaks in a read, in a put of a seekable payload, or in
// a request with an idempotency key.
type Client struct {
	// Socket is the path of the daemon's socket; "" for FindSocket's.
	Socket string
	// Writer is the writer token that goes with each request, "" for none.
	Writer string
	// Patience is how long to wait for a daemon that is away, where a method
	// says that it does; 0 for DefaultPatience, negative for not at all.
	Patience time.Duration
	// ProjectionTimeout is how long a projector of Run.Tool may take; 0 for
	// DefaultProjectionTimeout. The daemon waits for 10 s by default itself.
	ProjectionTimeout time.Duration

	once sync.Once
	conn *connection // set by once
}

// connection is what a client shares with those made from it.
type connection struct {
	http http.Client
	err  error // of finding the socket
	path string
}

// WithWriter returns a client that acts with a run's writer token, over the
// same connections.
func (c *Client) WithWriter(token string) *Client {
	d := &Client{Socket: c.Socket, Writer: token, Patience: c.Patience, ProjectionTimeout: c.ProjectionTimeout}
	conn := c.connect()
	d.once.Do(func() { d.conn = conn })
	return d
}

// SocketPath is the socket that the client uses.
func (c *Client) SocketPath() (string, error) {
	conn := c.connect()
	return conn.path, conn.err
}

// CloseIdle closes the connections that are not in use.
func (c *Client) CloseIdle() { c.connect().http.CloseIdleConnections() }

func (c *Client) connect() *connection {
	c.once.Do(func() { c.conn = newConnection(c.Socket) })
	return c.conn
}

func newConnection(path string) *connection {
	conn := &connection{path: path}
	if path == "" {
		conn.path, conn.err = FindSocket()
	}
	conn.http.Transport = &http.Transport{
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return conn.dial(ctx)
		},
		MaxIdleConns:        connectionsIdleMax,
		MaxIdleConnsPerHost: connectionsIdleMax,
		IdleConnTimeout:     time.Minute,
		DisableCompression:  true, // bytes come as they are stored
		ReadBufferSize:      32 << 10,
		WriteBufferSize:     32 << 10,
	}
	return conn
}

// dial marks each failure as ErrAway: no byte of any request was sent.
func (conn *connection) dial(ctx context.Context) (net.Conn, error) {
	if conn.err != nil {
		return nil, fmt.Errorf("%w: %w", ErrAway, conn.err)
	}
	if len(conn.path) > SocketPathBytesMax {
		return nil, fmt.Errorf("socket path %q has %d bytes, a Unix socket's has at most %d: use a shorter or a relative path",
			conn.path, len(conn.path), SocketPathBytesMax)
	}
	var d net.Dialer
	nc, err := d.DialContext(ctx, "unix", conn.path)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrAway, err)
	}
	return nc, nil
}

// patience is the time that c waits for a daemon that is away.
func (c *Client) patience() time.Duration {
	switch {
	case c.Patience < 0:
		return 0
	case c.Patience == 0:
		return DefaultPatience
	}
	return c.Patience
}
