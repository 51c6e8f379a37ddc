package wal

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"testing"

	"durafs/internal/vfs"
	"durafs/segment"
)

// bodies is a Derived that keeps the bodies of a segment's batches, and with
// merges those of all segments before it too.
type bodies struct {
	log    *Log
	merges bool
	got    [][]byte
	loads  []uint32 // segments whose footers were loaded
	walks  []uint32
	sealed []uint32
	lost   []uint64
	number uint32
}

const bodiesKind = 7

func (b *bodies) Derive(seg uint32, batches Batches, w *FooterWriter) error {
	var all []byte
	from := seg
	if b.merges && b.log != nil {
		if s, ok := b.log.Sections(seg - 1); ok {
			r, _ := s.Section(bodiesKind)
			old, err := io.ReadAll(r)
			if err != nil {
				return err
			}
			from, all = uint32(old[0]), old[1:]
		}
	}
	err := batches(func(f Frame) error {
		all = append(append(all, byte(len(f.Payload)), byte(len(f.Payload)>>8)), f.Payload...)
		return nil
	}, b.lose)
	w.Begin(1000) // of an owner that nobody knows
	w.Write(bytes.Repeat([]byte("?"), 300<<10))
	w.Begin(bodiesKind)
	w.Write([]byte{byte(from)})
	w.Write(all)
	return err
}

func (b *bodies) Sealed(seg uint32) { b.sealed = append(b.sealed, seg) }

func (b *bodies) Covers(_ uint32, s Sections) uint32 {
	r, ok := s.Section(bodiesKind)
	var from [1]byte
	if !ok {
		return 0
	}
	if _, err := r.ReadAt(from[:], 0); err != nil {
		return 0
	}
	return uint32(from[0])
}

func (b *bodies) Load(seg uint32, s Sections) error {
	r, _ := s.Section(bodiesKind)
	all, err := io.ReadAll(r)
	if err != nil {
		return err
	}
	b.loads = append(b.loads, seg)
	for all = all[1:]; len(all) > 0; {
		n := int(all[0]) | int(all[1])<<8
		b.got = append(b.got, all[2:2+n])
		all = all[2+n:]
	}
	return nil
}

func (b *bodies) Walk(seg uint32, batches Batches) error {
	b.walks = append(b.walks, seg)
	return batches(b.add, b.lose)
}

// lose takes note of a batch that is lost, and leaves it out.
func (b *bodies) lose(d *DamageError) error {
	b.lost = append(b.lost, d.LSNFrom)
	return nil
}

func (b *bodies) LeftOut() []uint32 { return nil }

func (b *bodies) ReplayLeftOut(uint32) (func(uint64) bool, func(Frame) error) {
	panic("nothing was left out")
}

func (b *bodies) add(f Frame) error {
	b.got = append(b.got, bytes.Clone(f.Payload))
	return nil
}

func (b *bodies) Forget() { b.got, b.loads, b.walks, b.lost = nil, nil, nil, nil }

func (b *bodies) Numbers() Numbers { return Numbers{Run: b.number} }

// opens opens and starts a log, and tells all bodies that it came to.
func (b *bodies) open(t *testing.T, o Options) *Log {
	t.Helper()
	o.Derived = b
	l, _, err := Open(ctx, o, b.add)
	if err != nil {
		t.Fatalf("Open: %v", err)
	}
	b.log = l
	l.Start(&recorder{})
	return l
}

// footed is a directory with a log of several sealed segments that was closed,
// and the bodies in it.
func footed(t *testing.T, merges bool) (Options, [][]byte) {
	t.Helper()
	o := testOptions(vfs.OS, filepath.Join(t.TempDir(), "wal"))
	b := &bodies{merges: merges, number: 44}
	l := b.open(t, o)
	var want [][]byte
	for _, body := range numbered(1, 60, 900) {
		want = append(want, []byte(body))
	}
	mustAppend(t, l, numbered(1, 60, 900)...)
	mustClose(t, l)
	if len(b.sealed) < 4 || !slices.IsSorted(b.sealed) {
		t.Fatalf("sealed: %v", b.sealed)
	}
	return o, want
}

// changeFile edits a file in place.
func changeFile(t *testing.T, o Options, name string, edit func(b []byte) []byte) {
	t.Helper()
	path := filepath.Join(o.Dir, name)
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, edit(b), 0o600); err != nil {
		t.Fatal(err)
	}
}

func (b *bodies) check(t *testing.T, want [][]byte) {
	t.Helper()
	if !slices.EqualFunc(b.got, want, bytes.Equal) {
		t.Fatalf("%d bodies, want %d", len(b.got), len(want))
	}
}

// A log is opened by its footers alone: no batch of a sealed segment is
// replayed. With merged footers the newest is enough.
func TestOpenByFooters(t *testing.T) {
	for _, merges := range []bool{false, true} {
		o, want := footed(t, merges)
		b := &bodies{merges: merges}
		o.Derived = b
		l, rec, err := Open(ctx, o, func(Frame) error { return errors.New("a batch was replayed") })
		if err != nil {
			t.Fatal(err)
		}
		b.check(t, want)
		if len(b.walks) > 0 || merges && len(b.loads) != 1 || rec.Batches != 0 || rec.Last != 60 || len(rec.Notes) > 0 {
			t.Errorf("loaded %v, walked %v, %+v", b.loads, b.walks, rec)
		}
		if high := l.HighWater(); high.Run != 44 || high.LSN != 60 {
			t.Errorf("the highest numbers are %+v", high)
		}
		b.log = l
		l.Start(&recorder{})
		mustAppend(t, l, numbered(61, 80, 900)...)
		mustClose(t, l)
		for _, body := range numbered(61, 80, 900) {
			want = append(want, []byte(body))
		}
		again := &bodies{}
		mustClose(t, again.open(t, o))
		again.check(t, want)
	}
}

// A footer that is missing, short or wrong, in any of its parts, is named, and
// the batches are walked. Verify finds it.
func TestFooterDamage(t *testing.T) {
	const file = "0000000003.seg"
	o, want := footed(t, false)
	whole, err := os.ReadFile(filepath.Join(o.Dir, file))
	if err != nil {
		t.Fatal(err)
	}
	foot, err := segment.ParseFooter(whole[len(whole)-segment.FooterBytes:])
	if err != nil {
		t.Fatal(err)
	}
	if foot.ID != 3 || foot.Size != int64(len(whole)) || len(foot.Sections) != 2 || foot.Last < foot.First {
		t.Fatalf("%+v", foot)
	}
	at := int(foot.Sections[1].Offset)
	for name, c := range map[string]struct {
		edit   func(b []byte) []byte
		walked bool
	}{
		"footer block":      {func(b []byte) []byte { b[len(b)-1] ^= 1; return b }, true},
		"cut by a byte":     {func(b []byte) []byte { return b[:len(b)-1] }, true},
		"cut by a page":     {func(b []byte) []byte { return b[:len(b)-4096] }, true},
		"cut at the end":    {func(b []byte) []byte { return b[:foot.End] }, true},
		"longer":            {func(b []byte) []byte { return append(b, make([]byte, 4096)...) }, true},
		"a page":            {func(b []byte) []byte { b[at+9] ^= 1; return b }, true},
		"an unknown part":   {func(b []byte) []byte { b[foot.Sections[0].Offset] ^= 1; return b }, false},
		"header block":      {func(b []byte) []byte { clear(b[:4096]); return b }, false},
		"behind the frames": {func(b []byte) []byte { b[foot.End] ^= 1; return b }, false},
	} {
		t.Run(name, func(t *testing.T) {
			changeFile(t, o, file, func([]byte) []byte { return c.edit(bytes.Clone(whole)) })
			b := &bodies{}
			o := o
			o.Derived = b
			l, rec, err := Open(ctx, o, b.add)
			if err != nil {
				t.Fatal(err)
			}
			mustClose(t, l)
			b.check(t, want)
			if walked := slices.Equal(b.walks, []uint32{3}); walked != c.walked {
				t.Errorf("walked: %v", b.walks)
			}
			if named := len(rec.Notes) > 0; named != (c.walked || name == "header block") {
				t.Errorf("noted: %v", rec.Notes)
			}
			if list, _ := findings(t, vfs.OS, o.Dir); len(list) == 0 {
				t.Error("Verify found nothing")
			}
		})
	}
}

// A footer is that of its own segment: another one's is not believed, though it
// is sound.
func TestFooterOfAnother(t *testing.T) {
	o, _ := footed(t, false)
	other, err := os.ReadFile(filepath.Join(o.Dir, "0000000002.seg"))
	if err != nil {
		t.Fatal(err)
	}
	changeFile(t, o, "0000000003.seg", func([]byte) []byte { return other })
	_, _, err = Open(ctx, o, func(Frame) error { return nil })
	if !errors.As(err, new(*DamageError)) {
		t.Fatal(err)
	}
}

// A listed file that is missing is found under another name.
func TestAdoptByName(t *testing.T) {
	o, want := footed(t, false)
	if err := os.Rename(filepath.Join(o.Dir, "0000000002.seg"), filepath.Join(o.Dir, "copy of 2")); err != nil {
		t.Fatal(err)
	}
	b := &bodies{}
	l := b.open(t, o)
	b.check(t, want)
	mustClose(t, l)
	if _, err := os.Stat(filepath.Join(o.Dir, "0000000002.seg")); err != nil {
		t.Fatal(err)
	}
	if list, _ := findings(t, vfs.OS, o.Dir); len(list) > 0 {
		t.Fatal(list)
	}
}

// replacing rewrites the first two segments into one, as its frames are, under
// the next number, and does not tell the manifest.
func replacing(t *testing.T, o Options) string {
	t.Helper()
	const id = 100
	h := segment.Header{Kind: segment.LogFile, StoreID: o.StoreID, ID: id, Salt: 5, Generation: 1, Replaces: []uint32{2, 3}}
	key := segment.NewKey(h.Salt)
	b := h.Marshal()
	foot := segment.Footer{Header: h}
	var prev uint32
	for _, name := range []string{"0000000002.seg", "0000000003.seg"} {
		old, err := os.ReadFile(filepath.Join(o.Dir, name))
		if err != nil {
			t.Fatal(err)
		}
		f, err := segment.ParseFooter(old[len(old)-segment.FooterBytes:])
		if err != nil {
			t.Fatal(err)
		}
		w := segment.NewWalker(bytes.NewReader(old).ReadAt, segment.NewKey(f.Salt), segment.HeaderBytes, f.End, f.First-1)
		for {
			frame, err := w.Next()
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				t.Fatal(err)
			}
			fh := frame.FrameHeader
			fh.Prev = prev
			b = segment.AppendFrame(b, &fh, key, int64(len(b)), frame.Payload)
			prev = fh.CRC
		}
		if foot.First == 0 {
			foot.First = f.First
		}
		foot.Last = f.Last
	}
	foot.End = int64(len(b))
	b = append(b, make([]byte, segment.SectionsOffset(foot.End)-foot.End)...)
	foot.Size = int64(len(b)) + segment.FooterBytes
	name := segmentName(id)
	if err := os.WriteFile(filepath.Join(o.Dir, name), append(b, foot.Marshal()...), 0o600); err != nil {
		t.Fatal(err)
	}
	return name
}

// A complete file that is not listed counts when what it replaces is missing,
// and is the orphan of an uncommitted step when that is there.
func TestAdoptWhatReplaces(t *testing.T) {
	for _, gone := range []int{0, 1, 2} {
		o, _ := footed(t, false)
		name := replacing(t, o)
		for _, old := range []string{"0000000002.seg", "0000000003.seg"}[:gone] {
			if err := os.Remove(filepath.Join(o.Dir, old)); err != nil {
				t.Fatal(err)
			}
		}
		l, rec, err := Open(ctx, o, func(Frame) error { return nil })
		if gone == 1 {
			if !errors.As(err, new(*DamageError)) {
				t.Errorf("with one of two missing: %v", err)
			}
			if _, err := os.Stat(filepath.Join(o.Dir, name)); err != nil {
				t.Errorf("what may be needed is gone: %v", err)
			}
			continue
		}
		if gone == 0 {
			if err != nil {
				t.Fatal(err)
			}
			mustClose(t, l)
			if _, err := os.Stat(filepath.Join(o.Dir, name)); err == nil {
				t.Error("the orphan is still there")
			}
			continue
		}
		// Listed by its number it stands behind segments with higher LSNs,
		// which an order by ranges will allow.
		_, listed := manifestOf(t, o).segments[100]
		if !listed {
			t.Errorf("it was not adopted: %v, %+v", err, rec)
		}
		if err == nil {
			mustClose(t, l)
		}
	}
}

func manifestOf(t *testing.T, o Options) manifestState {
	t.Helper()
	m, err := loadManifest(o.FS, o.Dir, o.StoreID, false)
	if err != nil {
		t.Fatal(err)
	}
	return m.state
}

// So do those of a log that begins behind the numbers of another: what was
// before is not lost.
func TestRebuildBegun(t *testing.T) {
	disk := newDisk()
	o := testOptions(disk, "/wal")
	o.Begin = HighWater{Segment: 7, Pack: 8, LSN: 900, Numbers: Numbers{Run: 44}}
	b := &bodies{}
	l := b.open(t, o)
	mustAppend(t, l, numbered(1, 5, 100)...)
	mustClose(t, l)
	before := manifestOf(t, o)
	for _, name := range manifestNames {
		if err := disk.Remove("/wal/" + name); err != nil {
			t.Fatal(err)
		}
	}
	if err := Rebuild(o, nil, HighWater{}); err != nil {
		t.Fatal(err)
	}
	after := manifestOf(t, o)
	before.high.Segment = after.high.Segment // of a spare, which was nowhere
	if after.high != before.high {
		t.Errorf("high water %+v, and was %+v", after.high, before.high)
	}
	again := &bodies{}
	mustClose(t, again.open(t, o))
	if len(again.got) != 5 || len(again.lost) > 0 {
		t.Errorf("%d batches are there, of 5; lost: %v", len(again.got), again.lost)
	}
}

// With both copies of the manifest gone, the segments say what it was.
func TestRebuild(t *testing.T) {
	o, want := footed(t, false)
	before := manifestOf(t, o)
	for _, name := range manifestNames {
		if err := os.Remove(filepath.Join(o.Dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	replaced := replacing(t, o)
	if err := Rebuild(o, []Pack{{Seq: 3, Nonce: 4}}, HighWater{Numbers: Numbers{Run: 44}}); err != nil {
		t.Fatal(err)
	}
	after := manifestOf(t, o)
	for id, e := range before.segments {
		got := after.segments[id]
		got.Size = e.Size // that of the file while it was written, which is forgotten
		if got != e {
			t.Errorf("segment %d is %+v, and was %+v", id, got, e)
		}
	}
	if len(after.segments) != len(before.segments) || len(after.packs) != 1 || after.high.Run != 44 || after.high.LSN != 60 || after.high.Pack != 3 {
		t.Errorf("%+v", after)
	}
	b := &bodies{}
	mustClose(t, b.open(t, o))
	b.check(t, want)
	if _, err := os.Stat(filepath.Join(o.Dir, replaced)); err == nil {
		t.Error("the orphan of a step that was not committed is still there")
	}
}

// After a seal that failed nothing is sealed any more, nothing is lost, and the
// next open seals it.
func TestSealFails(t *testing.T) {
	o := testOptions(vfs.OS, filepath.Join(t.TempDir(), "wal"))
	b := &failing{bodies: bodies{}, at: 2}
	o.Derived = b
	l, _, err := Open(ctx, o, b.add)
	if err != nil {
		t.Fatal(err)
	}
	l.Start(&recorder{})
	mustAppend(t, l, numbered(1, 60, 900)...)
	mustClose(t, l)
	if !slices.Equal(b.sealed, []uint32{1}) {
		t.Errorf("sealed: %v", b.sealed)
	}
	var want [][]byte
	for _, body := range numbered(1, 60, 900) {
		want = append(want, []byte(body))
	}
	again := &bodies{}
	mustClose(t, again.open(t, o))
	again.check(t, want)
	if len(again.sealed) < 3 || !slices.Equal(again.loads, []uint32{1}) {
		t.Errorf("sealed: %v, loaded: %v", again.sealed, again.loads)
	}
}

type failing struct {
	bodies
	at uint32
}

func (f *failing) Derive(seg uint32, batches Batches, w *FooterWriter) error {
	if seg == f.at {
		return errors.New("for a test")
	}
	return f.bodies.Derive(seg, batches, w)
}

// A group that was refused may stand in its segment all the same; the manifest
// told where that ends. Without it the segment behind tells.
func TestRebuildBehindARefusedGroup(t *testing.T) {
	faulty := vfs.NewFaulty(newDisk())
	o := testOptions(faulty, "/wal")
	l, _, _, _ := mustOpen(t, o)
	mustAppend(t, l, "1")
	waitFor(t, func() bool { l.mu.Lock(); defer l.mu.Unlock(); return l.ready != nil && l.space.ballast.Held() })
	faulty.Inject(vfs.Fault{Ops: vfs.OpWrite, Nth: 1, Mode: vfs.Done, Err: syscall.EIO})
	if err := submit(l, "refused").Wait(ctx); !errors.Is(err, ErrRefused) {
		t.Fatalf("a write that failed: %v", err)
	}
	mustAppend(t, l, "2", "3")
	crash(l)
	for _, name := range manifestNames {
		if err := faulty.Remove(filepath.Join(o.Dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	if err := Rebuild(o, nil, HighWater{}); err != nil {
		t.Fatal(err)
	}
	l, _, frames, _ := mustOpen(t, o)
	checkBodies(t, frames, []string{"1", "2", "3"})
	mustClose(t, l)
}
