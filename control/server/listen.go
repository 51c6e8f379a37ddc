package server

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"sync"
	"sync/atomic"

	"golang.org/x/sys/unix"

	"durafs/control"
)

// PathError says that a socket cannot be made at a path.
type PathError struct {
	Path   string
	Reason string
}

func (e *PathError) Error() string { return fmt.Sprintf("socket %s: %s", e.Path, e.Reason) }

// umasking is held while the process's umask is another one.
var umasking sync.Mutex

// Listen makes a Unix socket at path with mode. The caller holds the lock of
// the store that the socket belongs to: a socket that is there was left by a
// process that has ended, and is removed. What is there and is no socket is
// left alone.
//
// The socket is bound under a umask, so that at no moment it is open to more
// than mode says.
func Listen(path string, mode fs.FileMode) (*net.UnixListener, error) {
	if len(path) > control.SocketPathBytesMax {
		return nil, &PathError{path, fmt.Sprintf("the path has %d bytes, and a Unix socket's has at most %d; choose a shorter one with --socket, or a shorter store directory",
			len(path), control.SocketPathBytesMax)}
	}
	if err := removeStale(path); err != nil {
		return nil, err
	}
	umasking.Lock()
	old := unix.Umask(int(^mode.Perm() & 0o777))
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	unix.Umask(old)
	umasking.Unlock()
	if err != nil {
		return nil, err
	}
	return l, nil
}

// Share lets the members of a group connect to a socket that Listen made with
// mode 0600, and nobody else:
//
//	lchown   the group, while the mode gives it nothing
//	chmod    0660: to connect is to write
//
// Until the second call it is what Listen made it, so that at no moment others
// reach it. That this process may give a file to the group is the system's to
// grant: to root, and to its members.
func Share(path string, gid int) error {
	if err := os.Lchown(path, -1, gid); err != nil {
		return err
	}
	return os.Chmod(path, sharedMode)
}

const sharedMode fs.FileMode = 0o660

func removeStale(path string) error {
	fi, err := os.Lstat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return err
	case fi.Mode()&os.ModeSocket == 0:
		return &PathError{path, "something that is no socket has this name; move it away"}
	}
	return os.Remove(path)
}

// rejectMax is how many connections beyond the limit are taken, to be told so,
// before others wait to be accepted.
const rejectMax = 64

// limited is a listener with a bound on its open connections.
type limited struct {
	net.Listener
	slots chan struct{} // one per open connection, those to be rejected too
	max   int64
	count atomic.Int64
	done  chan struct{}
	once  sync.Once
}

func newLimited(l net.Listener, max int) *limited {
	return &limited{Listener: l, max: int64(max), slots: make(chan struct{}, max+rejectMax), done: make(chan struct{})}
}

func (l *limited) Accept() (net.Conn, error) {
	select {
	case l.slots <- struct{}{}:
	case <-l.done:
		return nil, net.ErrClosed
	}
	c, err := l.Listener.Accept()
	if err != nil {
		<-l.slots
		return nil, err
	}
	return &conn{Conn: c, l: l, over: l.count.Add(1) > l.max}, nil
}

func (l *limited) Close() error {
	l.once.Do(func() { close(l.done) })
	return l.Listener.Close()
}

// conn is a connection that gives its slot back when it is closed.
type conn struct {
	net.Conn
	l    *limited
	once sync.Once
	over bool // beyond the limit: its first request is refused
}

func (c *conn) Close() error {
	c.once.Do(func() {
		c.l.count.Add(-1)
		<-c.l.slots
	})
	return c.Conn.Close()
}

// listeners sums up open connections.
type listeners struct {
	mu sync.Mutex
	ls []*limited
}

func (l *listeners) add(x *limited) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.ls = append(l.ls, x)
}

func (l *listeners) open() (n int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, x := range l.ls {
		n += x.count.Load()
	}
	return n
}
