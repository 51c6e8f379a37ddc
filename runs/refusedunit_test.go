package runs

import (
	"errors"
	"strings"
	"syscall"
	"testing"

	"durafs/internal/vfs"
	"durafs/wal"
)

// TestRefusedUnit: rows of several batches that share one group are refused
// together, and the answer says that, rather than that nobody knows. Where
// they had several barriers, it is not known.
func TestRefusedUnit(t *testing.T) {
	for name, n := range map[string]int{"one batch": 1, "several batches": 6} {
		t.Run(name, func(t *testing.T) {
			faulty := vfs.NewFaulty(vfs.OS)
			w := &world{t: t, fs: faulty, dir: fastDir(t), ledger: new(memLedger)}
			t.Cleanup(w.close)
			w.mustOpen()
			a := w.start(StartRequest{})
			a.mustAppend(`{"i":0}`)
			faulty.Inject(vfs.Fault{Ops: vfs.OpWrite, Nth: 1, Mode: vfs.Half, Err: syscall.ENOSPC, Match: isGroup})
			rows := make([]string, n) // of 60 KiB
			for i := range rows {
				rows[i] = `{"a":"` + strings.Repeat("x", 60<<10) + `"}`
			}
			_, err := a.append(rows...)
			full, isFull := errors.AsType[*wal.NoSpaceError](err)
			if !isFull || full.Mount == "" || errors.Is(err, wal.ErrUnknown) {
				t.Errorf("the answer is %v", err)
			}
			if got := len(w.agentRows(a.id)); got != 1 {
				t.Errorf("%d rows are there", got)
			}
		})
	}
	full := &wal.NoSpaceError{Mount: "/m"}
	several := &group{frames: wal.GroupBytesMax + 1}
	if err := several.maybePart(true, full); !errors.Is(err, wal.ErrUnknown) || !errors.Is(err, full) {
		t.Errorf("several groups: %v", err)
	}
	if err := several.maybePart(false, full); errors.Is(err, wal.ErrUnknown) {
		t.Errorf("several groups that were never accepted: %v", err)
	}
}
