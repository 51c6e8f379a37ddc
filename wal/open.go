package wal

import (
	"context"
	"errors"
	"io/fs"
	"path/filepath"
	"strconv"
	"strings"
	"sync"

	"durafs/internal/ballast"
	"durafs/internal/mutant"
	"durafs/internal/vfs"
	"durafs/segment"
)

// Recovery tells what Open found and did.
type Recovery struct {
	// Created is true when there was no log before.
	Created  bool
	Segments int
	// Lost counts what Options.Damaged was told.
	Lost int
	// Batches were replayed, and Bytes of frames read for it.
	Batches uint64
	Bytes   int64
	// Last is the LSN of the last batch, 0 for none.
	Last uint64
	// Carried counts the batches that nothing vouched for; they were written
	// again into the new segment.
	Carried int
	// Cut tells what was not kept, nil if nothing.
	Cut *Cut
	// Notes are faults that harm no data: a bad copy of the manifest, which
	// was made anew, or a bad header block.
	Notes []error
}

// Open opens the log in a directory, which must be locked against others, and
// replays every batch in the order of LSNs; the frame's payload is replay's
// until it returns. An error of replay is returned as it is, and nothing that
// the manifest lists was changed. Damage of which nobody can tell whose data it
// was is a *DamageError, a file from a later version *FutureVersionError or
// ErrUnknownFlag; a full disk *NoSpaceError. After each of them Open with
// Options.ReadOnly may show what is left.
//
// Nothing that an earlier process wrote is appended to. In this order:
//
//	fsync directory, fdatasync   of the manifest and of what is not sealed:
//	                             what is believed below is on disk
//	read, decide, replay
//	unlink                       what an earlier process left and never listed
//	new segment                  with the batches that nothing vouches for yet,
//	                             synced under its own name
//	MANIFEST                     one step: the new one is live, the old ones
//	                             end where they were found to end
//	unlink                       what is not listed any more
//
// On a full disk the ballast is given up, then a segment is used again that an
// earlier process prepared and in which no frame counts.
//
// Truncating what is ended is left to the sealer. A crash at any point leaves
// either the old list or the new one; opening again gives the same batches.
func Open(ctx context.Context, opts Options, replay func(Frame) error) (*Log, Recovery, error) {
	l, rec, err := open(ctx, opts, replay)
	if err != nil {
		return nil, rec, asNoSpace(opts.FS, opts.Dir, err)
	}
	return l, rec, nil
}

func open(ctx context.Context, opts Options, replay func(Frame) error) (_ *Log, rec Recovery, err error) {
	if opts.ReadOnly != nil {
		return openReadOnly(ctx, opts, replay)
	}
	if err := makeDir(opts.FS, opts.Dir); err != nil {
		return nil, rec, err
	}
	if opts, err = opts.withDefaults(); err != nil {
		return nil, rec, err
	}
	l := newLog(opts)
	if l.dirf, err = l.fs.OpenDir(l.dir); err != nil {
		return nil, rec, err
	}
	defer func() {
		if err != nil {
			l.release()
		}
	}()
	if err := l.dirf.Sync(); err != nil {
		return nil, rec, err
	}
	r := recovery{Log: l, replay: replay, rec: &rec}
	err = r.run(ctx) // fills rec
	return l, rec, err
}

func newLog(opts Options) *Log {
	l := &Log{
		opts: opts, fs: opts.FS, dir: opts.Dir, log: opts.Log,
		keeperKick: make(chan struct{}, 1),
		ending:     make(chan struct{}),
		stop:       make(chan struct{}),
		writerDone: make(chan struct{}),
		sealerKick: make(chan struct{}, 1),
	}
	l.work = sync.NewCond(&l.mu)
	l.files = newFiles(l.fs, l.path)
	l.space = reserve{ballast.New(l.fs, l.dir, opts.BallastBytes), l.ending, opts.retryPause(), opts.SpaceRetryMax}
	return l
}

// release closes what is open.
func (l *Log) release() {
	if l.man != nil {
		l.man.close()
	}
	if l.writer.seg != nil {
		l.writer.seg.f.Close()
	}
	if l.ready != nil {
		l.ready.f.Close()
	}
	l.files.close()
	if l.dirf != nil {
		l.dirf.Close()
	}
}

// makeDir makes the log's directory if it is missing, durably. One that exists
// is made durable too: who made it may have been killed before its sync.
func makeDir(fsys vfs.FS, dir string) error {
	parent, err := fsys.OpenDir(filepath.Dir(dir))
	if err != nil {
		return err
	}
	defer parent.Close()
	_, err = fsys.Stat(dir)
	missing := errors.Is(err, fs.ErrNotExist)
	if missing {
		err = fsys.Mkdir(dir)
	}
	if err != nil {
		return err
	}
	if mutant.On(mutant.NoDirSyncAfterCreate) || mutant.On(mutant.DirOfKilledNotSynced) && !missing {
		return nil
	}
	return parent.Sync()
}

// recovery is an open under way.
type recovery struct {
	*Log
	replay func(Frame) error
	rec    *Recovery

	old   manifestState
	names []string
	scan  scan
}

func (r *recovery) run(ctx context.Context) error {
	var err error
	if r.names, err = r.fs.ReadDir(r.dir); err != nil {
		return err
	}
	if err := r.loadManifest(); err != nil {
		return err
	}
	if err := r.adopt(); err != nil {
		return err
	}
	r.scan = scan{
		ctx: ctx, fs: r.fs, dir: r.dir, storeID: r.opts.StoreID, list: r.old.sortedSegments(),
		deliver: r.replay, damaged: r.opts.Damaged, last: r.old.high.Dropped, vouched: r.old.high.LSN,
	}
	if err := r.restore(ctx); err != nil {
		return err
	}
	if err := r.scan.run(); err != nil {
		return err
	}
	if err := r.checkUnlisted(); err != nil {
		return err
	}
	// The space of remains may be what the new segment needs.
	if err := r.removeSpares(); err != nil {
		return err
	}
	if err := r.removeUnlisted(r.old); err != nil {
		return err
	}
	if err := r.begin(); err != nil {
		return err
	}
	r.report()
	return nil
}

// loadManifest reads the manifest, or makes an empty one where there is no log
// yet. Both copies are there before the first segment is, so a segment without
// a manifest is no log that is being made but one that has lost it.
func (r *recovery) loadManifest() error {
	loaded, err := loadManifest(r.fs, r.dir, r.opts.StoreID, true)
	if err != nil {
		return err
	}
	r.man = &manifest{
		fs: r.fs, dir: r.dir, dirf: r.dirf, storeID: r.opts.StoreID, log: r.log, fail: r.fail,
		space: &r.space, bytes: r.opts.ManifestBytes, salt: r.opts.Salt, state: loaded.state, seq: loaded.seq,
	}
	r.old = loaded.state.clone()
	if !loaded.none {
		r.rec.Notes = append(r.rec.Notes, loaded.notes...)
		return nil
	}
	for _, name := range r.names {
		if _, ok := segmentID(name); ok {
			return &DamageError{File: manifestNames[0], Reason: "both copies of the manifest are missing, and segments are there"}
		}
	}
	if r.opts.Existing {
		return &DamageError{File: manifestNames[0], Reason: "both copies of the manifest are missing, and so is the log"}
	}
	r.rec.Created = true
	r.old.high = r.opts.Begin
	r.old.high.Dropped = r.opts.Begin.LSN // as if they had been here
	return r.man.rewrite(r.old.clone())
}

// segmentID tells the id in the name of a segment.
func segmentID(name string) (uint32, bool) {
	digits, ok := strings.CutSuffix(name, ".seg")
	if !ok || len(digits) != 10 {
		return 0, false
	}
	id, err := strconv.ParseUint(digits, 10, 32)
	return uint32(id), err == nil
}

// checkUnlisted looks at segments that the manifest does not list. They are
// remains: activated and not listed yet, or dropped and not unlinked yet, and
// will be removed. But one that calls something durable that the log does not
// have is a witness that the manifest is not what it was, and stays.
func (r *recovery) checkUnlisted() error {
	for _, name := range r.names {
		id, ok := segmentID(name)
		if _, listed := r.old.segments[id]; !ok || listed {
			continue
		}
		claims, err := r.claimsOf(name)
		if err != nil {
			return err
		}
		if claims > r.scan.last {
			return &DamageError{
				File: name, LSNFrom: r.scan.last + 1, LSNTo: claims,
				Reason: "a segment that the manifest does not list calls these durable",
			}
		}
	}
	return nil
}

// claimsOf is the largest durable in a segment that is not listed.
func (r *recovery) claimsOf(name string) (uint64, error) {
	f, err := r.fs.Open(r.path(name))
	if err != nil {
		return 0, err
	}
	defer f.Close()
	h, err := readHeader(f.ReadUncachedAt, segment.LogFile, r.opts.StoreID)
	if err != nil {
		return 0, damageAt(name, 0, 0, 0, err)
	}
	size, err := f.Size()
	if err != nil {
		return 0, err
	}
	w := segment.NewWalker(f.ReadUncachedAt, segment.NewKey(h.Salt), segment.HeaderBytes, size, 0)
	defer w.Close()
	claims, _, err := w.Claims()
	if err != nil {
		return 0, damageAt(name, 0, 0, 0, err)
	}
	return claims, nil
}

// removeSpares removes what an earlier process wrote ahead, and never used.
func (r *recovery) removeSpares() error {
	for _, name := range r.names {
		if strings.HasPrefix(name, "spare-") || strings.HasSuffix(name, tmpSuffix) {
			if err := r.fs.Remove(r.path(name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
				return err
			}
		}
	}
	return nil
}

// removeUnlisted unlinks segments that the manifest, in this state, does not
// list.
func (r *recovery) removeUnlisted(in manifestState) error {
	removed := false
	for _, name := range r.names {
		id, ok := segmentID(name)
		if _, listed := in.segments[id]; !ok || listed {
			continue
		}
		if err := r.fs.Remove(r.path(name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		removed = true
	}
	if removed {
		return r.dirf.Sync()
	}
	return nil
}

func (r *recovery) report() {
	s := &r.scan
	r.rec.Segments = len(s.list)
	r.rec.Batches, r.rec.Bytes, r.rec.Last = s.batches, s.bytes, s.last
	r.rec.Cut, r.rec.Lost = s.cut, s.lost
	r.rec.Notes = append(r.rec.Notes, s.notes...)
	for _, n := range r.rec.Notes {
		r.log.Warn("found at open", "fault", n)
	}
	if s.cut != nil {
		r.log.Info("a write that was never acknowledged was cut", "file", s.cut.File, "offset", s.cut.Offset,
			"lsn", s.cut.LSN, "reason", s.cut.Reason)
	}
}
