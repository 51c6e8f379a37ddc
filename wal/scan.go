package wal

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"

	"durafs/internal/mutant"
	"durafs/internal/vfs"
	"durafs/segment"
)

// scan reads all segments in the order of their ids and finds out where what
// can be believed ends. It changes nothing but syncs what it reads.
type scan struct {
	ctx     context.Context
	fs      vfs.FS
	dir     string
	storeID [16]byte
	list    []segEntry
	done    int // segments of the list that need no scan any more
	// beside leaves the syncing out, and reads what the page cache has: the log
	// may be open beside this.
	beside bool
	// lenient goes on behind damage of which nobody can tell whose data it
	// was, and syncs nothing either.
	lenient bool
	// deliver is called with each batch that a later frame or the manifest
	// calls durable, in the order of LSNs, and damaged with those that are
	// lost; nil: the first is an error.
	deliver func(Frame) error
	damaged func(*DamageError) error
	// applier calls deliver while the scan goes on; nil: we do. When the scan
	// of a segment returns, what it holds was applied.
	applier *applier

	// last is the LSN of the last valid batch, vouched the highest that
	// anything calls durable.
	last    uint64
	vouched uint64
	// pending are batches that nothing vouches for yet: the last group of the
	// last segment, at the end. Within a segment some that are vouched for may
	// stand before them and wait for company. They are copies, in kept: most
	// are vouched for by the very next group, and the memory is used again.
	pending []Frame
	kept    *delivery
	// ends tells where live segments were found to end; one that is missing
	// ends where the tail begins, or has no frame.
	ends map[uint32]segEntry
	// reached is how far into each segment frames were found that check.
	reached map[uint32]int64
	// cut tells what was found and cannot be believed, if anything.
	cut     *Cut
	batches uint64
	bytes   int64
	notes   []error
	// hole is damage behind which no frame was found yet, and lost counts what
	// damaged was told.
	hole *DamageError
	lost int
	// claims holds the largest durable of segments that were looked through,
	// and rotIn is the one in which the walk has stepped over rot.
	claims map[uint32]uint64
	rotIn  uint32
	// unreadLater is what could not be read of a segment that was looked into
	// beside the walk.
	unreadLater *DamageError
	// short is why the file that is walked ends too soon, nil if it does not.
	short  *DamageError
	unread *salvage // what could not be read of the file that was opened last
	ahead  *ahead   // of the segment that was opened last, if it is a large one
	// headless are the segments whose header block is damaged, and how.
	headless map[uint32]error
	// recycled are those in whose blocks an earlier segment's frames stand.
	recycled map[uint32]bool
}

// Cut tells what recovery did not keep: the remains of a write that was never
// acknowledged.
type Cut struct {
	File   string
	Offset int64
	// LSN is that of the first batch that is not kept.
	LSN    uint64
	Reason string
}

func (s *scan) run() error {
	s.begin()
	s.applier = newApplier(s.deliver)
	defer func() {
		s.applier.stop()
		s.applier = nil
	}()
	for i := s.done; i < len(s.list); i++ {
		if err := s.ctx.Err(); err != nil {
			return err
		}
		tail, err := s.segment(i, s.list[i])
		if err != nil {
			return err
		}
		if tail {
			break
		}
	}
	if s.last < s.vouched {
		err := s.unknown(&DamageError{
			File: manifestNames[0], LSNFrom: s.last + 1, LSNTo: s.vouched,
			Reason: "the segments end before what is known to be durable",
		})
		if err != nil {
			return err
		}
	}
	return s.closeHole(s.vouched)
}

// begin makes what a scan notes.
func (s *scan) begin() {
	if s.ends == nil {
		s.ends, s.claims, s.headless = map[uint32]segEntry{}, map[uint32]uint64{}, map[uint32]error{}
		s.reached, s.recycled = map[uint32]int64{}, map[uint32]bool{}
	}
}

// segment scans one segment. tail is true when nothing behind it counts.
func (s *scan) segment(i int, e segEntry) (tail bool, err error) {
	f, w, err := s.open(e, false)
	if err != nil {
		return s.gone(e, err)
	}
	defer f.Close()
	defer w.Close()
	s.unreadLater = nil
	if s.hole != nil {
		w.FreeStart() // how many are lost, its first frame will say
	}
	for ended := false; !ended; {
		start := w.Offset()
		stopped := s.walk(e, w)
		s.bytes += w.Offset() - start
		s.reached[e.ID] = w.Offset()
		if err := s.flush(); err != nil {
			return false, err
		}
		var bad *segment.InvalidError
		if stopped != nil && !errors.As(stopped, &bad) {
			var own *deliverError
			if errors.As(stopped, &own) {
				return false, own.err
			}
			return false, damageAt(segmentName(e.ID), w.Offset(), s.last+1, max(s.vouched, s.last+1), stopped)
		}
		if e.State == segLive {
			tail, ended, err = s.liveEnd(i, e, w, bad)
		} else {
			ended, err = s.checkEnd(e, w, stopped)
		}
		if err != nil || tail {
			return tail, err
		}
	}
	if e.State != segLive {
		err = s.closeHole(e.Last)
	}
	return false, err
}

// deliverError is an error of the callback, which is returned as it is.
type deliverError struct{ err error }

func (e *deliverError) Error() string { return e.err.Error() }

// open opens a segment and checks what can be checked without its frames. A
// file that may have been written since the last successful sync is synced,
// and read past the page cache. brief: only its first frame is wanted.
func (s *scan) open(e segEntry, brief bool) (vfs.File, *segment.Walker, error) {
	name := segmentName(e.ID)
	f, err := s.fs.Open(filepath.Join(s.dir, name))
	if err != nil {
		return nil, nil, damageAt(name, 0, s.last+1, max(e.Last, s.vouched), err)
	}
	read, err := s.check(f, e)
	if err != nil {
		f.Close()
		return nil, nil, err
	}
	end := e.End
	if e.State == segLive {
		end = e.Size
	}
	if brief || end <= aheadBytes {
		w := s.newWalker(read, e, end)
		if brief {
			w.Brief()
		}
		return f, w, nil
	}
	s.ahead = newAhead(read, end, s.ahead)
	w := s.newWalker(s.ahead.ReadAt, e, end)
	w.Borrow(s.ahead.lend)
	return aheadFile{f, s.ahead}, w, nil
}

func (s *scan) newWalker(read func([]byte, int64) (int, error), e segEntry, end int64) *segment.Walker {
	return segment.NewWalker(read, segment.NewKey(e.Salt), segment.HeaderBytes, end, s.last)
}

// check checks a segment but for its frames, and tells how to read it.
func (s *scan) check(f vfs.File, e segEntry) (read func([]byte, int64) (int, error), err error) {
	name, end := segmentName(e.ID), e.End
	s.short = nil
	unread := &salvage{read: f.ReadAt}
	if e.State == segLive {
		end = e.Size
	}
	if e.State == segLive && !s.beside {
		if !mutant.On(mutant.CacheTrusted) {
			unread.read = f.ReadUncachedAt
		}
		if !s.lenient {
			if err := f.Datasync(); err != nil {
				return nil, fmt.Errorf("wal: %s cannot be synced: %w", name, err)
			}
		}
	}
	size, err := f.Size()
	if err != nil {
		return nil, damageAt(name, 0, 0, 0, err)
	}
	if size < end {
		// What a lenient scan can find in it comes before the hole.
		d := &DamageError{
			File: name, Offset: size, LSNFrom: s.last + 1, LSNTo: max(e.Last, s.vouched, s.last+1),
			Reason: fmt.Sprintf("the file has %d bytes of %d", size, end),
		}
		if !s.lenient || size < segment.HeaderBytes {
			return nil, d
		}
		s.short = d
	}
	read = unread.ReadAt
	h, err := readHeader(read, segment.LogFile, s.storeID)
	var invalid *segment.InvalidError
	switch {
	case errors.As(err, &invalid):
		// The manifest knows the salt, so the frames can be read without it.
		cause := damageAt(name, 0, 0, 0, unread.because(err))
		if s.headless[e.ID] == nil {
			s.notes = append(s.notes, cause)
		}
		s.headless[e.ID] = cause
	case err != nil:
		return nil, damageAt(name, 0, 0, 0, err)
	case h.ID != e.ID || h.Salt != e.Salt:
		return nil, &DamageError{File: name, Reason: fmt.Sprintf("the file is another one: its header says segment %d", h.ID)}
	}
	s.recycled[e.ID] = h.Recycled
	s.unread = unread
	return read, nil
}

// walk takes frames until one is not valid (that error), or the end (nil).
func (s *scan) walk(e segEntry, w *segment.Walker) error {
	for {
		f, err := w.Next()
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return err
		case f.Kind == segment.Manifest:
			return &segment.InvalidError{Offset: f.Offset, Reason: "a frame of a manifest"}
		case e.State == segLive && e.Last > 0 && f.Count > 0 && f.LSN > e.Last:
			return nil // where the manifest is lost: a later segment has it
		}
		if f.Offset == segment.HeaderBytes && f.Durable < s.last {
			// No frame of a segment is written before everything in the one
			// before it is durable.
			return &segment.InvalidError{Offset: f.Offset, Reason: "does not vouch for the segment before it"}
		}
		if err := s.take(e.ID, f); err != nil {
			return &deliverError{err}
		}
	}
}

// take delivers a frame, or keeps it until something vouches for it.
func (s *scan) take(id uint32, f segment.Frame) error {
	before := f.LSN
	if f.Count > 0 {
		before--
	}
	if err := s.closeHole(before); err != nil {
		return err
	}
	if f.Durable > s.vouched {
		s.vouched = f.Durable
	}
	if err := s.flushMany(); err != nil {
		return err
	}
	s.last = f.LSN
	if f.Kind != segment.Batch {
		return nil
	}
	if mutant.On(mutant.CacheTrusted) {
		s.vouched = max(s.vouched, f.LSN)
	}
	s.keep(Frame{LSN: f.LSN, Run: f.Run, Count: f.Count, Payload: f.Payload, Pos: Position{id, uint32(f.Offset)}})
	return nil
}

// keep puts a copy of a batch behind those that are pending.
func (s *scan) keep(b Frame) {
	if s.kept == nil {
		s.kept = new(delivery)
	}
	s.kept.add(b)
	s.pending = s.kept.frames
}

// flushMany gives the pending batches away if they are vouched for and many.
func (s *scan) flushMany() error {
	n := len(s.pending)
	if n == 0 || len(s.kept.mem) < deliveryBytes || s.pending[n-1].LSN > s.vouched {
		return nil
	}
	return s.deliverFirst(n, false)
}

// flush delivers the pending batches that are vouched for by now, and returns
// when they are applied.
func (s *scan) flush() error {
	n := len(s.pending)
	for n > 0 && s.pending[n-1].LSN > s.vouched {
		n--
	}
	if err := s.deliverFirst(n, true); err != nil || s.applier == nil {
		return err
	}
	return s.applier.wait()
}

// deliverFirst gives n of the pending batches away. awaited says that there is
// nothing to do until they are applied.
func (s *scan) deliverFirst(n int, awaited bool) error {
	if n == 0 {
		return nil
	}
	d, rest := s.kept, new(delivery)
	for _, b := range s.pending[n:] {
		rest.add(b)
	}
	d.frames = d.frames[:n]
	s.batches += uint64(n)
	var err error
	switch {
	case s.applier == nil, awaited && s.applier.out == 0:
		err = d.applyTo(s.deliver)
		if len(rest.frames) == 0 {
			*d = delivery{frames: d.frames[:0], mem: d.mem[:0]}
			rest = d
		}
	case len(rest.frames) > 0:
		_, err = s.applier.give(d)
	default:
		rest, err = s.applier.give(d)
	}
	s.kept, s.pending = rest, rest.frames
	return err
}

func (s *scan) hand(b Frame) error {
	s.batches++
	return s.deliver(b)
}
