package store

import (
	"context"
	"errors"
	"fmt"
	"os"
	"syscall"
	"testing"
	"time"

	"durafs/internal/clock"
	"durafs/internal/vfs"
)

// TestEveryCallFails leads the life of a run once for each system call in it
// that could fail, and lets that one fail, in each way. What the store
// acknowledged must be there afterwards, what it refused may; and the store
// must open and work again without help.
func TestEveryCallFails(t *testing.T) {
	faults := []struct {
		ops vfs.Op
		err error
	}{
		{vfs.OpWrite, syscall.EIO},
		{vfs.OpWrite, syscall.ENOSPC},
		{vfs.OpSyncs, syscall.EIO},
		{vfs.OpSyncs, syscall.ENOSPC},
		{vfs.OpCreate | vfs.OpRename | vfs.OpTruncate | vfs.OpRemove, syscall.EIO},
		{vfs.OpCreate | vfs.OpRename | vfs.OpTruncate, syscall.ENOSPC},
	}
	for _, f := range faults {
		for _, mode := range vfs.Modes {
			if mode == vfs.Half && f.ops != vfs.OpWrite {
				continue // only a write has a half
			}
			t.Run(fmt.Sprintf("%v/%v/%v", f.ops, f.err, mode), func(t *testing.T) {
				t.Parallel()
				n, step := 0, 1
				if testing.Short() {
					step = shortShare
				}
				for failed(t, vfs.Fault{Ops: f.ops, Err: f.err, Mode: mode, Nth: n + 1}) {
					n += step
				}
				if n == 0 {
					t.Fatal("no call failed, so nothing was tested")
				}
				t.Logf("%d calls", n)
			})
		}
	}
}

// failed leads a life with one fault and tells whether it fired.
func failed(t *testing.T, fault vfs.Fault) bool {
	t.Helper()
	dir := memoryDir(t)
	defer os.RemoveAll(dir)
	faulty := vfs.NewFaulty(vfs.OS)
	faulty.Inject(fault)

	var lives []*promises
	ctx := t.Context()
	s, err := Open(ctx, dir, Options{FS: faulty, BeatWait: time.Microsecond, BallastBytes: 16 << 10})
	if err == nil {
		lives = append(lives, lifeOf(ctx, s, 1), lifeOf(ctx, s, 2))
		s.Close(context.WithoutCancel(ctx)) // its error says what failed
	}
	fired := len(faulty.Fired()) > 0
	for round := range 2 {
		s := openFor(t, vfs.OS, dir)
		for _, life := range lives {
			life.check(t, s)
		}
		again := lifeOf(ctx, s, uint64(10+round))
		if !again.settled || again.acked != len(again.rows) || len(again.payloads) != 3 {
			t.Fatalf("after %v the store does not work again: %+v", fault, again)
		}
		lives = append(lives, again)
		if err := s.Close(ctx); err != nil {
			t.Fatalf("close: %v", err)
		}
	}
	return fired
}

// TestFullDiskResumes fills the disk for a while, in one process: what is
// refused is refused as such, and writes go on by themselves.
func TestFullDiskResumes(t *testing.T) {
	dir := memoryDir(t)
	defer os.RemoveAll(dir)
	faulty := vfs.NewFaulty(vfs.OS)
	s := openFor(t, faulty, dir)
	before := lifeOf(t.Context(), s, 1)
	faulty.Inject(vfs.Fault{Ops: vfs.OpWrite | vfs.OpCreate, Err: syscall.ENOSPC, Nth: 1, Sticky: true})
	during := lifeOf(t.Context(), s, 2)
	faulty.Clear()
	// The log looks for space when it is asked for some, but not each time.
	var after *promises
	begin := clock.System.Boot()
	for seed := uint64(3); ; seed++ {
		if after = lifeOf(t.Context(), s, seed); after.settled {
			break
		}
		if clock.System.Boot()-begin > 30*time.Second {
			t.Fatal("writes did not resume")
		}
	}
	if err := s.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	s = openFor(t, vfs.OS, dir)
	defer s.Close(t.Context())
	for _, p := range []*promises{before, during, after} {
		p.check(t, s)
	}
}

// memoryDir is a directory where a sync costs nothing: these tests fail calls,
// they do not cut the power.
func memoryDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("/dev/shm", "durafs-test-")
	if errors.Is(err, os.ErrNotExist) || errors.Is(err, os.ErrPermission) {
		return t.TempDir()
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}
