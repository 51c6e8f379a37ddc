package wal

import (
	"fmt"

	"durafs/internal/mutant"
)

// writeFailed deals with a write that failed before its barrier. Any part of
// it may be in the file, now or later, so
//
//   - the file is never written again;
//   - the manifest says, durably, that it ends where the last barrier left it.
//     From here on it is certain that nothing of the group was kept, also if
//     all of it should turn up in the file;
//   - then the group and everything accepted behind it are refused.
//
// The log goes on in the next segment.
func (l *Log) writeFailed(cause error) {
	w := &l.writer
	if mutant.On(mutant.RefusedSegmentWritten) {
		l.refuse(fmt.Errorf("%w: %w", ErrRefused, cause))
		return
	}
	e := w.seg.entry()
	e.State, e.End, e.Last = segEnded, w.pos, l.durable.Load()
	full := isNoSpace(cause)
	if full {
		// On a file system that writes nothing in place it is what the next
		// write, and the manifest, needs.
		l.space.ballast.Free()
		l.setShort(asNoSpace(l.fs, l.dir, cause))
	}
	err := l.man.insist(setSegment(e))
	l.setShort(nil) // the keeper finds out
	if err != nil {
		l.poisoned(fmt.Errorf("%s could not be ended after a failed write (%w): %w", w.seg.name, cause, err))
		return
	}
	w.dead = true
	w.seg.closed.Store(true)
	l.log.Warn("a write failed; the log goes on in the next segment", "file", w.seg.name, "cause", cause)
	if full {
		l.refuse(asNoSpace(l.fs, l.dir, cause))
		return
	}
	l.refuse(fmt.Errorf("%w: %w", ErrRefused, cause))
}

// setShort lets ordinary submissions be refused while the committer waits.
func (l *Log) setShort(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.short = err
}

// refuse answers everything that is accepted and not durable with err, of
// which it is certain that nothing was kept, and goes back to the durable
// state.
func (l *Log) refuse(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.poison != nil {
		return // the writer answers when it looks next
	}
	l.answerAll(err)
}

// poisoned ends the log after a barrier that failed. take answers everyone.
func (l *Log) poisoned(cause error) {
	l.fail(cause)
}

// answerAll answers all groups with err, in order, and resets the accepted
// state. The accept lock is held.
func (l *Log) answerAll(err error) {
	l.state.Reset()
	l.next = l.durable.Load() + 1
	for len(l.queue) > 0 {
		g := l.queue[0]
		g.err = err
		l.pop(g)
		close(g.done)
	}
}
