package wal

import (
	"errors"
	"path/filepath"
	"testing"

	"durafs/internal/vfs"
)

func TestAppendReopen(t *testing.T) {
	for _, clean := range []bool{true, false} {
		o := testOptions(vfs.OS, filepath.Join(t.TempDir(), "wal"))
		var want []string
		for round := range 4 {
			l, state, frames, rec := mustOpen(t, o)
			if rec.Created != (round == 0) {
				t.Fatalf("round %d: Created %v", round, rec.Created)
			}
			if rec.Cut != nil || len(rec.Notes) > 0 {
				t.Fatalf("round %d: %+v", round, rec)
			}
			checkBodies(t, frames, want)
			more := numbered(len(want)+1, len(want)+50, 700)
			mustAppend(t, l, more...)
			want = append(want, more...)
			if got := l.Durable(); got != uint64(len(want)) {
				t.Fatalf("Durable is %d, want %d", got, len(want))
			}
			if len(state.published) != 50 {
				t.Fatalf("%d published", len(state.published))
			}
			checkRead(t, l, want)
			if clean {
				mustClose(t, l)
			} else {
				crash(l)
			}
		}
		l, _, frames, _ := mustOpen(t, o)
		checkBodies(t, frames, want)
		for _, f := range frames {
			got, _, err := l.ReadBatch(f.Pos, nil)
			if err != nil || got.LSN != f.LSN || string(got.Payload) != string(f.Payload) {
				t.Fatalf("ReadBatch(%v): LSN %d, %v", f.Pos, got.LSN, err)
			}
		}
		mustClose(t, l)
	}
}

// checkRead walks the whole log by ReadBatch.
func checkRead(t *testing.T, l *Log, want []string) {
	t.Helper()
	pos := Position{Segment: (*l.files.table.Load())[0].id, Offset: 4096}
	var frames []Frame
	for {
		f, next, err := l.ReadBatch(pos, nil)
		if errors.Is(err, ErrEnd) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		frames = append(frames, f)
		pos = next
	}
	checkBodies(t, frames, want)
}
