package daemon_test

import (
	"path/filepath"
	"testing"
	"time"

	"durafs/control"
	"durafs/internal/daemon"
)

// A run of which nothing is heard for its lease is paused, and its agent takes
// it back.
func TestLeaseEnds(t *testing.T) {
	d, _ := serve(t, daemon.Config{Store: filepath.Join(shortDir(t), "s")})
	c := &control.Client{Socket: d.Config().Socket}
	lease := int64(50)
	started, err := c.Start(t.Context(), control.StartRequest{LeaseMS: &lease})
	if err != nil {
		t.Fatal(err)
	}
	forever := int64(0)
	other, err := c.Start(t.Context(), control.StartRequest{LeaseMS: &forever})
	if err != nil {
		t.Fatal(err)
	}
	phase := func(id string) string {
		rec, _, err := c.Get(t.Context(), id)
		if err != nil {
			t.Fatal(err)
		}
		return rec.Phase
	}
	for began := time.Now(); phase(started.Record.ID) == "running"; time.Sleep(10 * time.Millisecond) {
		if time.Since(began) > 30*time.Second {
			t.Fatal("its lease has ended long ago")
		}
	}
	if p := phase(started.Record.ID); p != "paused-interruption" {
		t.Errorf("it is %s", p)
	}
	if p := phase(other.Record.ID); p != "running" {
		t.Errorf("the run without a lease is %s", p)
	}
	agent := c.WithWriter(started.Writer)
	if _, err := agent.Attach(t.Context(), started.Record.ID, control.AttachRequest{}); err != nil {
		t.Error(err)
	}
}
