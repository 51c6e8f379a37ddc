package store

import (
	"context"
	"errors"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"

	"durafs/internal/vfs"
	"durafs/runs"
)

// A Close that ends before the log's writer does must not give the lock back:
// the writer can still acknowledge what another process would never read.
func TestCloseInTheMiddleOfABarrier(t *testing.T) {
	var shut atomic.Bool
	reached, open := make(chan struct{}), make(chan struct{})
	slow := vfs.Hooked(vfs.OS, func(c vfs.Call, do func(int64) error) error {
		if c.Op == vfs.OpDatasync && strings.HasSuffix(c.Name, ".seg") && shut.Load() {
			close(reached)
			<-open
		}
		return do(vfs.Whole)
	})
	dir := t.TempDir()
	s := openFor(t, slow, dir)
	for s.Log().Stats().ManifestEdits < 3 { // two of Open, one for the next segment
		runtime.Gosched()
	}
	shut.Store(true)
	acked := make(chan error)
	go func() {
		_, err := s.Runs().Start(t.Context(), runs.Caller{Owner: true}, runs.StartRequest{ID: "exec_1", Task: "t"})
		acked <- err
	}()
	<-reached
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if err := s.Close(ended); !errors.Is(err, context.Canceled) {
		t.Errorf("Close: %v", err)
	}
	_, err := Open(t.Context(), dir, Options{})
	mustBe[*HeldError](t, err)
	shut.Store(false)
	close(open)
	if err := <-acked; err != nil {
		t.Error(err)
	}
	s.lock.Close() // the process ends
	s = openFor(t, vfs.OS, dir)
	defer s.Close(t.Context())
	if _, ok := s.Runs().Lookup("exec_1"); !ok {
		t.Error("what was acknowledged is gone")
	}
}
