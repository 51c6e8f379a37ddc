package wal

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"durafs/internal/vfs/simdisk"
	"durafs/segment"
)

// survived is what an open shows of a log: the batches that are there, and
// those that it names as lost, by LSN.
type survived struct {
	frames map[uint64]Frame
	lost   []*DamageError
}

// survey opens a log and keeps what it is told. The order must be that of LSNs.
func survey(t testing.TB, o Options) (*Log, survived, Recovery, error) {
	t.Helper()
	s := survived{frames: map[uint64]Frame{}}
	last := uint64(0)
	o.Damaged = func(d *DamageError) error {
		if d.LSNFrom <= last {
			t.Fatalf("lost %v behind LSN %d", d, last)
		}
		s.lost = append(s.lost, d)
		last = d.LSNTo
		return nil
	}
	l, rec, err := Open(ctx, o, func(f Frame) error {
		if f.LSN <= last {
			t.Fatalf("LSN %d behind %d", f.LSN, last)
		}
		last = f.LSN
		f.Payload = slices.Clone(f.Payload)
		s.frames[f.LSN] = f
		return nil
	})
	return l, s, rec, err
}

// names reports whether what was lost is named, lsn among it.
func (s survived) names(lsn uint64) bool {
	return slices.ContainsFunc(s.lost, func(d *DamageError) bool {
		return d.LSNFrom <= lsn && (lsn <= d.LSNTo || d.Run == 0 && d == s.lost[len(s.lost)-1])
	})
}

// runBatch is a batch of a run of its own.
func runBatch(n int) *Batch {
	b := batch(fmt.Sprintf("batch %d of run %d %s", n, n, strings.Repeat("x", n%5*40)))
	b.Run = uint64(n)
	return b
}

// rotting is a log of some batches, each of another run: sealed segments, and a
// tail as a killed process left it, in which two batches stand behind all that
// is looked at.
func rotting(t *testing.T) (disk *simdisk.Disk, o Options, batches int) {
	t.Helper()
	disk = newDisk()
	o = testOptions(disk, "/wal")
	appendRuns := func(l *Log, from, to int) {
		for n := from; n <= to; n++ {
			t := l.Submit(Ordinary, func(uint64) Decision { return Decision{Batches: []*Batch{runBatch(n)}} })
			if err := t.Wait(ctx); err != nil {
				panic(err)
			}
		}
	}
	l, _, _, _ := mustOpen(t, o)
	appendRuns(l, 1, 25)
	mustClose(t, l)
	l, _, _, _ = mustOpen(t, o)
	appendRuns(l, 26, 85)
	crash(l)
	return disk, o, 85
}

// TestRotAnywhere damages every byte of a log's files that was ever written,
// and each page, and each file as a whole. Whatever it is: what is there is
// what was appended, what is not there is named, and but for damage in the very
// last group everything is there or named. Where the run is known the log works
// on, without the lost batch and with all others; where nobody can know, it
// opens for reading, with what is left.
func TestRotAnywhere(t *testing.T) {
	stride := rotStride
	if testing.Short() {
		stride *= 6
	}
	whole, o, n := rotting(t)
	r := &rotTest{t: t, whole: whole, o: o, n: uint64(n)}
	r.places()
	for _, name := range filesOf(whole) {
		if strings.Contains(name, "spare") {
			continue
		}
		end := writtenBytes(bytesOf(whole, name))
		for at := 0; at < end; at++ {
			if header := at < segment.HeaderBytes; header && at%17 != 0 || !header && at%stride != 0 {
				continue
			}
			r.from, r.to = int64(at), int64(at+1)
			r.edit(fmt.Sprintf("%s: a bit of byte %d", name, at), name, func(b []byte) []byte { b[at] ^= 1 << (at % 8); return b })
		}
		for at := 0; at < end; at += 4096 {
			r.from, r.to = int64(at), int64(at+4096)
			r.edit(fmt.Sprintf("%s: the page at %d", name, at), name, func(b []byte) []byte { clear(b[at:min(len(b), at+4096)]); return b })
		}
		r.from, r.to = 0, 0
		for at := 0; at <= end; at += 512 {
			r.edit(fmt.Sprintf("%s: cut to %d", name, at), name, func(b []byte) []byte { return b[:at] })
		}
		r.edit(name+": gone", name, nil)
	}
	r.swaps()
	t.Logf("%d states: %d whole, %d with a named run, %d read-only", r.states, r.intact, r.attributed, r.readOnly)
	if r.attributed == 0 || r.readOnly == 0 || r.intact == 0 {
		t.Error("not every outcome was met")
	}
}

// writtenBytes is where the zeros begin that fill a file.
func writtenBytes(b []byte) int { return len(strings.TrimRight(string(b), "\x00")) }

// rotStride is the distance of the bytes in which a bit is flipped: every field
// of every kind of frame is met.
const rotStride = 7

type rotTest struct {
	t     *testing.T
	whole *simdisk.Disk
	o     Options
	n     uint64

	// tail is the file of the last batch, and from and to is what of the file
	// name is damaged.
	tail     uint32
	offsets  map[uint64]int64 // of the batches in tail
	name     string
	from, to int64

	states, intact, attributed, readOnly int
}

// places notes where the batches of the tail are.
func (r *rotTest) places() {
	o := r.o
	o.FS, o.ReadOnly = r.whole, errors.New("test")
	l, s, _, err := survey(r.t, o)
	if err != nil || len(s.frames) != int(r.n) {
		r.t.Fatal(err, len(s.frames))
	}
	l.Close(ctx)
	r.tail, r.offsets = s.frames[r.n].Pos.Segment, map[uint64]int64{}
	for lsn, f := range s.frames {
		if f.Pos.Segment == r.tail {
			r.offsets[lsn] = int64(f.Pos.Offset)
		}
	}
}

// excused reports whether the damage took the batch and with it everything
// behind: what could have told that it was durable. Then it looks like a write
// in flight.
func (r *rotTest) excused(lsn uint64) bool {
	off, ok := r.offsets[lsn]
	end := r.offsets[r.n]
	return ok && r.name == "/wal/"+segmentName(r.tail) && r.from < off+segment.FrameHeaderBytes+200 && r.to > end
}

func (r *rotTest) edit(what, name string, edit func([]byte) []byte) {
	disk := r.whole.Clone()
	if edit == nil {
		lose(disk, name)
	} else {
		change(r.t, disk, name, edit)
	}
	r.name = name
	r.judge(what, disk)
}

// swaps exchanges the contents of each two neighbouring segments.
func (r *rotTest) swaps() {
	var names []string
	for _, name := range filesOf(r.whole) {
		if strings.HasSuffix(name, ".seg") && !strings.Contains(name, "spare") {
			names = append(names, name)
		}
	}
	for i := range len(names) - 1 {
		disk := r.whole.Clone()
		disk.Damage(simdisk.Damage{Kind: simdisk.RotSwapped, File: names[i], Other: names[i+1]})
		r.judge("swapped "+names[i], disk)
	}
}

func (r *rotTest) judge(what string, disk *simdisk.Disk) {
	t := r.t
	t.Helper()
	r.states++
	o := r.o
	o.FS = disk
	var found []Finding
	if _, err := Verify(ctx, disk, "/wal", nil, func(f Finding) { found = append(found, f) }); err != nil && !fromLaterVersion(err) {
		t.Fatalf("%s: verify: %v", what, err)
	} else if err != nil {
		return // a bit of the version or a flag, with its checksum: not met here
	}
	l, s, rec, err := survey(t, o)
	var d *DamageError
	if errors.As(err, &d) {
		o.ReadOnly = err
		before := contents(disk)
		l, s, rec, err = survey(t, o)
		if err != nil {
			t.Fatalf("%s: read-only: %v", what, err)
		}
		r.readOnly++
		if len(found) == 0 {
			t.Fatalf("%s: %v, and verify finds nothing", what, o.ReadOnly)
		}
		l.Start(&recorder{})
		r.readAll(what, l, s)
		if err := submit(l, "x").Wait(ctx); !errors.Is(err, ErrReadOnly) {
			t.Fatalf("%s: an append is answered %v", what, err)
		}
		if err := l.Close(ctx); !errors.Is(err, ErrReadOnly) {
			t.Fatalf("%s: close: %v", what, err)
		}
		if !slices.Equal(before, contents(disk)) {
			t.Fatalf("%s: a read-only open changed something", what)
		}
		r.check(what, s, rec, found)
		return
	}
	if err != nil {
		t.Fatalf("%s: %v", what, err)
	}
	for _, d := range s.lost {
		if d.Run == 0 || d.LSNFrom != d.LSNTo || d.Run != d.LSNFrom {
			t.Fatalf("%s: opened read-write with %+v", what, d)
		}
	}
	if len(s.lost) > 0 {
		r.attributed++
	} else {
		r.intact++
	}
	r.check(what, s, rec, found)
	l.Start(&recorder{})
	r.readAll(what, l, s)
	mustAppend(t, l, "more")
	crash(l)
	// The next open finds the same.
	l, again, _, err := survey(t, o)
	if err != nil {
		t.Fatalf("%s: the second open: %v", what, err)
	}
	if len(again.lost) != len(s.lost) || len(again.frames) != len(s.frames)+1 {
		t.Fatalf("%s: first %d and %v, then %d and %v", what, len(s.frames), s.lost, len(again.frames), again.lost)
	}
	crash(l)
}

// check holds that what is there is right and what is not is named. The last
// batch alone, for which nothing vouches, may pass for a torn write.
func (r *rotTest) check(what string, s survived, rec Recovery, found []Finding) {
	r.t.Helper()
	for lsn := uint64(1); lsn <= r.n; lsn++ {
		f, ok := s.frames[lsn]
		want := runBatch(int(lsn))
		switch {
		case ok && (string(f.Payload) != string(want.Body) || f.Run != want.Run || f.Count != 1):
			r.t.Fatalf("%s: LSN %d is %q", what, lsn, f.Payload)
		case !ok && !s.names(lsn) && lsn < r.n && !r.excused(lsn):
			r.t.Fatalf("%s: LSN %d is gone, and of it is said only %v, %v", what, lsn, s.lost, rec.Notes)
		case ok && lsn <= r.n && slices.ContainsFunc(s.lost, func(d *DamageError) bool { return d.LSNFrom <= lsn && lsn <= d.LSNTo }):
			r.t.Fatalf("%s: LSN %d is there and is called lost: %v", what, lsn, s.lost)
		}
	}
	for _, d := range s.lost {
		if !slices.ContainsFunc(found, func(f Finding) bool {
			return f.LSNFrom <= d.LSNTo && d.LSNFrom <= f.LSNTo && (f.Run == d.Run || f.Run == 0)
		}) {
			r.t.Fatalf("%s: verify does not find %v: %+v", what, d, found)
		}
	}
}

// readAll reads every batch where it was said to be, and walks from the first
// to the last, over what is damaged between.
func (r *rotTest) readAll(what string, l *Log, s survived) {
	r.t.Helper()
	for lsn, f := range s.frames {
		got, _, err := l.ReadBatch(f.Pos, nil)
		if err != nil || got.LSN != lsn || string(got.Payload) != string(f.Payload) {
			r.t.Fatalf("%s: LSN %d at %+v: %v, %+v", what, lsn, f.Pos, err, got)
		}
	}
	first, ok := s.frames[1]
	if !ok {
		return
	}
	seen := 0
	for pos := first.Pos; ; {
		f, next, err := l.ReadBatch(pos, nil)
		var d *DamageError
		switch {
		case errors.Is(err, ErrEnd):
			if seen < len(s.frames) {
				r.t.Fatalf("%s: %d batches are read of %d", what, seen, len(s.frames))
			}
			return
		case errors.As(err, &d):
			if next == pos {
				r.t.Fatalf("%s: no way on behind %v", what, d)
			}
		case err != nil:
			r.t.Fatalf("%s: at %+v: %v", what, pos, err)
		default:
			if f.LSN <= uint64(r.n) {
				seen++
			}
		}
		pos = next
	}
}
