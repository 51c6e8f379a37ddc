package wal

import (
	"errors"
	"fmt"
	"time"
)

const (
	// retryPauseMin and retryPauseMax bound how long the keeper waits before
	// it tries again to make a segment.
	retryPauseMin = 20 * time.Millisecond
	retryPauseMax = time.Second
)

// keep is the keeper goroutine. It makes the next segment before it is needed.
func (l *Log) keep() {
	retry := retryPauseMin
	for {
		switch err := l.keepOnce(); {
		case err == nil:
			retry = retryPauseMin
			if !l.waitForWork(nil) {
				return
			}
		case errors.Is(err, errStopped):
			return
		default:
			timer := time.NewTimer(retry)
			retry = min(2*retry, retryPauseMax)
			more := l.waitForWork(timer.C)
			timer.Stop()
			if !more {
				return
			}
		}
	}
}

// waitForWork waits until there may be something to do. With a timer it waits
// for that alone: being asked again does not bring space back. false is the
// end.
func (l *Log) waitForWork(timer <-chan time.Time) bool {
	kick := l.keeperKick
	if timer != nil {
		kick = nil
	}
	select {
	case <-l.stop:
		return false
	case <-kick:
		return true
	case <-timer:
		return true
	}
}

// kickKeeper tells the keeper that there may be something to do.
func (l *Log) kickKeeper() {
	select {
	case l.keeperKick <- struct{}{}:
	default:
	}
}

// keepOnce makes the next segment if it is not there. An error is to be tried
// again later.
func (l *Log) keepOnce() error {
	l.mu.Lock()
	needed, poison := l.ready == nil, l.poison
	l.mu.Unlock()
	if poison != nil {
		return errStopped // without the manifest there is nothing to do
	}
	if !needed {
		return nil
	}
	err := l.makeReady()
	if l.isOver(err) {
		return errStopped
	}
	return err
}

func (l *Log) isOver(err error) bool {
	return errors.Is(err, errStopped) || errors.Is(err, ErrPoisoned)
}

// makeReady makes the next segment, or notes why it could not be made:
// ordinary submissions are refused with that until it can.
func (l *Log) makeReady() error {
	next, err := l.prepare(l.pause)
	if errors.Is(err, errDirSync) {
		// Which names are there is not certain any more; the manifest's own
		// are among them.
		l.fail(err)
		return errStopped
	}
	if l.isOver(err) {
		return err
	}
	if err != nil {
		l.log.Warn("the next segment could not be made", "cause", err)
		if err = asNoSpace(l.fs, l.dir, err); !isNoSpace(err) {
			err = fmt.Errorf("%w: the next segment could not be made: %w", ErrRefused, err)
		}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.ready, l.short = next, err
	l.work.Broadcast()
	return err
}

func (l *Log) isShort() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.short != nil
}

// pause lies between the steps of a spare: none while the active segment is
// further filled than the spare is written, or a writer waits.
func (l *Log) pause(written int64) error {
	select {
	case <-l.stop:
		return errStopped
	default:
	}
	if l.hurry(written) {
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

func (l *Log) hurry(written int64) bool {
	table := *l.files.table.Load()
	if len(table) == 0 {
		return false
	}
	s := table[len(table)-1] // the active one: the next is not in the table yet
	filled := float64(s.end.Load()) / float64(s.size)
	return s.closed.Load() || filled > float64(written)/float64(l.opts.segmentBytes(l.made))
}
