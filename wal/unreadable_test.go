package wal

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"durafs/internal/vfs/simdisk"
	"durafs/segment"
)

// A bad sector takes with it what is in it, and nothing else. In a segment that
// is not sealed nobody can tell whose frames' headers were in it, nor, where it
// lies behind all frames, whether the log ends there: nothing is cut, the log
// opens for reading, and the damage has a file, a place and LSNs. A sector with
// a part of one batch's payload harms that batch's run.
func TestUnreadableSector(t *testing.T) {
	whole, o, n := rotting(t)
	r := &rotTest{t: t, whole: whole, o: o, n: uint64(n)}
	r.unreadableAnywhere()
	r.whole = newDisk()
	r.o = testOptions(r.whole, o.Dir)
	l, _, _, _ := mustOpen(t, r.o)
	for n := 1; n <= 5; n++ {
		b := batch(fmt.Sprintf("batch of run %d %s", n, strings.Repeat("x", n%2*9_000)))
		b.Run = uint64(n)
		if err := l.Submit(Ordinary, func(uint64) Decision { return Decision{Batches: []*Batch{b}} }).Wait(ctx); err != nil {
			t.Fatal(err)
		}
	}
	crash(l)
	r.unreadableAnywhere()
	t.Logf("%d states: %d whole, %d with a named run, %d read-only", r.states, r.intact, r.attributed, r.readOnly)
	if r.attributed == 0 || r.readOnly == 0 || r.intact == 0 {
		t.Error("not every outcome was met")
	}
}

// unreadableAnywhere makes each block of each segment unreadable in turn, also
// behind its frames.
func (r *rotTest) unreadableAnywhere() {
	whole, o := r.whole, r.o
	loaded, err := loadManifest(whole.Clone(), o.Dir, o.StoreID, false)
	if err != nil {
		r.t.Fatal(err)
	}
	all := everything(r.t, whole, o)
	for _, e := range loaded.state.sortedSegments() {
		end := writtenBytes(bytesOf(r.whole, filepath.Join(o.Dir, segmentName(e.ID))))
		for at := int64(0); at < int64(end)+2*simdisk.BlockBytes && at < e.Size; at += simdisk.BlockBytes {
			r.unreadable(e, at, all)
		}
	}
}

// everything is each batch of a log that is sound.
func everything(t *testing.T, disk *simdisk.Disk, o Options) map[uint64]Frame {
	o.FS, o.ReadOnly = disk.Clone(), errors.New("test")
	l, s, _, err := survey(t, o)
	if err != nil {
		t.Fatal(err)
	}
	l.Close(ctx)
	return s.frames
}

// hit tells which batches have bytes of their headers, and which have bytes, in
// a block of a segment.
func hit(all map[uint64]Frame, id uint32, at int64) (headers, any map[uint64]bool) {
	headers, any = map[uint64]bool{}, map[uint64]bool{}
	for lsn, f := range all {
		off := int64(f.Pos.Offset)
		if f.Pos.Segment != id || off >= at+simdisk.BlockBytes {
			continue
		}
		headers[lsn] = off+segment.FrameHeaderBytes > at
		any[lsn] = off+segment.FrameBytes(int64(len(f.Payload))) > at
	}
	return headers, any
}

// unreadable judges a log in which a block of a segment cannot be read.
func (r *rotTest) unreadable(e segEntry, at int64, all map[uint64]Frame) {
	r.states++
	name := segmentName(e.ID)
	what := fmt.Sprintf("%s, state %d: nothing can be read at %d", name, e.State, at)
	headers, harmed := hit(all, e.ID, at)
	disk := r.whole.Clone()
	disk.Damage(simdisk.Damage{Kind: simdisk.RotUnread, File: filepath.Join(r.o.Dir, name), Off: at})
	o := r.o
	o.FS = disk
	l, s, _, err := survey(r.t, o)
	var d *DamageError
	unknown := e.State != segSealed && at > 0 && anyOf(headers)
	switch {
	case errors.As(err, &d):
		r.readOnly++
		if !errors.Is(err, syscall.EIO) || d.File != name || d.LSNFrom == 0 || d.LSNTo < d.LSNFrom {
			r.t.Errorf("%s: %v, %+v", what, err, d)
		}
		o.ReadOnly = err
		l, s, _, err = survey(r.t, o)
	case unknown:
		r.t.Errorf("%s: it is opened to be written", what)
	case len(s.lost) > 0:
		r.attributed++
	default:
		r.intact++
	}
	if err != nil {
		r.t.Fatalf("%s: %v", what, err)
	}
	defer crash(l)
	for lsn := range all {
		switch _, there := s.frames[lsn]; {
		case there:
		case !s.names(lsn):
			r.t.Errorf("%s: LSN %d is gone: %v", what, lsn, s.lost)
		case !harmed[lsn]:
			r.t.Errorf("%s: LSN %d is sound, and not shown: %v", what, lsn, s.lost)
		}
	}
}

func anyOf(set map[uint64]bool) bool {
	for _, in := range set {
		if in {
			return true
		}
	}
	return false
}
