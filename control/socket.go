package control

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// SocketPathBytesMax is the longest path a Unix socket can have on Linux: 108
// bytes with the NUL that ends it.
const SocketPathBytesMax = 107

// SocketName is the socket's name in a store's directory.
const SocketName = "control.sock"

// ErrNoSocket is matched by the error that FindSocket gives when there is no
// socket in any of the places.
var ErrNoSocket = errors.New("no durafs socket found")

// FindSocket finds the daemon's socket: $DURAFS_SOCKET, else
// .durafs/control.sock in the working directory or the nearest one above it,
// else $XDG_RUNTIME_DIR/durafs/control.sock. It looks at names only: whether
// somebody listens shows when they are dialed.
func FindSocket() (string, error) {
	if s := os.Getenv(EnvSocket); s != "" {
		return s, nil
	}
	tried := []string{"$" + EnvSocket + " is not set"}
	if wd, err := os.Getwd(); err == nil {
		if s := findUpwards(wd); s != "" {
			return s, nil
		}
		tried = append(tried, "no .durafs/"+SocketName+" in "+wd+" or above")
	}
	if dir := os.Getenv("XDG_RUNTIME_DIR"); dir != "" {
		s := filepath.Join(dir, "durafs", SocketName)
		if isSocket(s) {
			return s, nil
		}
		tried = append(tried, "no "+s)
	}
	return "", fmt.Errorf("%w: %s; is the daemon running (durafs serve)?", ErrNoSocket, strings.Join(tried, ", "))
}

func findUpwards(dir string) string {
	for {
		s := filepath.Join(dir, ".durafs", SocketName)
		if isSocket(s) {
			return s
		}
		up := filepath.Dir(dir)
		if up == dir {
			return ""
		}
		dir = up
	}
}

func isSocket(name string) bool {
	fi, err := os.Stat(name)
	return err == nil && fi.Mode()&os.ModeSocket != 0
}
