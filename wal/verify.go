package wal

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"

	"durafs/internal/vfs"
	"durafs/segment"
)

// Finding is one place where what is stored is not what was written.
type Finding struct {
	File   string
	Offset int64
	// LSNFrom to LSNTo are the batches that are harmed, 0 if none are.
	LSNFrom, LSNTo uint64
	// Run is whose batch it was, 0 where its header does not check or names no
	// one run.
	Run    uint64
	Reason string
}

// Summary tells what Verify looked at.
type Summary struct {
	Segments int
	Batches  uint64
	Bytes    int64
	// Last is the LSN of the last batch that was found.
	Last  uint64
	Packs []Pack
	// StoreID is the uuid in the log's files.
	StoreID  [16]byte
	Findings int
}

// verifyRounds bounds how often the unsealed tail is read again, beside a log
// that is being written.
const verifyRounds = 8

// Verify checks every copy of the manifest, every segment and every frame, and
// the BLAKE3 of what is sealed, and reports each finding. It writes and syncs
// nothing, and may run beside an open log: it judges only what the manifest or
// a later frame calls durable.
//
// The error is for what could not be checked; damage is reported instead.
//
// each, if not nil, is given the batches that check, for the caller to look
// into; beside an open log some may come more than once. Its error ends Verify
// and is returned.
func Verify(ctx context.Context, fsys vfs.FS, dir string, each func(Frame) error, report func(Finding)) (Summary, error) {
	if each == nil {
		each = func(Frame) error { return nil }
	}
	v := verifier{ctx: ctx, fs: fsys, dir: dir, each: each, report: report}
	err := v.run()
	return v.sum, err
}

type verifier struct {
	ctx     context.Context
	fs      vfs.FS
	dir     string
	each    func(Frame) error
	report  func(Finding)
	storeID [16]byte
	lastID  uint32         // of the segments that are done
	files   *manifestState // where the manifest cannot be read
	sum     Summary
}

func (v *verifier) run() error {
	var err error
	if v.storeID, err = storeIDOf(v.fs, v.dir); err != nil {
		return v.finding(err)
	}
	v.sum.StoreID = v.storeID
	m, err := v.manifest()
	if err != nil {
		if err := v.finding(err); err != nil {
			return err
		}
		// What there is can be looked at all the same.
		state, err := filesState(v.fs, v.dir, v.storeID)
		if err != nil {
			return err
		}
		v.files = &state
		return v.tail()
	}
	for _, n := range m.notes {
		if err := v.finding(n); err != nil {
			return err
		}
	}
	v.sum.Packs = m.state.sortedPacks()
	v.sum.Last = m.state.high.Dropped
	for _, e := range m.state.sortedSegments() {
		if e.State == segLive {
			break // from here on it is the tail
		}
		if err := v.endedOrDropped(e); err != nil {
			return err
		}
	}
	return v.tail()
}

// manifest reads the manifest until it stands still: between reading one copy
// and the other a writer beside this may have written both.
func (v *verifier) manifest() (m loadedManifest, err error) {
	var seq uint64
	for range verifyRounds {
		m, err = loadManifest(v.fs, v.dir, v.storeID, false)
		if err == nil && !m.none && (len(m.notes) == 0 || m.seq == seq) || fromLaterVersion(err) {
			return m, err
		}
		seq = m.seq
	}
	if err == nil && m.none {
		err = &DamageError{File: manifestNames[0], Reason: "both copies of the manifest are missing"}
	}
	return m, err
}

// ListedPacks reads the manifest of the log in dir, which may be open, for the
// packs that it lists now.
func ListedPacks(ctx context.Context, fsys vfs.FS, dir string) ([]Pack, error) {
	v := verifier{ctx: ctx, fs: fsys, dir: dir}
	var err error
	if v.storeID, err = storeIDOf(fsys, dir); err != nil {
		return nil, err
	}
	m, err := v.manifest()
	return m.state.sortedPacks(), err
}

// finding reports a *DamageError; other errors are returned.
func (v *verifier) finding(err error) error {
	var d *DamageError
	if !errors.As(err, &d) {
		return err
	}
	reason := d.Reason
	if d.Err != nil {
		reason += ": " + d.Err.Error()
	}
	v.add(Finding{File: d.File, Offset: d.Offset, LSNFrom: d.LSNFrom, LSNTo: d.LSNTo, Run: d.Run, Reason: reason})
	return nil
}

func (v *verifier) add(f Finding) {
	v.sum.Findings++
	v.report(f)
}

// storeIDOf reads the store's uuid from a copy of the manifest, or else from a
// segment.
func storeIDOf(fsys vfs.FS, dir string) (id [16]byte, err error) {
	names, err := fsys.ReadDir(dir)
	if err != nil {
		return id, err
	}
	var errs []error
	for _, name := range append(manifestNames[:], names...) {
		if _, ok := segmentID(name); !ok && !slices.Contains(manifestNames[:], name) {
			continue
		}
		f, err := fsys.Open(filepath.Join(dir, name))
		if err != nil {
			errs = append(errs, err)
			continue
		}
		b := make([]byte, segment.HeaderBytes)
		n, _ := f.ReadAt(b, 0)
		f.Close()
		h, err := segment.ParseHeader(b[:n])
		if err == nil {
			return h.StoreID, nil
		}
		if fromLaterVersion(err) {
			return id, fmt.Errorf("wal: %s: %w", name, err)
		}
		errs = append(errs, err)
	}
	return id, &DamageError{File: manifestNames[0], Reason: "neither copy of the manifest can be read", Err: errors.Join(errs...)}
}

// endedOrDropped is ended, except that what it finds does not count where the
// segment was dropped meanwhile, by a log that is open beside this: its file is
// gone then, or used for another.
func (v *verifier) endedOrDropped(e segEntry) error {
	report, before := v.report, v.sum.Findings
	var held []Finding
	v.report = func(f Finding) { held = append(held, f) }
	err := v.ended(e)
	v.report = report
	if len(held) == 0 {
		return err
	}
	m, loadErr := loadManifest(v.fs, v.dir, v.storeID, false)
	if _, listed := m.state.segments[e.ID]; loadErr == nil && !listed && m.state.high.Dropped >= e.Last {
		v.sum.Findings = before
		return err
	}
	for _, f := range held {
		report(f)
	}
	return err
}

// ended checks a segment that will not grow.
func (v *verifier) ended(e segEntry) error {
	if err := v.ctx.Err(); err != nil {
		return err
	}
	name := segmentName(e.ID)
	v.lastID = e.ID
	f, err := v.fs.Open(filepath.Join(v.dir, name))
	if err != nil {
		missing := v.sum.Last + 1
		v.sum.Last = e.Last
		return v.finding(damageAt(name, 0, missing, e.Last, err))
	}
	defer f.Close()
	v.sum.Segments++
	h, err := readHeader(f.ReadAt, segment.LogFile, v.storeID)
	if err == nil && (h.ID != e.ID || h.Salt != e.Salt) {
		err = &segment.InvalidError{Reason: fmt.Sprintf("the header says segment %d", h.ID)}
	}
	before := v.sum.Findings
	if err != nil {
		if err := v.finding(damageAt(name, 0, 0, 0, err)); err != nil {
			return err
		}
	}
	if err := v.frames(f, e); err != nil || e.State != segSealed || v.sum.Findings > before {
		return err
	}
	if _, err := readFooter(f, e, v.storeID); err != nil {
		return v.finding(damageAt(name, e.End, 0, 0, err))
	}
	sum, err := hashFile(f, e.Bytes)
	if err == nil && sum != e.B3 && e.B3 != ([32]byte{}) {
		err = &segment.InvalidError{Reason: "BLAKE3 of the file is not the one that the manifest has"}
	}
	if err != nil {
		return v.finding(damageAt(name, 0, 0, 0, err))
	}
	return nil
}

// frames walks an ended segment, going on behind what is damaged.
func (v *verifier) frames(f vfs.File, e segEntry) error {
	read := salvage{read: f.ReadAt}
	w := segment.NewWalker(read.ReadAt, segment.NewKey(e.Salt), segment.HeaderBytes, e.End, v.sum.Last)
	defer w.Close()
	defer func() { v.sum.Last = e.Last }()
	for {
		at, missing := w.Offset(), w.LSN+1
		frame, err := w.Next()
		switch {
		case err == nil:
			v.sum.Bytes += frame.Bytes()
			if frame.Kind != segment.Batch {
				continue
			}
			v.sum.Batches++
			if err := v.each(Frame{LSN: frame.LSN, Run: frame.Run, Count: frame.Count, Payload: frame.Payload, Pos: Position{e.ID, uint32(frame.Offset)}}); err != nil {
				return err
			}
		case errors.Is(err, io.EOF):
			if w.LSN != e.Last {
				v.add(Finding{segmentName(e.ID), at, w.LSN + 1, e.Last, 0, fmt.Sprintf("the segment ends with LSN %d, not %d", w.LSN, e.Last)})
			}
			return nil
		default:
			_, unread := read.unreadable(at)
			if more, err := v.rotten(w, e, damageAt(segmentName(e.ID), at, missing, e.Last, cmp.Or(unread, err))); !more {
				return err
			}
		}
	}
}

// rotten reports what does not check where the walk is, and moves it behind.
func (v *verifier) rotten(w *segment.Walker, e segEntry, cause error) (more bool, err error) {
	var d *DamageError
	if !errors.As(cause, &d) {
		return false, cause
	}
	if h, err := w.Pass(); err == nil {
		if d.LSNFrom, d.LSNTo = h.LSN, h.LSN; h.Kind == segment.Batch {
			d.Run = h.Run
		} else {
			d.LSNFrom, d.LSNTo = 0, 0
		}
		return true, v.finding(d)
	}
	found, err := w.Resync()
	if found {
		d.LSNTo = w.LSN
	}
	return found && err == nil, cmp.Or(v.finding(d), err)
}

// tail checks the segments that are not sealed, as an open would. Where a log
// is open beside this, frames appear while they are read: a frame that was not
// there a moment ago may be called durable by one that is read now. So what
// looks like damage is looked at again, and counts when it stays where it is.
func (v *verifier) tail() error {
	var before []*DamageError
	for round := range verifyRounds {
		s, found, err := v.scanTail()
		if err != nil {
			return err
		}
		stays := found[:0:0]
		for _, d := range found {
			if slices.ContainsFunc(before, d.sameAs) {
				stays = append(stays, d)
			}
		}
		if len(stays) < len(found) && round < verifyRounds-1 {
			before = found
			continue
		}
		v.sum.Segments += len(s.list)
		v.sum.Batches += s.batches
		v.sum.Bytes += s.bytes
		v.sum.Last = s.last
		for _, d := range append(stays, damages(s.notes)...) {
			if err := v.finding(d); err != nil {
				return err
			}
		}
		return nil
	}
	return nil
}

// state is what the manifest says now, or where it cannot be read the files.
func (v *verifier) state() (manifestState, error) {
	if v.files != nil {
		return *v.files, nil
	}
	m, err := loadManifest(v.fs, v.dir, v.storeID, false)
	return m.state, err
}

func (d *DamageError) sameAs(e *DamageError) bool {
	return d.File == e.File && d.Offset == e.Offset && d.LSNFrom == e.LSNFrom && d.Run == e.Run
}

func damages(notes []error) (list []*DamageError) {
	for _, n := range notes {
		var d *DamageError
		if errors.As(n, &d) {
			list = append(list, d)
		}
	}
	return list
}

// scanTail reads what the manifest lists behind the last segment that this
// verifier checked, and tells what is lost of it.
func (v *verifier) scanTail() (s *scan, found []*DamageError, err error) {
	state, err := v.state()
	if err != nil {
		return nil, nil, err
	}
	s = &scan{
		ctx: v.ctx, fs: v.fs, dir: v.dir, storeID: v.storeID, beside: true, lenient: true, last: v.sum.Last,
		vouched: state.high.LSN, deliver: v.each,
		damaged: func(d *DamageError) error { found = append(found, d); return nil },
	}
	for _, e := range state.sortedSegments() {
		if e.ID > v.lastID {
			s.list = append(s.list, e)
		}
	}
	if err := s.run(); err != nil {
		return nil, nil, err
	}
	return s, found, s.flushAll()
}
