package control

import (
	"context"
	"errors"
	"io"
	"testing"
	"testing/synctest"
)

// TestWindow: rows are given out by number, kept until they are acknowledged,
// and a full window holds the next one back.
func TestWindow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWindow(10)
		read := func(n uint64, max int) string {
			t.Helper()
			rows, _, err := w.ReadRows(t.Context(), n, nil, max)
			if err != nil {
				t.Fatal(err)
			}
			return string(rows)
		}
		w.add([]byte("1"))
		w.add([]byte("22"))
		if got := read(1, 100); got != "1\n22\n" {
			t.Errorf("from 1: %q", got)
		}
		if got := read(2, 1); got != "22\n" {
			t.Errorf("from 2: %q", got)
		}
		added := make(chan struct{})
		go func() {
			w.add([]byte("4444444"))
			close(added)
		}()
		synctest.Wait()
		select {
		case <-added:
			t.Error("the window took more than it holds")
		default:
		}
		w.ack(1)
		<-added
		if got := read(2, 100); got != "22\n4444444\n" {
			t.Errorf("after an acknowledgement: %q", got)
		}
		flushed := make(chan error, 1)
		go func() { flushed <- w.flush(t.Context()) }()
		synctest.Wait()
		w.ack(2)
		synctest.Wait()
		select {
		case <-flushed:
			t.Error("flushed before all was acknowledged")
		default:
		}
		w.ack(3)
		if err := <-flushed; err != nil {
			t.Error(err)
		}
		w.end()
		if _, _, err := w.ReadRows(t.Context(), 4, nil, 10); err != io.EOF {
			t.Errorf("behind the end: %v", err)
		}
		if err := w.add([]byte("5")); err != errStreamClosed {
			t.Errorf("behind the end: %v", err)
		}
	})
}

// TestWindowFails: whoever waits on a window learns that it failed.
func TestWindowFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWindow(1)
		w.add([]byte("1"))
		broken := errors.New("broken")
		results := make(chan error, 2)
		go func() { results <- w.add([]byte("2")) }()
		go func() { results <- w.flush(context.Background()) }()
		synctest.Wait()
		w.fail(broken)
		for range 2 {
			if err := <-results; err != broken {
				t.Errorf("got %v", err)
			}
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		v := newWindow(1)
		if _, _, err := v.ReadRows(ctx, 1, nil, 1); err != context.Canceled {
			t.Errorf("a reader who gives up: %v", err)
		}
	})
}
