package bench

import (
	"context"
	"errors"
	"net"
	"net/http"
	"path/filepath"
	"sync"

	"durafs/control"
	"durafs/internal/daemon"
)

// served is a daemon of this process, on a store of its own.
type served struct {
	*daemon.Daemon
	client *control.Client
	stop   func() error
}

// serveHere opens a daemon on a new store in dir and serves it, without a
// mount. It is of this process because the handler that it is compared with
// is, too.
func serveHere(ctx context.Context, dir string) (*served, error) {
	d, err := daemon.Open(ctx, daemon.Config{Store: filepath.Join(dir, "store")})
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(ctx)
	ended := make(chan error, 1)
	var wg sync.WaitGroup
	wg.Go(func() { ended <- d.Serve(ctx) })
	client := &control.Client{Socket: d.Config().Socket}
	stop := func() error {
		client.CloseIdle()
		cancel()
		wg.Wait()
		return <-ended
	}
	return &served{Daemon: d, client: client, stop: stop}, nil
}

// floorServer answers every request with nothing: what HTTP on a Unix socket
// costs by itself.
func floorServer(dir string) (path string, stop func() error, err error) {
	path = filepath.Join(dir, "floor.sock")
	l, err := net.Listen("unix", path)
	if err != nil {
		return "", nil, err
	}
	h := &http.Server{Handler: http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})}
	ended := make(chan error, 1)
	var wg sync.WaitGroup
	wg.Go(func() { ended <- h.Serve(l) })
	return path, func() error {
		err := h.Close()
		wg.Wait()
		if served := <-ended; !errors.Is(served, http.ErrServerClosed) {
			err = errors.Join(err, served)
		}
		return err
	}, nil
}

// clientOn is an HTTP client that keeps a connection per worker to a socket.
func clientOn(socket string, workers int) *http.Client {
	return &http.Client{Transport: &http.Transport{
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			var d net.Dialer
			return d.DialContext(ctx, "unix", socket)
		},
		MaxIdleConns: workers, MaxIdleConnsPerHost: workers, DisableCompression: true,
	}}
}
