package wal

import (
	"errors"
	"math"
	"path/filepath"
	"strings"
	"testing"

	"durafs/internal/vfs"
	"durafs/segment"
)

func findings(t *testing.T, fsys vfs.FS, dir string) ([]Finding, Summary) {
	t.Helper()
	var list []Finding
	sum, err := Verify(ctx, fsys, dir, nil, func(f Finding) { list = append(list, f) })
	if err != nil {
		t.Fatalf("Verify: %v", err)
	}
	if sum.Findings != len(list) {
		t.Fatalf("Summary says %d findings, %d were reported", sum.Findings, len(list))
	}
	return list, sum
}

func TestVerifySound(t *testing.T) {
	o := testOptions(vfs.OS, filepath.Join(t.TempDir(), "wal"))
	l, _, _, _ := mustOpen(t, o)
	check := func(when string, batches uint64) {
		t.Helper()
		list, sum := findings(t, o.FS, o.Dir)
		if len(list) > 0 || sum.Batches != batches || sum.Last != batches {
			t.Fatalf("%s: %+v, %+v", when, list, sum)
		}
	}
	check("empty", 0)
	mustAppend(t, l, numbered(1, 60, 700)...)
	check("open", 60)
	mustClose(t, l)
	check("closed", 60)
	l, _, _, _ = mustOpen(t, o)
	mustAppend(t, l, numbered(61, 70, 700)...)
	crash(l)
	check("crashed", 70)
}

// Beside a log that is being written nothing looks like damage.
func TestVerifyBesideWriter(t *testing.T) {
	o := testOptions(vfs.OS, filepath.Join(t.TempDir(), "wal"))
	l, _, _, _ := mustOpen(t, o)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for _, b := range numbered(1, 600, 500) {
			submit(l, b).Wait(ctx)
		}
	}()
	rounds := 0
	for busy := true; busy; rounds++ {
		select {
		case <-done:
			busy = false
		default:
		}
		if list, _ := findings(t, o.FS, o.Dir); len(list) > 0 {
			t.Fatalf("round %d: %+v", rounds, list)
		}
	}
	mustClose(t, l)
	if _, sum := findings(t, o.FS, o.Dir); sum.Batches != 600 {
		t.Fatalf("%+v", sum)
	}
}

// A segment that is dropped, and used for another, while Verify reads it is no
// damage.
func TestVerifyBesideDrop(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "wal")
	l, _, _, _ := mustOpen(t, testOptions(vfs.OS, dir))
	n := len(fillSegments(t, l, 1, 3))
	dropped := false
	beside := vfs.Hooked(vfs.OS, func(c vfs.Call, do func(int64) error) error {
		if c.Op == vfs.OpRead && strings.HasSuffix(c.Name, segmentName(1)) && c.Off > 0 && !dropped {
			dropped = true
			if k, err := l.Drop(math.MaxUint32); err != nil || k < 3 {
				t.Errorf("Drop: %d, %v", k, err)
			}
			fillSegments(t, l, n+1, 4)
		}
		return do(vfs.Whole)
	})
	if _, err := Verify(ctx, beside, dir, nil, func(f Finding) { t.Errorf("%+v", f) }); err != nil || !dropped {
		t.Errorf("%v; dropped: %v", err, dropped)
	}
	mustClose(t, l)
}

// The segment that is ready behind the active one holds nothing yet; but where it
// was cut nobody can tell that any more. An open is refused, and verify says why.
func TestVerifyNextSegmentCut(t *testing.T) {
	disk := newDisk()
	o := testOptions(disk, "/wal")
	l, _, _, _ := mustOpen(t, o)
	mustAppend(t, l, numbered(1, 5, 200)...)
	var next segEntry
	waitFor(t, func() bool {
		m, err := loadManifest(disk.Clone(), o.Dir, o.StoreID, false)
		all := m.state.sortedSegments()
		if err != nil || len(all) < 2 {
			return false
		}
		next = all[len(all)-1]
		return next.State == segLive
	})
	crash(l)
	for _, n := range []int64{segment.HeaderBytes, segment.HeaderBytes + 200, next.Size - 1} {
		cut := disk.Clone()
		change(t, cut, filepath.Join(o.Dir, segmentName(next.ID)), func(b []byte) []byte { return b[:n] })
		list, _ := findings(t, cut, o.Dir)
		if len(list) != 1 || list[0].File != segmentName(next.ID) {
			t.Errorf("cut to %d: %+v", n, list)
		}
		o := o
		o.FS = cut
		_, _, _, err := survey(t, o)
		var d *DamageError
		if !errors.As(err, &d) || d.File != segmentName(next.ID) {
			t.Errorf("cut to %d: the open says %v", n, err)
		}
	}
}
