package daemon

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"durafs/control/server"
	"durafs/store"
)

// socketMode lets nobody in but the daemon's own user, and root. With a group,
// its members come in too.
const socketMode = 0o600

// AgentSocket is the path of the agents' socket that belongs to a control
// socket: agent.sock beside control.sock, NAME-agent.sock beside NAME.sock.
// Given an agents' socket it is that one.
func AgentSocket(control string) string {
	dir, name := filepath.Split(control)
	switch {
	case name == store.ControlName:
		return dir + store.AgentName
	case name == store.AgentName, strings.HasSuffix(name, "-"+store.AgentName):
		return control
	}
	return dir + strings.TrimSuffix(name, ".sock") + "-agent.sock"
}

// listen makes both sockets. The store's lock is held, so a socket that is
// there was left behind, unless --socket names one of another store.
//
// For a group's members the sockets are made like those for nobody, and then
// opened to them: see server.Share.
func (l *life) listen(context.Context) (err error) {
	d := l.d
	if d.group == noGroup {
		if err := os.MkdirAll(filepath.Dir(d.config.Socket), 0o700); err != nil {
			return err
		}
	}
	for _, path := range []string{d.config.Socket, AgentSocket(d.config.Socket)} {
		if answers(path) {
			return &SocketInUseError{path}
		}
	}
	if l.control, err = l.listenAt(d.config.Socket); err != nil {
		return err
	}
	l.agent, err = l.listenAt(AgentSocket(d.config.Socket))
	return err
}

// listenAt makes one socket, which is closed, and removed, with the rest.
func (l *life) listenAt(path string) (*net.UnixListener, error) {
	on, err := server.Listen(path, socketMode)
	if err != nil {
		return nil, fmt.Errorf("cannot listen: %w", err)
	}
	l.undo = append(l.undo, closed(on.Close))
	if l.d.group == noGroup {
		return on, nil
	}
	if err := server.Share(path, l.d.group); err != nil {
		return nil, fmt.Errorf("cannot share the socket with group %s: %w", l.d.config.SocketGroup, err)
	}
	return on, nil
}

// SocketInUseError says that somebody listens on a socket that was to be made:
// the daemon of another store, whose clients would find themselves here, and
// later find nothing.
type SocketInUseError struct{ Path string }

func (e *SocketInUseError) Error() string {
	return fmt.Sprintf("somebody else listens on %s: give each store a socket of its own with --socket", e.Path)
}

// closed is close for something that may be closed already.
func closed(close func() error) func() error {
	return func() error {
		if err := close(); err != nil && !errors.Is(err, net.ErrClosed) {
			return err
		}
		return nil
	}
}

// makeLink leaves the control socket's path where clients look that were told
// nothing. Another daemon of the same user may have left its own there: it is
// replaced if nobody answers behind it, and else stays.
func (d *Daemon) makeLink() {
	if d.config.RuntimeDir == "" {
		return
	}
	link := filepath.Join(d.config.RuntimeDir, "durafs", store.ControlName)
	if err := replaceLink(link, d.config.Socket); err != nil {
		d.log.Warn("no link to the socket", "link", link, "err", err)
		return
	}
	d.link = link
}

// unlink takes the link away again, if there is one.
func (d *Daemon) unlink() error {
	if d.link == "" {
		return nil
	}
	return removeLink(d.link, d.config.Socket)
}

func replaceLink(link, socket string) error {
	if err := os.MkdirAll(filepath.Dir(link), 0o700); err != nil {
		return err
	}
	if fi, err := os.Lstat(link); err == nil {
		switch {
		case fi.Mode()&fs.ModeSymlink == 0:
			return errors.New("something that is no link has this name")
		case answers(link):
			return errors.New("another daemon has left its own")
		}
		if err := os.Remove(link); err != nil {
			return err
		}
	}
	return os.Symlink(socket, link)
}

// removeLink removes the link if it is still ours.
func removeLink(link, socket string) error {
	if to, err := os.Readlink(link); err != nil || to != socket {
		return nil
	}
	return os.Remove(link)
}

// answers reports whether somebody listens on a socket.
func answers(path string) bool {
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		return false
	}
	defer unix.Close(fd)
	err = unix.Connect(fd, &unix.SockaddrUnix{Name: path})
	return err == nil || err == unix.EAGAIN // a full queue has a listener
}
