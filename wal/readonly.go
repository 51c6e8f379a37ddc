package wal

import (
	"context"
	"errors"
	"fmt"

	"durafs/segment"
)

// openReadOnly opens what is left of a log, whatever happened to it. Nothing is
// written, synced, renamed or removed. Where the manifest cannot be read the
// segments are taken as they say themselves who they are.
func openReadOnly(ctx context.Context, opts Options, replay func(Frame) error) (_ *Log, rec Recovery, err error) {
	if opts, err = opts.withDefaults(); err != nil {
		return nil, rec, err
	}
	l := newLog(opts)
	r := recovery{Log: l, replay: replay, rec: &rec}
	if r.names, err = r.fs.ReadDir(r.dir); err != nil {
		return nil, rec, err
	}
	if err := r.readManifest(); err != nil {
		return nil, rec, err
	}
	r.scan = scan{
		ctx: ctx, fs: r.fs, dir: r.dir, storeID: r.opts.StoreID, list: r.old.sortedSegments(), lenient: true,
		deliver: r.replay, damaged: r.opts.Damaged, last: r.old.high.Dropped, vouched: r.old.high.LSN,
	}
	if err := r.scan.run(); err != nil {
		return nil, rec, err
	}
	if err := r.scan.flushAll(); err != nil {
		return nil, rec, err
	}
	r.show()
	r.report()
	return l, rec, nil
}

// readManifest reads what the manifest says, or without it the segments.
func (r *recovery) readManifest() error {
	loaded, err := loadManifest(r.fs, r.dir, r.opts.StoreID, false)
	var d *DamageError
	switch {
	case fromLaterVersion(err):
		return err
	case errors.As(err, &d):
		r.rec.Notes = append(r.rec.Notes, d)
	case err != nil:
		return err
	}
	r.rec.Notes = append(r.rec.Notes, loaded.notes...)
	r.old = loaded.state
	if err != nil || loaded.none {
		if r.old, err = filesState(r.fs, r.dir, r.opts.StoreID); err != nil {
			return err
		}
	}
	r.man = &manifest{log: r.log, state: r.old, broken: ErrReadOnly}
	return nil
}

// show lets readers find what the scan found. Segments end where it found them
// to end; what lies between their frames is met by who reads it.
func (r *recovery) show() {
	for _, e := range r.scan.list {
		if e.State == segLive {
			e.State, e.End = segEnded, max(r.scan.reached[e.ID], segment.HeaderBytes)
		}
		r.files.add(newSegFile(e))
	}
	r.Log.next = r.scan.last + 1
	r.durable.Store(r.scan.last)
	r.poison = fmt.Errorf("%w: %w", ErrReadOnly, r.opts.ReadOnly)
}
