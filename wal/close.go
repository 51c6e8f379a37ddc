package wal

import (
	"context"
	"errors"
	"fmt"
	"io/fs"

	"durafs/segment"
)

// Close ends the log: what was accepted becomes durable, the last segment is
// sealed, and the manifest notes where it ends. Submissions are refused with
// ErrClosed from now on. It returns ctx's error when ctx ends first: a write
// under way goes on, what waits behind it is answered ErrUnknown, and the log
// is left as a crash would leave it. A poisoned log is closed without writing
// anything, and its cause returned.
//
// It is called once, after Start or instead of it.
func (l *Log) Close(ctx context.Context) error {
	l.mu.Lock()
	if l.closing {
		l.mu.Unlock()
		return ErrClosed
	}
	l.closing = true
	close(l.ending)
	started := l.started
	l.work.Broadcast()
	l.mu.Unlock()
	if started {
		if err := l.drain(ctx); err != nil {
			return err
		}
	}
	l.dropping.Lock() // a Drop that is under way ends first, and there is no other one
	defer l.dropping.Unlock()
	defer l.release()
	if err := l.Healthy(); err != nil {
		return err
	}
	return l.finish()
}

// drain waits for the writer, and then for keeper and sealer; the writer may
// need the keeper until it is done.
func (l *Log) drain(ctx context.Context) error {
	select {
	case <-l.writerDone:
	case <-ctx.Done():
		l.fail(fmt.Errorf("closed before the queue was written: %w", ctx.Err()))
		close(l.stop)
		return ctx.Err()
	}
	close(l.stop)
	l.tendDone.Wait() // each has at most a few calls to go
	return nil
}

// finish writes what a clean end leaves. All goroutines have ended.
//
//	MANIFEST   the active segment ends here; one without a frame is dropped
//	unlink     what was dropped, and the spare
//	seal       footer, fdatasync, MANIFEST: see seal
func (l *Log) finish() error {
	var edits []edit
	var drop []*segFile
	w := &l.writer
	if l.ready != nil {
		edits, drop = append(edits, dropSegment(l.ready.id)), append(drop, l.ready.segFile)
	}
	switch {
	case w.dead: // ended already
	case w.pos == segment.HeaderBytes:
		edits, drop = append(edits, dropSegment(w.seg.id)), append(drop, w.seg.segFile)
	default:
		w.seg.last = l.durable.Load()
		e := w.seg.entry()
		e.State, e.End, e.Last = segEnded, w.pos, w.seg.last
		edits = append(edits, setSegment(e))
		l.toSeal = append(l.toSeal, w.seg.segFile)
	}
	high := l.highNow()
	high.Segment, high.LSN = l.lastID, l.durable.Load()
	edits = append(edits, high)
	if err := l.man.insist(edits...); err != nil {
		return err
	}
	if err := l.unlink(drop); err != nil {
		return err
	}
	if l.sealingOver {
		return nil
	}
	for _, s := range l.toSeal {
		switch err := l.seal(s); {
		case isNoSpace(err) && !errors.Is(err, ErrPoisoned):
			l.log.Warn("a segment is left to the next open to seal", "file", s.name, "cause", err)
			return nil // and those behind it, which may not overtake it
		case err != nil:
			return err
		}
	}
	return nil
}

// unlink removes segments that the manifest does not list any more.
func (l *Log) unlink(drop []*segFile) error {
	for _, s := range drop {
		l.files.remove(s)
		if err := l.fs.Remove(l.path(s.name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	if len(drop) == 0 {
		return nil
	}
	return l.dirf.Sync()
}
