package server

import (
	"context"
	"net"
	"net/http"

	"golang.org/x/sys/unix"

	"durafs/control"
	"durafs/runs"
)

// peer is what the kernel knows of who is at the other end of a connection.
type peer struct {
	uid   uint32
	known bool
	over  bool // the connection is beyond the limit
}

type peerKey struct{}

// withPeer notes the peer of a new connection.
func withPeer(ctx context.Context, c net.Conn) context.Context {
	p := &peer{}
	if limited, ok := c.(*conn); ok {
		p.over = limited.over
		c = limited.Conn
	}
	if u, ok := c.(*net.UnixConn); ok {
		p.uid, p.known = peerUID(u)
	}
	return context.WithValue(ctx, peerKey{}, p)
}

// peerUID asks the kernel: the answer was fixed when the peer connected, and
// the peer has no say in it.
func peerUID(u *net.UnixConn) (uint32, bool) {
	raw, err := u.SyscallConn()
	if err != nil {
		return 0, false
	}
	var cred *unix.Ucred
	var credErr error
	err = raw.Control(func(fd uintptr) {
		cred, credErr = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED)
	})
	if err != nil || credErr != nil {
		return 0, false
	}
	return cred.Uid, true
}

// caller is who makes a request. Whoever sends a token of a run acts as its
// agent, or its dispatcher, and as nothing more, on either socket.
func (s *Server) caller(r *http.Request, kind Socket) (runs.Caller, bool) {
	p, _ := r.Context().Value(peerKey{}).(*peer)
	if p == nil || !p.known {
		return runs.Caller{}, false
	}
	c := runs.Caller{UID: p.uid, Writer: r.Header.Get(control.HeaderWriter), Resume: r.Header.Get(control.HeaderResume)}
	c.Owner = kind == Control && c.Writer == "" && c.Resume == "" && s.owners[p.uid]
	return c, true
}
