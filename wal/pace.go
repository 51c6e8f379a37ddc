package wal

import "time"

// pause lies between the steps of a spare: none while the active segment is
// further filled than the spare is written, or a writer waits.
func (l *Log) pause(written int64) error {
	select {
	case <-l.stop:
		return errStopped
	default:
	}
	if l.hurried(written) {
		return nil
	}
	timer := time.NewTimer(spareStepPause)
	defer timer.Stop()
	select {
	case <-l.stop:
		return errStopped
	case <-timer.C:
		return nil
	}
}

// hurried tells that the spare may come too late: ordinary groups wait for it
// once only the part of the active segment is left that is held back.
func (l *Log) hurried(written int64) bool {
	table := *l.files.table.Load()
	if len(table) == 0 {
		return false
	}
	s := table[len(table)-1] // the active one: the next is not in the table yet
	filled := float64(s.end.Load()) / float64(s.size-heldBack(s.size))
	return s.closed.Load() || filled > float64(written)/float64(l.opts.segmentBytes(int(l.made.Load())))
}
