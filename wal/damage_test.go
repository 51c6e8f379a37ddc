package wal

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"syscall"
	"testing"

	"durafs/internal/vfs"
	"durafs/internal/vfs/simdisk"
	"durafs/segment"
)

// mark is one frame of a segment made by hand: its LSN, what it vouches for,
// and whether it is damaged, or from a later version.
type mark struct {
	lsn, durable uint64
	bad          string // "", "header", "payload", "zero", "later"
}

// handmade is a disk with a log whose live segments have these frames.
func handmade(t *testing.T, segments ...[]mark) (*simdisk.Disk, Options) {
	t.Helper()
	disk := newDisk()
	o := testOptions(disk, "/wal")
	l, _, _, _ := mustOpen(t, o)
	mustClose(t, l) // leaves an empty manifest
	state := newManifestState()
	for i, marks := range segments {
		e := segEntry{ID: uint32(i + 10), Salt: uint64(i + 77), Size: smallSegments}
		h := segment.Header{Kind: segment.LogFile, StoreID: o.StoreID, ID: e.ID, Salt: e.Salt}
		b := h.Marshal()
		key := segment.NewKey(e.Salt)
		var prev uint32
		for _, m := range marks {
			fh := segment.FrameHeader{Kind: segment.Batch, LSN: m.lsn, Durable: m.durable, Count: 1, Prev: prev}
			at := len(b)
			b = segment.AppendFrame(b, &fh, key, int64(at), []byte(fmt.Sprintf("batch %d", m.lsn)))
			prev = fh.CRC
			switch m.bad {
			case "header":
				b[at+17] ^= 1
			case "payload":
				b[at+50] ^= 1
			case "later":
				prev = asLater(b[at:], e.Salt, int64(at))
			case "zero":
				clear(b[at:])
			}
		}
		put(disk, "/wal/"+segmentName(e.ID), append(b, make([]byte, e.Size-int64(len(b)))...))
		state.segments[e.ID] = e
		state.high.Segment = e.ID
	}
	dirf, _ := disk.OpenDir("/wal")
	loaded, err := loadManifest(disk, "/wal", o.StoreID, false)
	if err != nil {
		t.Fatal(err)
	}
	m := &manifest{fs: disk, dir: "/wal", dirf: dirf, storeID: o.StoreID, seq: loaded.seq, fail: func(error) {}, bytes: manifestBytesMin, salt: newSalt}
	if err := m.rewrite(state); err != nil {
		t.Fatal(err)
	}
	m.close()
	return disk, o
}

// asLater gives a frame a flag that nobody knows yet, and the checksum that
// goes with it.
func asLater(frame []byte, salt uint64, off int64) (crc uint32) {
	le := binary.LittleEndian
	le.PutUint16(frame[14:], 1)
	sum := segment.ExtendChecksum(0, le.AppendUint64(le.AppendUint64(nil, salt), uint64(off)))
	crc = segment.ExtendChecksum(sum, frame[4:segment.FrameHeaderBytes])
	le.PutUint32(frame, crc)
	return crc
}

func TestTornOrRotten(t *testing.T) {
	type segs = [][]mark
	for name, c := range map[string]struct {
		segments segs
		want     uint64 // the last LSN that is kept, or
		from, to uint64 // the damage
	}{
		"nothing":                       {segs{{}}, 0, 0, 0},
		"whole":                         {segs{{{1, 0, ""}, {2, 1, ""}, {3, 2, ""}}}, 3, 0, 0},
		"last torn in its payload":      {segs{{{1, 0, ""}, {2, 1, ""}, {3, 2, "payload"}}}, 2, 0, 0},
		"last torn in its header":       {segs{{{1, 0, ""}, {2, 1, ""}, {3, 2, "header"}}}, 2, 0, 0},
		"first and only torn":           {segs{{{1, 0, "payload"}}}, 0, 0, 0},
		"several of the group torn":     {segs{{{1, 0, ""}, {2, 1, "header"}, {3, 1, ""}, {4, 1, "payload"}, {5, 1, ""}}}, 1, 0, 0},
		"the middle of a group torn":    {segs{{{1, 0, ""}, {2, 1, ""}, {3, 1, "payload"}, {4, 1, ""}}}, 2, 0, 0},
		"rot before another group":      {segs{{{1, 0, ""}, {2, 1, "payload"}, {3, 2, ""}}}, 0, 2, 2},
		"rot in a header":               {segs{{{1, 0, ""}, {2, 1, "header"}, {3, 2, ""}}}, 0, 2, 2},
		"rot of the first":              {segs{{{1, 0, "payload"}, {2, 1, ""}, {3, 2, ""}}}, 0, 1, 2},
		"the largest durable decides":   {segs{{{1, 0, ""}, {2, 1, ""}, {3, 2, "payload"}, {4, 2, ""}, {5, 4, ""}}}, 0, 3, 4},
		"a damaged payload's own claim": {segs{{{1, 0, ""}, {2, 1, "header"}, {3, 2, "payload"}}}, 0, 2, 2},

		"two segments":                 {segs{{{1, 0, ""}, {2, 1, ""}}, {{3, 2, ""}, {4, 3, ""}}}, 4, 0, 0},
		"ready one is empty":           {segs{{{1, 0, ""}, {2, 1, ""}}, {}}, 2, 0, 0},
		"torn in the second":           {segs{{{1, 0, ""}, {2, 1, ""}}, {{3, 2, ""}, {4, 3, "header"}}, {}}, 3, 0, 0},
		"first of the second torn":     {segs{{{1, 0, ""}, {2, 1, ""}}, {{3, 2, "header"}}, {}}, 2, 0, 0},
		"rot in a full segment":        {segs{{{1, 0, ""}, {2, 1, "header"}}, {{3, 2, ""}, {4, 3, ""}}}, 0, 2, 3},
		"end of a full segment zero":   {segs{{{1, 0, ""}, {2, 1, "zero"}}, {{3, 2, ""}}}, 0, 2, 2},
		"full segment all zero":        {segs{{}, {{3, 2, ""}}}, 0, 1, 2},
		"hole between segments":        {segs{{{1, 0, ""}}, {{3, 2, ""}, {4, 2, ""}}}, 0, 2, 2},
		"first of a later one rotten":  {segs{{{1, 0, ""}, {2, 1, ""}}, {{3, 2, "payload"}, {4, 3, ""}}}, 0, 3, 3},
		"rot two segments back":        {segs{{{1, 0, "header"}}, {{2, 1, ""}}, {{3, 2, ""}}}, 0, 1, 2},
		"does not vouch for the first": {segs{{{1, 0, ""}, {2, 1, ""}}, {{3, 1, ""}}}, 2, 0, 0},
	} {
		t.Run(name, func(t *testing.T) {
			disk, o := handmade(t, c.segments...)
			var damage *DamageError
			if c.from != 0 {
				before := contents(disk)
				for range 2 {
					if _, _, err := Open(ctx, o, func(Frame) error { return nil }); !errors.As(err, &damage) {
						t.Fatalf("Open: %v", err)
					}
					if damage.LSNFrom != c.from || damage.LSNTo != c.to {
						t.Fatalf("%v, want LSN %d to %d", damage, c.from, c.to)
					}
				}
				if !slices.Equal(before, contents(disk)) {
					t.Fatal("a refused open changed something")
				}
				if list, _ := findings(t, disk, "/wal"); len(list) != 1 || list[0].LSNFrom != c.from {
					t.Fatalf("Verify: %+v", list)
				}
				return
			}
			if list, sum := findings(t, disk, "/wal"); len(list) > 0 || sum.Last != c.want {
				t.Fatalf("Verify: %+v, %+v", list, sum)
			}
			// What is cut never comes back, whatever is appended instead.
			last := c.want
			for range 3 {
				l, _, frames, _ := mustOpen(t, o)
				if got := uint64(len(frames)); got != last {
					t.Fatalf("%d batches, want %d", got, last)
				}
				for i, f := range frames {
					want := fmt.Sprintf("batch %d", i+1)
					if uint64(i) >= c.want {
						want = "another"
					}
					if string(f.Payload) != want {
						t.Fatalf("LSN %d is %q", f.LSN, f.Payload)
					}
				}
				mustAppend(t, l, "another")
				last++
				crash(l)
			}
		})
	}
}

// contents lists names and checksums of all files.
func contents(d *simdisk.Disk) []string {
	var list []string
	for _, n := range filesOf(d) {
		b := bytesOf(d, n)
		list = append(list, fmt.Sprintf("%s %d %x", n, len(b), Checksum(b)))
	}
	return list
}

// wantDamage opens and verifies a log that has lost something.
func wantDamage(t *testing.T, d *simdisk.Disk, file string) *DamageError {
	t.Helper()
	var damage *DamageError
	if _, _, err := Open(ctx, testOptions(d, "/wal"), func(Frame) error { return nil }); !errors.As(err, &damage) {
		t.Fatalf("Open: %v", err)
	}
	if file != "" && damage.File != file {
		t.Fatalf("%v, want it in %s", damage, file)
	}
	if list, _ := findings(t, d, "/wal"); len(list) == 0 {
		t.Fatalf("Verify found nothing of %v", damage)
	}
	return damage
}

// written is a disk with a log of several sealed segments that was closed.
func written(t *testing.T) *simdisk.Disk {
	t.Helper()
	disk := newDisk()
	l, _, _, _ := mustOpen(t, testOptions(disk, "/wal"))
	mustAppend(t, l, numbered(1, 60, 900)...)
	mustClose(t, l)
	return disk
}

func TestSealedDamage(t *testing.T) {
	const second = "0000000002.seg"
	for name, edit := range map[string]func(b []byte) []byte{
		"a bit":                  func(b []byte) []byte { b[5000] ^= 1; return b },
		"a zeroed page":          func(b []byte) []byte { clear(b[4096:8192]); return b },
		"a zeroed page later":    func(b []byte) []byte { clear(b[8192:12288]); return b },
		"cut at a frame":         func(b []byte) []byte { return b[:4096+segment.FrameBytes(900)] },
		"empty":                  func(b []byte) []byte { return nil },
		"another segment's file": nil,
		"missing":                nil,
	} {
		t.Run(name, func(t *testing.T) {
			disk := written(t)
			switch {
			case edit != nil:
				change(t, disk, "/wal/"+second, edit)
			case name == "missing":
				lose(disk, "/wal/"+second)
			default:
				put(disk, "/wal/"+second, bytesOf(disk, "/wal/0000000003.seg"))
			}
			d := wantDamage(t, disk, second)
			if name == "missing" && !errors.Is(d, fs.ErrNotExist) {
				t.Fatal(d)
			}
		})
	}
}

// Zeros behind the end of a sealed segment are not part of it.
func TestZerosAppended(t *testing.T) {
	disk := written(t)
	change(t, disk, "/wal/0000000002.seg", func(b []byte) []byte { return append(b, make([]byte, 4096)...) })
	l, _, frames, _ := mustOpen(t, testOptions(disk, "/wal"))
	checkBodies(t, frames, numbered(1, 60, 900))
	mustClose(t, l)
}

// A header block is not needed to read the frames, and its loss is told.
func TestHeaderBlockDamage(t *testing.T) {
	disk := written(t)
	change(t, disk, "/wal/0000000002.seg", func(b []byte) []byte { clear(b[:4096]); return b })
	l, _, frames, rec := mustOpen(t, testOptions(disk, "/wal"))
	if len(frames) != 60 || len(rec.Notes) != 1 {
		t.Fatalf("%d frames, %+v", len(frames), rec)
	}
	mustClose(t, l)
	if list, _ := findings(t, disk, "/wal"); len(list) != 1 {
		t.Fatalf("%+v", list)
	}
}

func TestLaterVersion(t *testing.T) {
	reseal := func(b []byte, at int) []byte {
		b[at] ^= 0x80
		c := Checksum(b[:508])
		b[508], b[509], b[510], b[511] = byte(c), byte(c>>8), byte(c>>16), byte(c>>24)
		return b
	}
	for _, name := range []string{"MANIFEST-A", "MANIFEST-B", "0000000002.seg"} {
		var future *FutureVersionError
		disk := written(t)
		change(t, disk, "/wal/"+name, func(b []byte) []byte { return reseal(b, 8) })
		if _, _, err := Open(ctx, testOptions(disk, "/wal"), func(Frame) error { return nil }); !errors.As(err, &future) {
			t.Errorf("%s: %v", name, err)
		}
		if _, err := Verify(ctx, disk, "/wal", nil, func(Finding) {}); !errors.As(err, &future) {
			t.Errorf("%s: Verify: %v", name, err)
		}
		disk = written(t)
		change(t, disk, "/wal/"+name, func(b []byte) []byte { return reseal(b, 16) })
		if _, _, err := Open(ctx, testOptions(disk, "/wal"), func(Frame) error { return nil }); !errors.Is(err, ErrUnknownFlag) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// One copy of the manifest is enough, whatever happened to the other; with
// both gone nothing is deleted, and no new log is begun over the old one.
func TestManifestDamage(t *testing.T) {
	edits := map[string]func([]byte) []byte{
		"a bit in the header": func(b []byte) []byte { b[30] ^= 1; return b },
		"a bit in the frames": func(b []byte) []byte { b[4096+60] ^= 1; return b },
		"zeroed":              func(b []byte) []byte { clear(b); return b },
		"cut short":           func(b []byte) []byte { return b[:4096] },
		"empty":               func(b []byte) []byte { return nil },
	}
	for what, edit := range edits {
		for i, name := range manifestNames {
			disk := written(t)
			change(t, disk, "/wal/"+name, edit)
			l, _, frames, rec := mustOpen(t, testOptions(disk, "/wal"))
			if len(frames) != 60 || len(rec.Notes) == 0 {
				t.Errorf("%s, %s: %d frames, notes %v", name, what, len(frames), rec.Notes)
			}
			mustClose(t, l)
			if l, _, _, rec := mustOpen(t, testOptions(disk, "/wal")); true {
				if len(rec.Notes) > 0 {
					t.Errorf("%s, %s: not repaired: %v", name, what, rec.Notes)
				}
				mustClose(t, l)
			}
			disk = written(t)
			change(t, disk, "/wal/"+name, edit)
			change(t, disk, "/wal/"+manifestNames[1-i], edits["zeroed"])
			before := contents(disk)
			wantDamage(t, disk, "")
			if !slices.Equal(before, contents(disk)) {
				t.Errorf("%s: a refused open changed something", what)
			}
		}
	}
	disk := written(t)
	lose(disk, "/wal/MANIFEST-A", "/wal/MANIFEST-B")
	wantDamage(t, disk, "MANIFEST-A")
}

// A segment that the manifest does not list goes, unless it knows of more than
// the log has.
func TestUnlisted(t *testing.T) {
	disk := written(t)
	put(disk, "/wal/spare-0000000099.seg", make([]byte, 100))
	put(disk, "/wal/MANIFEST-A.tmp", []byte("x"))
	h := segment.Header{Kind: segment.LogFile, StoreID: [16]byte{1, 2, 3}, ID: 50, Salt: 4}
	fh := segment.FrameHeader{Kind: segment.Batch, LSN: 61, Durable: 60, Count: 1}
	leftover := segment.AppendFrame(h.Marshal(), &fh, segment.NewKey(4), 4096, []byte("never acknowledged"))
	put(disk, "/wal/0000000050.seg", leftover)
	l, _, frames, _ := mustOpen(t, testOptions(disk, "/wal"))
	checkBodies(t, frames, numbered(1, 60, 900))
	if id := l.writer.seg.id; id != 51 {
		t.Errorf("the new segment has id %d: 50 was taken", id)
	}
	mustClose(t, l)
	for _, n := range []string{"/wal/spare-0000000099.seg", "/wal/MANIFEST-A.tmp", "/wal/0000000050.seg"} {
		if isThere(disk, n) {
			t.Errorf("%s is still there", n)
		}
	}
	h.ID, fh.Durable, fh.LSN = 90, 65, 66
	witness := segment.AppendFrame(h.Marshal(), &fh, segment.NewKey(4), 4096, []byte("the manifest went back"))
	put(disk, "/wal/0000000090.seg", witness)
	if _, _, err := Open(ctx, testOptions(disk, "/wal"), func(Frame) error { return nil }); err == nil {
		t.Error("opened in spite of a witness")
	}
	if !isThere(disk, "/wal/0000000090.seg") {
		t.Error("the witness was removed")
	}
}

// One read that fails is no sign of where the log ends: an open loses nothing
// by it, whichever read it is.
func TestEveryReadFails(t *testing.T) {
	segments := [][]mark{{{1, 0, ""}, {2, 1, ""}}, {{3, 2, ""}}, {}}
	for n := 1; ; n++ {
		disk, o := handmade(t, segments...)
		faulty := vfs.NewFaulty(disk)
		faulty.Inject(vfs.Fault{Ops: vfs.OpReads, Nth: n, Err: syscall.EIO})
		o.FS = faulty
		var r replayed
		if l, _, err := Open(ctx, o, r.add); err == nil {
			if len(r.frames) != 3 {
				t.Fatalf("read %d failed: %v: opened with %d batches", n, faulty.Fired(), len(r.frames))
			}
			crash(l)
		}
		if len(faulty.Fired()) == 0 {
			return
		}
		if l, _, frames, _ := mustOpen(t, testOptions(disk, "/wal")); len(frames) != 3 {
			t.Fatalf("after read %d failed: %v: %d batches", n, faulty.Fired(), len(frames))
		} else {
			mustClose(t, l)
		}
	}
}

// No crash harms a header block, which is synced before the segment is listed.
// So where one is gone and no frame can be read behind it, the frames are gone
// too, and there is no telling how many: that is not the end of the log. With
// frames behind it nothing is lost.
func TestHeaderAndFramesGone(t *testing.T) {
	for name, c := range map[string]struct {
		segments [][]mark
		harmed   string
		zeroed   int // bytes
		lost     uint64
	}{
		"the only one":     {[][]mark{{{1, 0, ""}}}, "0000000010.seg", smallSegments, 1},
		"the second":       {[][]mark{{{1, 0, ""}, {2, 1, ""}}, {{3, 2, ""}}}, "0000000011.seg", smallSegments, 3},
		"the third":        {[][]mark{{{1, 0, ""}}, {{2, 1, ""}}, {{3, 2, ""}}}, "0000000012.seg", 8192, 3},
		"the header only":  {[][]mark{{{1, 0, ""}}, {{2, 1, ""}}}, "0000000011.seg", 4096, 0},
		"one that goes on": {[][]mark{{{1, 0, ""}}, {{2, 1, ""}}}, "0000000010.seg", 4096, 0},
	} {
		t.Run(name, func(t *testing.T) {
			disk, o := handmade(t, c.segments...)
			change(t, disk, "/wal/"+c.harmed, func(b []byte) []byte { clear(b[:c.zeroed]); return b })
			if c.lost > 0 {
				if d := wantDamage(t, disk, c.harmed); d.LSNFrom != c.lost {
					t.Error(d)
				}
				return
			}
			l, _, frames, rec := mustOpen(t, o)
			if len(frames) != 2 || len(rec.Notes) == 0 {
				t.Errorf("%d batches, notes %v", len(frames), rec.Notes)
			}
			mustClose(t, l)
		})
	}
}
