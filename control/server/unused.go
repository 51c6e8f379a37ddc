package server

import (
	"net"
	"net/http"
	"sync"
	"time"
)

// unusedGrace is how long a connection without a request is left to its client
// when the serving ends: a request that has come is begun within it.
const unusedGrace = 200 * time.Millisecond

// unused are the connections on which nothing has come yet. A client that dials
// while another of its connections becomes free uses that, and leaves the new
// one at hand; http.Server.Shutdown takes such a one for idle only after 5
// seconds, and a daemon that is to be replaced would wait for them.
type unused struct {
	mu    sync.Mutex
	conns map[net.Conn]struct{}
}

// note is an http.Server's ConnState.
func (u *unused) note(c net.Conn, state http.ConnState) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if state != http.StateNew {
		delete(u.conns, c)
		return
	}
	if u.conns == nil {
		u.conns = map[net.Conn]struct{}{}
	}
	u.conns[c] = struct{}{}
}

func (u *unused) close() {
	u.mu.Lock()
	defer u.mu.Unlock()
	for c := range u.conns {
		c.Close()
	}
}
