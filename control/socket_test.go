package control

import (
	"errors"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestFindSocket(t *testing.T) {
	dir := t.TempDir()
	listen := func(path string) {
		t.Helper()
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		l, err := net.Listen("unix", path)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { l.Close() })
	}
	t.Setenv(EnvSocket, "")
	t.Setenv("XDG_RUNTIME_DIR", filepath.Join(dir, "run"))
	deep := filepath.Join(dir, "a", "b", "c")
	if err := os.MkdirAll(deep, 0o700); err != nil {
		t.Fatal(err)
	}
	t.Chdir(deep)

	_, err := FindSocket()
	if !errors.Is(err, ErrNoSocket) || !strings.Contains(err.Error(), "durafs serve") {
		t.Errorf("nowhere: %v", err)
	}
	if _, err := new(Client).Status(t.Context()); !errors.Is(err, ErrNoSocket) || !errors.Is(err, ErrAway) {
		t.Errorf("a client with no socket: %v", err)
	}
	want := func(path string) {
		t.Helper()
		if got, err := FindSocket(); err != nil || got != path {
			t.Errorf("got %q, %v, want %q", got, err, path)
		}
	}
	// Each place is found before those that were there already.
	runtime := filepath.Join(dir, "run", "durafs", SocketName)
	listen(runtime)
	want(runtime)
	upwards := filepath.Join(dir, "a", ".durafs", SocketName)
	listen(upwards)
	want(upwards)
	nearest := filepath.Join(dir, "a", "b", ".durafs", SocketName)
	listen(nearest)
	want(nearest)
	if err := os.MkdirAll(filepath.Join(deep, ".durafs", SocketName), 0o700); err != nil {
		t.Fatal(err)
	}
	want(nearest) // a directory of that name is no socket
	t.Setenv(EnvSocket, "/anywhere")
	want("/anywhere")
}

func TestLongSocketPath(t *testing.T) {
	c := &Client{Socket: "/tmp/" + strings.Repeat("x", 200)}
	if _, err := c.Status(t.Context()); err == nil || !strings.Contains(err.Error(), "107") {
		t.Errorf("got %v", err)
	}
}
