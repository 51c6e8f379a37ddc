package wal

import (
	"errors"
	"strings"
	"syscall"
	"testing"

	"durafs/internal/vfs"
	"durafs/internal/vfs/simdisk"
)

// TestBeginIsNotTriedAgain: where the quota is met by the very rename that makes
// the new manifest count, what is carried on was replayed. It is not replayed a
// second time into the same state; the next open finds all of it.
func TestBeginIsNotTriedAgain(t *testing.T) {
	disk := newDisk()
	o := testOptions(disk, "/wal")
	bodies := numbered(1, 6, 200)
	l, _, _, _ := mustOpen(t, o)
	mustAppend(t, l, bodies...)
	waitFor(t, func() bool { return l.space.ballast.Held() }) // which a second try would use
	crash(l)                                                  // the last group is carried on
	failed := false
	disk.SetFault(func(_ int, c vfs.Call) *simdisk.Fault {
		if c.Op == vfs.OpRename && strings.HasSuffix(c.To, "MANIFEST-A") && !failed {
			failed = true
			return &simdisk.Fault{Err: syscall.EDQUOT}
		}
		return nil
	})
	last := uint64(0)
	l, _, err := Open(ctx, o, func(f Frame) error {
		if f.LSN != last+1 {
			t.Errorf("LSN %d is replayed after %d", f.LSN, last)
		}
		last = f.LSN
		return nil
	})
	if err == nil {
		crash(l)
		t.Fatal("the log opens though its manifest could not be replaced")
	}
	if !failed || !errors.Is(err, syscall.EDQUOT) {
		t.Fatalf("failed %v: %v", failed, err)
	}
	disk.SetFault(nil)
	l, _, frames, _ := mustOpen(t, o)
	checkBodies(t, frames, bodies)
	mustClose(t, l)
}
