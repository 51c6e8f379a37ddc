package wal

import (
	"errors"
	"strings"
	"syscall"
	"testing"
)

// TestBeginIsNotTriedAgain: where the quota is met by the very rename that makes
// the new manifest count, what is carried on was replayed. It is not replayed a
// second time into the same state; the next open finds all of it.
func TestBeginIsNotTriedAgain(t *testing.T) {
	disk := newSimDisk(1)
	o := testOptions(disk, "/wal")
	bodies := numbered(1, 6, 200)
	l, _, _, _ := mustOpen(t, o)
	mustAppend(t, l, bodies...)
	waitFor(t, func() bool { return l.space.ballast.Held() }) // which a second try would use
	crash(l)                                                  // the last group is carried on
	failed := false
	disk.onCall = func(_ int, op, name string) simFault {
		if op == "rename" && strings.HasSuffix(name, "MANIFEST-A") && !failed {
			failed = true
			return simFault{err: syscall.EDQUOT}
		}
		return simFault{}
	}
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
	disk.onCall = nil
	l, _, frames, _ := mustOpen(t, o)
	checkBodies(t, frames, bodies)
	mustClose(t, l)
}
