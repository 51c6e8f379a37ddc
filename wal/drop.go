package wal

import (
	"fmt"
	"slices"

	"durafs/internal/mutant"
)

// Drop forgets the oldest sealed segments: those with ids below before, up to
// the first that is not sealed yet. It returns how many it dropped; they are
// gone for good then. Nobody may ask for a batch in them any more: reads of
// them that have begun are waited for, later ones are answered with
// *DamageError as those of a segment that never was.
//
//	MANIFEST {dropped}   both copies: from here on the log begins behind them
//	MANIFEST {barrier}   in another block, vouches for that; only now the files
//	                     are free
//	rename or unlink     a file that nobody else has becomes a spare
//	fsync directory      before any of them is written: what has the name of a
//	                     segment has its bytes
//
// *NoSpaceError before the first of them means that nothing was changed, and so
// does ErrClosed. Close waits for a Drop that is under way.
func (l *Log) Drop(before uint32) (int, error) {
	l.dropping.Lock()
	defer l.dropping.Unlock()
	if l.isClosing() {
		return 0, ErrClosed
	}
	old := l.droppable(before)
	if len(old) == 0 {
		return 0, l.Healthy()
	}
	edits := []edit{raiseHigh{Dropped: old[len(old)-1].Last}}
	for _, e := range old {
		edits = append(edits, dropSegment(e.ID))
	}
	if err := l.man.commit(edits...); err != nil {
		return 0, err
	}
	if err := l.man.vouch(); err != nil {
		// They are dropped; the next open unlinks the files.
		return len(old), err
	}
	return len(old), l.setFree(old)
}

func (l *Log) isClosing() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.closing
}

// droppable are the segments that Drop drops.
func (l *Log) droppable(before uint32) []segEntry {
	state := l.man.current()
	list := state.sortedSegments()
	n := slices.IndexFunc(list, func(e segEntry) bool { return e.ID >= before || e.State != segSealed })
	if n < 0 {
		n = len(list) // the active one is not sealed, so this is never all of a log that is open
	}
	return list[:n]
}

// setFree gives the files of dropped segments to the pool, or removes them.
func (l *Log) setFree(old []segEntry) error {
	cow := l.copyOnWrite()
	var kept []pooled
	for _, e := range old {
		name := l.path(segmentName(e.ID))
		lent := l.files.retire(e.ID)
		info, err := l.fs.Stat(name)
		switch {
		case err != nil: // an earlier process may have lost it
			continue
		case cow || lent || info.Links != 1 && !mutant.On(mutant.LinkedRecycled) || len(kept) >= poolFilesMax || info.Size > segmentBytesCap:
			err = l.fs.Remove(name)
		default:
			kept = append(kept, pooled{e.ID, e.Salt, info.Size})
			err = l.fs.Rename(name, l.path(spareName(e.ID)))
		}
		if err != nil {
			return fmt.Errorf("wal: drop %s: %w", segmentName(e.ID), err)
		}
	}
	if err := l.dirf.Sync(); err != nil {
		err = fmt.Errorf("%w: %w", errDirSync, err)
		l.fail(err)
		return err
	}
	for _, f := range kept {
		if !l.pool.put(f) {
			l.fs.Remove(l.path(spareName(f.id)))
		}
	}
	return nil
}

// Lend notes that somebody outside of this process may read the file of a
// segment for as long as he likes, as a backup does that shares or copies it:
// when it is dropped it is not used again, but unlinked. It returns false for
// a segment that is not there.
func (l *Log) Lend(id uint32) bool { return l.files.lend(id) }
