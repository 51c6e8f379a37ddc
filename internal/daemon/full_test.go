package daemon_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"durafs/control"
	"durafs/internal/daemon"
	"durafs/internal/need"
	"durafs/store"
)

// TestFullDisk fills a small ext4 file system to the brim under a daemon.
// What needs space is refused and says where there is none; what was running
// can still be ended; and with space again writes go on, without a restart.
func TestFullDisk(t *testing.T) {
	fs := need.Ext4(t, 64<<20)
	dir := filepath.Join(fs, "store")
	// The socket's path must be short, and a socket needs no space.
	d, stop := serve(t, daemon.Config{Store: dir, Socket: filepath.Join(shortDir(t), "s")})
	c := &control.Client{Socket: d.Config().Socket, Patience: -1}
	ctx := t.Context()

	run, ending, early := start(t, c), start(t, c), start(t, c)
	acked := &ackedRows{t: t, c: c, run: run}
	for range 10 {
		if err := acked.append(ctx); err != nil {
			t.Fatal(err)
		}
	}
	filler := filepath.Join(fs, "filler")
	need.FillUp(t, filler)
	p := acked.untilRefused(ctx)
	if p.Status != 507 || p.Mount != fs || p.FreeBytes == nil || p.FreeInodes == nil || !p.Retryable {
		t.Fatalf("a full disk was answered with %+v", p)
	}
	t.Logf("refused after %d rows: %v", len(acked.rows), p)
	_, err := c.WithWriter(run.Writer).Put(ctx, run.Record.ID, "large", "", bytes.NewReader(make([]byte, 8<<20)))
	if !errors.As(err, &p) || p.Status != 507 {
		t.Errorf("a payload on a full disk: %v", err)
	}
	if _, err := c.Start(ctx, control.StartRequest{}); !errors.As(err, &p) || p.Status != 507 {
		t.Errorf("a start on a full disk: %v", err)
	}
	settled, err := c.WithWriter(ending.Writer).Settle(ctx, ending.Record.ID, control.SettleRequest{Status: "success", Summary: "ended on a full disk"})
	if err != nil || settled.Record.Phase != "terminal" {
		t.Fatalf("what was running cannot be ended on a full disk: %v", err)
	}

	rollBack(t, c, run, early)

	if err := os.Remove(filler); err != nil {
		t.Fatal(err)
	}
	acked.untilTaken(ctx)
	if _, err := c.WithWriter(run.Writer).Put(ctx, run.Record.ID, "large", "", bytes.NewReader(make([]byte, 8<<20))); err != nil {
		t.Errorf("a payload with space again: %v", err)
	}
	acked.check(ctx)
	verifyClean(t, dir)
	stop()
	verifyClean(t, dir)
}

// rollBack undoes, on a full disk, the start of early, whose first write finds no
// space; run, which has written, stays.
func rollBack(t *testing.T, c *control.Client, run, early control.Started) {
	t.Helper()
	ctx, id := t.Context(), early.Record.ID
	w := c.WithWriter(early.Writer)
	if err := w.Rollback(ctx, id); control.Code(err) != "rollback-refused" {
		t.Errorf("nothing was turned away yet: %v", err)
	}
	row := []byte(`{"pad":"` + strings.Repeat("x", 40<<10) + `"}`)
	if _, err := w.Append(ctx, id, row, ""); control.Code(err) != control.CodeNoSpace {
		t.Fatalf("a first row on a full disk: %v", err)
	}
	if err := w.Rollback(ctx, id); err != nil {
		t.Errorf("rollback: %v", err)
	}
	if _, _, err := c.Get(ctx, id); control.Code(err) != "unknown-run" {
		t.Errorf("it is still there: %v", err)
	}
	if err := c.WithWriter(run.Writer).Rollback(ctx, run.Record.ID); control.Code(err) != "rollback-refused" {
		t.Errorf("a run that has written: %v", err)
	}
}

func start(t *testing.T, c *control.Client) control.Started {
	t.Helper()
	s, err := c.Start(t.Context(), control.StartRequest{})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// ackedRows are rows of one run that were acknowledged.
type ackedRows struct {
	t    *testing.T
	c    *control.Client
	run  control.Started
	rows []string
}

func (a *ackedRows) append(ctx context.Context) error {
	row := fmt.Sprintf(`{"type":"t","n":%d,"pad":"%s"}`, len(a.rows), strings.Repeat("x", 40<<10))
	_, err := a.c.WithWriter(a.run.Writer).Append(ctx, a.run.Record.ID, []byte(row), "")
	if err == nil {
		a.rows = append(a.rows, row)
	}
	return err
}

// untilRefused appends until the disk is full: what was written ahead is used
// up first.
func (a *ackedRows) untilRefused(ctx context.Context) *control.Problem {
	a.t.Helper()
	for range 10_000 {
		err := a.append(ctx)
		var p *control.Problem
		if errors.As(err, &p) {
			return p
		}
		if err != nil {
			a.t.Fatal(err)
		}
	}
	a.t.Fatal("a full disk took everything")
	return nil
}

// untilTaken appends until it succeeds, which it must soon.
func (a *ackedRows) untilTaken(ctx context.Context) {
	a.t.Helper()
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	for {
		err := a.append(ctx)
		if err == nil {
			return
		}
		var p *control.Problem
		if ctx.Err() != nil || !errors.As(err, &p) || p.Status != 507 {
			a.t.Fatalf("with space again: %v", err)
		}
	}
}

// check reads the log back and looks for every acknowledged row, in order.
func (a *ackedRows) check(ctx context.Context) {
	a.t.Helper()
	r, err := a.c.Log(ctx, a.run.Record.ID, control.LogQuery{})
	if err != nil {
		a.t.Fatal(err)
	}
	defer r.Close()
	for next := 0; ; {
		line, err := r.Next()
		if errors.Is(err, io.EOF) {
			if next != len(a.rows) {
				a.t.Fatalf("%d rows were acknowledged, %d are there", len(a.rows), next)
			}
			return
		}
		if err != nil {
			a.t.Fatal(err)
		}
		if next < len(a.rows) && strings.Contains(string(line), a.rows[next][1:]) {
			next++
		}
	}
}

func verifyClean(t *testing.T, dir string) {
	t.Helper()
	_, err := store.Verify(t.Context(), dir, store.VerifyOptions{Deep: true}, func(f store.Finding) { t.Errorf("damage: %v", f) })
	if err != nil {
		t.Fatal(err)
	}
}

// TestBounds: a daemon whose store is bounded refuses with whose bound it is,
// ends what was begun, and goes on when an owner has deleted something.
func TestBounds(t *testing.T) {
	dir := shortDir(t)
	d, stop := serve(t, daemon.Config{Store: filepath.Join(dir, "store"), RunBytesMax: 64 << 10, StoreBytesMax: 100 << 10})
	c := &control.Client{Socket: d.Config().Socket, Patience: -1}
	ctx := t.Context()
	run, other, early := start(t, c), start(t, c), start(t, c)
	put := func(s control.Started, name string, n int) error {
		_, err := c.WithWriter(s.Writer).Put(ctx, s.Record.ID, name, "", bytes.NewReader(make([]byte, n)))
		return err
	}
	want := func(err error, code, scope string, limit int64, retryable bool) {
		t.Helper()
		var p *control.Problem
		if !errors.As(err, &p) || p.Status != 507 || p.Code != code || p.Scope != scope || p.Limit != limit || p.Size <= limit || p.Field == "" || p.Retryable != retryable {
			t.Fatalf("answered with %+v (%v)", p, err)
		}
	}
	want(put(run, "a", 80<<10), "run-bytes", "run", 64<<10, false)
	if err := errors.Join(put(run, "a", 60<<10), put(other, "b", 38<<10)); err != nil {
		t.Fatal(err)
	}
	want(put(early, "c", 60<<10), "store-bytes", "store", 100<<10, true)
	if err := c.WithWriter(early.Writer).Rollback(ctx, early.Record.ID); err != nil {
		t.Errorf("rollback: %v", err)
	}
	big := control.StartRequest{ResumeRequest: bytes.Repeat([]byte("r"), 10<<10)}
	_, err := c.Start(ctx, big)
	want(err, "store-bytes", "store", 100<<10, true)
	settled, err := c.WithWriter(other.Writer).Settle(ctx, other.Record.ID, control.SettleRequest{Status: "success", Payload: &control.TerminalPayload{Bytes: make([]byte, 10<<10)}})
	if err != nil || settled.Record.Phase != "terminal" {
		t.Fatalf("what was running cannot be ended at the bound: %v", err)
	}
	if u := d.Status().Usage; u.Bytes < 100<<10 || u.RunBytesMax != 64<<10 || u.StoreBytesMax != 100<<10 {
		t.Errorf("status tells %+v", u)
	}
	gone, err := c.DeletePayload(ctx, run.Record.ID, "a")
	if err != nil || gone.Bytes != 60<<10 || gone.Replayed {
		t.Fatalf("deleted: %+v, %v", gone, err)
	}
	if again, err := c.DeletePayload(ctx, run.Record.ID, "a"); err != nil || !again.Replayed || !again.At.Equal(gone.At) {
		t.Errorf("deleted again: %+v, %v", again, err)
	}
	var p *control.Problem
	if _, err := c.Payload(ctx, run.Record.ID, "a", 0, -1); !errors.As(err, &p) || p.Status != 410 || p.Code != control.CodePayloadDeleted || p.At == nil {
		t.Errorf("a reader of it is told %v", err)
	}
	if _, err := c.DeletePayload(ctx, other.Record.ID, control.TerminalName); control.Code(err) != "protected-source" {
		t.Errorf("the answer of a run: %v", err)
	}
	if err := put(run, "a", 10); control.Code(err) != "payload-conflict" {
		t.Errorf("its name: %v", err)
	}
	if _, err := c.Start(ctx, big); err != nil {
		t.Errorf("a start with room again: %v", err)
	}
	before := d.Status().Usage
	stop()
	verifyClean(t, filepath.Join(dir, "store"))
	d, stop = serve(t, daemon.Config{Store: filepath.Join(dir, "store")})
	defer stop()
	if u := d.Status().Usage; u.Bytes < before.Bytes || u.Bytes > before.Bytes+1000 { // the runs were interrupted, which has rows
		t.Errorf("%d bytes were held, and after a restart %d", before.Bytes, u.Bytes)
	}
}
