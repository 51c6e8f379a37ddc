package main

import (
	"net"
	"time"
)

// probeTimeout bounds a look whether somebody listens: a Unix socket with a
// listener takes a connection at once.
const probeTimeout = time.Second

// probe is nil if somebody listens on a socket. It says nothing about whether
// requests are answered.
func probe(path string) error {
	c, err := net.DialTimeout("unix", path, probeTimeout)
	if err != nil {
		return err
	}
	return c.Close()
}
