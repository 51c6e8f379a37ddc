package wal

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"sync"

	"durafs/internal/vfs"
	"durafs/segment"
)

// checkers is how many sealed files are looked at, at open, at the same time.
// It is waiting for the disk that takes the time.
const checkers = 8

// restore spares the open the frames of sealed segments: it lets the owner of
// the batches load what their footers say, and walks only those whose footer
// is missing or wrong. What it leaves is for the scan: the first segment that
// is not sealed, and all behind it.
//
// Every sealed file is looked at all the same: that it is there, whole, with
// its header and its footer.
func (r *recovery) restore(ctx context.Context) error {
	sealed := 0
	for sealed < len(r.scan.list) && r.scan.list[sealed].State == segSealed {
		sealed++
	}
	r.scan.begin()
	begin := r.scan.last
	list := r.scan.list[:sealed]
	for _, e := range list {
		r.files.add(newSegFile(e))
	}
	if err := r.checkSealed(list); err != nil || r.opts.Derived == nil {
		return err
	}
	for {
		if err := ctx.Err(); err != nil {
			return err
		}
		bad, err := r.load(list)
		if err == nil {
			r.scan.done = sealed
			return r.replayLeftOut(list)
		}
		if bad == nil {
			return err
		}
		// Rare, so that beginning anew may cost what it does.
		r.scan.notes = append(r.scan.notes, err)
		bad.footer.Store(nil)
		r.opts.Derived.Forget()
		r.scan.last, r.scan.vouched, r.scan.batches, r.scan.bytes = begin, r.old.high.LSN, 0, 0
	}
}

// step is a part of a restore: a footer that stands for the segments from
// first to last, or one segment to walk.
type step struct {
	first, last int
	footer      bool
}

// plan covers list by as few footers as it can, the newest first: each stands
// for as many segments as it says.
func (r *recovery) plan(list []segEntry) []step {
	var steps []step
	for i := len(list) - 1; i >= 0; {
		s := step{first: i, last: i}
		if sections, ok := r.Sections(list[i].ID); ok {
			if from := r.opts.Derived.Covers(list[i].ID, sections); from > 0 && from <= list[i].ID {
				s.footer = true
				for s.first > 0 && list[s.first-1].ID >= from {
					s.first--
				}
			}
		}
		steps = append([]step{s}, steps...)
		i = s.first - 1
	}
	return steps
}

// load runs a plan. bad is the segment whose footer could not be loaded.
func (r *recovery) load(list []segEntry) (bad *segFile, err error) {
	for _, s := range r.plan(list) {
		e := list[s.last]
		if err := r.checkOrder(list[s.first : s.last+1]); err != nil {
			return nil, err
		}
		if !s.footer {
			r.noteUnused(e)
			if err := r.walkSealed(s.last, e); err != nil {
				return nil, err
			}
			continue
		}
		sections, _ := r.Sections(e.ID)
		if err := r.opts.Derived.Load(e.ID, sections); err != nil {
			bad, _ = r.files.find(e.ID)
			return bad, err
		}
		r.scan.last = e.Last
	}
	return nil, nil
}

// noteUnused notes a sound footer whose sections are of no use.
func (r *recovery) noteUnused(e segEntry) {
	s, _ := r.files.find(e.ID)
	foot := s.footer.Load()
	if foot == nil || len(foot.Sections) == 0 {
		return // noted, or never meant to be of use
	}
	s.footer.Store(nil)
	r.scan.notes = append(r.scan.notes, &DamageError{File: s.name, Offset: foot.End, Reason: "what stands in the footer cannot be used"})
}

// walkSealed gives a sealed segment's batches to the owner, once it is known
// that of those that are lost it is known whose they were.
func (r *recovery) walkSealed(i int, e segEntry) error {
	deliver, damaged, lost := r.scan.deliver, r.scan.damaged, r.scan.lost
	defer func() { r.scan.deliver, r.scan.damaged, r.scan.lost = deliver, damaged, lost }()
	r.scan.deliver = func(Frame) error { return nil }
	if damaged != nil {
		r.scan.damaged = func(*DamageError) error { return nil } // see replayLeftOut
	}
	if _, err := r.scan.segment(i, e); err != nil {
		return err
	}
	return r.openSealed(e, func(batches Batches) error { return r.opts.Derived.Walk(e.ID, batches) })
}

// openSealed hands the batches of a sealed segment to use.
func (r *recovery) openSealed(e segEntry, use func(Batches) error) error {
	name := segmentName(e.ID)
	f, err := r.fs.Open(r.path(name))
	if err != nil {
		return damageAt(name, 0, e.Last, e.Last, err)
	}
	defer f.Close()
	return use(batchesOf(f, segment.NewKey(e.Salt), e))
}

// replayLeftOut replays what Load and Walk have left out of segments.
func (r *recovery) replayLeftOut(list []segEntry) error {
	for _, seg := range r.opts.Derived.LeftOut() {
		i, ok := slices.BinarySearchFunc(list, seg, func(e segEntry, id uint32) int { return cmp.Compare(e.ID, id) })
		if !ok {
			continue
		}
		of, each := r.opts.Derived.ReplayLeftOut(seg)
		err := r.openSealed(list[i], func(batches Batches) error {
			return batches(each, func(d *DamageError) error {
				if !of(d.Run) {
					return nil // it has rotted since, and is met by who reads it
				}
				return r.scan.lose(d)
			})
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// checkOrder holds the first LSNs that footers tell against the last of the
// segment before: none is missing between them.
func (r *recovery) checkOrder(list []segEntry) error {
	last := r.scan.last
	for _, e := range list {
		s, _ := r.files.find(e.ID)
		if f := s.footer.Load(); f != nil && f.First != last+1 {
			return &DamageError{
				File: s.name, LSNFrom: last + 1, LSNTo: max(f.First, last+2) - 1,
				Reason: fmt.Sprintf("the segment begins with LSN %d, and the one before ends with %d", f.First, last),
			}
		}
		last = e.Last
	}
	return nil
}

// found is what looking at a sealed file found. What is noted harms no data:
// the frames can be read without a header, and walked without a footer.
type found struct{ header, footer, err error }

// checkSealed looks at sealed files, some at a time, and keeps the footers
// that can be used.
func (r *recovery) checkSealed(list []segEntry) error {
	results := make([]found, len(list))
	next := make(chan int)
	var all sync.WaitGroup
	for range min(checkers, len(list)) {
		all.Go(func() {
			for i := range next {
				before := r.scan.last
				if i > 0 {
					before = list[i-1].Last
				}
				s, _ := r.files.find(list[i].ID)
				results[i] = r.checkOne(s, list[i], before)
			}
		})
	}
	for i := range list {
		next <- i
	}
	close(next)
	all.Wait()
	for i, f := range results {
		if f.err != nil {
			return f.err
		}
		if f.header != nil {
			r.scan.headless[list[i].ID] = f.header
			r.scan.notes = append(r.scan.notes, f.header)
		}
		if f.footer != nil {
			r.scan.notes = append(r.scan.notes, f.footer)
		}
	}
	return nil
}

// checkOne looks at one sealed file. before is the LSN that it begins behind.
func (r *recovery) checkOne(s *segFile, e segEntry, before uint64) found {
	f, err := r.fs.Open(filepath.Join(r.dir, s.name))
	if err != nil {
		return found{err: damageAt(s.name, 0, before+1, e.Last, err)}
	}
	defer f.Close()
	size, err := f.Size()
	if err == nil && size < e.End {
		err = &segment.InvalidError{Offset: size, Reason: fmt.Sprintf("the file has %d bytes of %d", size, e.Bytes)}
	}
	if err != nil {
		return found{err: damageAt(s.name, size, before+1, e.Last, err)}
	}
	got := r.checkHeader(f, s, e)
	foot, err := readFooter(f, e, r.opts.StoreID)
	switch {
	case err == nil:
		s.footer.Store(foot)
	case fromLaterVersion(err) && got.err == nil:
		got.err = damageAt(s.name, 0, 0, 0, err)
	default:
		got.footer = damageAt(s.name, e.End, 0, 0, err)
	}
	return got
}

func (r *recovery) checkHeader(f vfs.File, s *segFile, e segEntry) found {
	read := salvage{read: f.ReadAt}
	h, err := readHeader(read.ReadAt, segment.LogFile, r.opts.StoreID)
	var invalid *segment.InvalidError
	switch {
	case errors.As(err, &invalid):
		return found{header: damageAt(s.name, 0, 0, 0, read.because(err))}
	case err != nil:
		return found{err: damageAt(s.name, 0, 0, 0, err)}
	case h.ID != e.ID || h.Salt != e.Salt:
		return found{err: &DamageError{File: s.name, Reason: fmt.Sprintf("the file is another one: its header says segment %d", h.ID)}}
	}
	return found{}
}
