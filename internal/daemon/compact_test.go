package daemon_test

import (
	"bytes"
	"errors"
	"io"
	"math/rand/v2"
	"path/filepath"
	"testing"

	"durafs/control"
	"durafs/internal/daemon"
	"durafs/store"
)

func random(seed byte, n int) []byte {
	b := make([]byte, n)
	rand.NewChaCha8([32]byte{seed}).Read(b)
	return b
}

// TestCompact: what came of a request whose client went away is given back; to
// an owner only; and what is referred to is there, before and after a restart.
func TestCompact(t *testing.T) {
	dir := filepath.Join(shortDir(t), "s")
	d, stop := serve(t, daemon.Config{Store: dir})
	c := &control.Client{Socket: d.Config().Socket}
	run := start(t, c)
	w := c.WithWriter(run.Writer)
	data := random(1, 300_000)
	if _, err := w.Put(t.Context(), run.Record.ID, "kept", "", bytes.NewReader(data)); err != nil {
		t.Fatal(err)
	}
	r, wr := io.Pipe()
	cut := make(chan error, 1)
	go func() {
		_, err := w.Put(t.Context(), run.Record.ID, "cut", "", r)
		cut <- err
	}()
	left := func() store.Verified {
		t.Helper()
		v, err := store.Verify(t.Context(), dir, store.VerifyOptions{Deep: true}, func(f store.Finding) { t.Errorf("damage: %v", f) })
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
	for left().UnreferencedBytes == 0 {
		if _, err := wr.Write(random(2, 4<<20)); err != nil {
			t.Fatal(err)
		}
	}
	wr.CloseWithError(errors.New("the client goes away"))
	if err := <-cut; err == nil {
		t.Fatal("a payload that was cut was stored")
	}
	agent := &control.Client{Socket: daemon.AgentSocket(d.Config().Socket)}
	if _, err := agent.Compact(t.Context()); err == nil {
		t.Error("an agent compacted")
	}
	done, err := c.Compact(t.Context())
	if err != nil || done.PacksFreed == 0 || done.BytesFreed < 1<<20 {
		t.Errorf("%+v, %v", done, err)
	}
	kept := func(c *control.Client) {
		t.Helper()
		p, err := c.Payload(t.Context(), run.Record.ID, "kept", 0, -1)
		if err != nil {
			t.Fatal(err)
		}
		defer p.Close()
		if got, err := io.ReadAll(p); err != nil || !bytes.Equal(got, data) {
			t.Errorf("%d bytes, %v", len(got), err)
		}
	}
	kept(c)
	if v := left(); v.UnreferencedBytes != 0 {
		t.Errorf("left: %+v", v)
	}
	stop()
	d, _ = serve(t, daemon.Config{Store: dir})
	kept(&control.Client{Socket: d.Config().Socket})
	if v := left(); v.UnreferencedBytes != 0 {
		t.Errorf("after a restart: %+v", v)
	}
}
