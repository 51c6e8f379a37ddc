package store

import (
	"bytes"
	"context"
	"io"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"durafs/internal/vfs"
	"durafs/runs"
)

// TestSweepBesideRefusedDeletion: a deletion that is in the file, and is refused
// since its write failed, has deleted nothing; a sweep that met it there must not
// take it for made.
func TestSweepBesideRefusedDeletion(t *testing.T) {
	dir := memoryDir(t)
	var armed, failing atomic.Bool
	wrote, goOn := make(chan struct{}), make(chan struct{})
	var looked, once, read sync.Once
	refused := make(chan struct{})
	deleted := make(chan error, 1)
	var s *Store
	fsys := vfs.Hooked(vfs.OS, func(c vfs.Call, do func(int64) error) error {
		switch {
		case c.Op == vfs.OpOpen && strings.HasPrefix(filepath.Base(c.Name), "MANIFEST-A") && armed.Load():
			// the sweep begins to read the log
			looked.Do(func() {
				failing.Store(true)
				go func() {
					_, err := s.Runs().DeletePayload(context.Background(), runs.Caller{Owner: true}, "exec_a", "own")
					deleted <- err
					close(refused)
				}()
				<-wrote
			})
		case c.Op == vfs.OpClose && strings.HasSuffix(c.Name, ".seg") && armed.Load():
			read.Do(func() { // the sweep has read the tail; what it read it hands on next
				close(goOn)
				select {
				case <-refused:
				case <-time.After(time.Minute):
				}
			})
		case c.Op == vfs.OpWrite && strings.HasSuffix(c.Name, ".seg") && c.Off > 0 && c.Len < 4096 && failing.Load(): // a group, and not a spare
			failed := false
			once.Do(func() {
				do(vfs.Whole)
				failed = true
				failing.Store(false)
				close(wrote)
				<-goOn
			})
			if failed {
				return syscall.EIO
			}
		}
		return do(vfs.Whole)
	})
	s = openFor(t, fsys, dir)
	defer s.Close(context.Background())
	agent := startFor(t, s, "exec_a")
	data := randomBytes(1, 300_000)
	if _, _, err := s.Runs().Put(t.Context(), agent, "exec_a", "own", runs.SourceNamed, "", bytes.NewReader(data)); err != nil {
		t.Fatal(err)
	}
	armed.Store(true)
	done, err := s.Sweep(t.Context(), SweepOptions{All: true})
	if derr := <-deleted; err != nil || derr == nil {
		t.Errorf("sweep: %+v, %v; deletion: %v", done, err, derr)
	}
	r, err := openPayload(s, "exec_a", "own")
	if err != nil {
		t.Fatalf("after a deletion that was refused: %v", err)
	}
	if got, err := io.ReadAll(io.NewSectionReader(r, 0, r.Size())); err != nil || !bytes.Equal(got, data) {
		t.Errorf("after a deletion that was refused: %d bytes, %v", len(got), err)
	}
	leaks(t, dir)
}
