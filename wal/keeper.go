package wal

import (
	"errors"
	"fmt"
	"time"
)

// quietAfter is how long nothing has to come before the manifest notes what is
// durable.
const quietAfter = time.Second

// keeper is what the keeper goroutine owns.
type keeper struct {
	*Log
	// retry is set after a next segment could not be made, for twice the time
	// each time; refill after the ballast could not.
	retry, refill, quiet alarm
	retryPause           time.Duration
	// seen is what was durable when quiet was set.
	seen uint64
}

// alarm is a timer that is set or not.
type alarm struct {
	*time.Timer
	set bool
}

func newAlarm() alarm {
	t := time.NewTimer(time.Hour)
	t.Stop()
	return alarm{Timer: t}
}

func (a *alarm) in(d time.Duration) {
	a.set = true
	a.Reset(d)
}

// keep is the keeper goroutine. It does what is best done before it is needed,
// and when nobody waits: it makes the next segment, fills the ballast, and
// tells the manifest what is durable when it has become quiet.
func (l *Log) keep() {
	k := keeper{Log: l, retry: newAlarm(), refill: newAlarm(), quiet: newAlarm(), retryPause: l.opts.retryPause()}
	defer func() { k.retry.Stop(); k.refill.Stop(); k.quiet.Stop() }()
	for k.tend() && k.wait() {
	}
}

// wait waits until there may be something to do. false is the end.
func (k *keeper) wait() bool {
	select {
	case <-k.stop:
		return false
	case <-k.keeperKick:
	case <-k.retry.C:
		k.retry.set = false
	case <-k.refill.C:
		k.refill.set = false
	case <-k.quiet.C:
		k.quiet.set = false
	}
	return true
}

// kickKeeper tells the keeper that there may be something to do.
func (l *Log) kickKeeper() {
	select {
	case l.keeperKick <- struct{}{}:
	default:
	}
}

// tend does what is to do. false is the end.
func (k *keeper) tend() bool {
	// Being asked again does not bring space back: what failed is tried again
	// in its time.
	if !k.retry.set {
		err := k.keepOnce()
		switch {
		case errors.Is(err, errStopped):
			return false
		case err != nil:
			k.retry.in(k.retryPause)
			k.retryPause = min(2*k.retryPause, k.opts.SpaceRetryMax)
		default:
			k.retryPause = k.opts.retryPause()
		}
	}
	if !k.retry.set && !k.refill.set && k.space.ballast.Missing() {
		if err := k.space.ballast.Fill(); err != nil {
			k.refill.in(k.opts.SpaceRetryMax)
		}
	}
	return k.vouchWhenQuiet()
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

// vouchWhenQuiet lets the manifest call durable what is, once nothing has come
// for a while. The next frame would say so too; until one comes only the
// manifest can tell a write that was cut from one that has rotted. false is the
// end.
func (k *keeper) vouchWhenQuiet() bool {
	if k.quiet.set || !k.unvouched.Load() {
		return true
	}
	if now := k.durable.Load(); now != k.seen {
		k.seen = now
		k.quiet.in(k.opts.QuietAfter)
		return true
	}
	k.unvouched.Store(false) // before looking: what comes from here on sets it again
	err := k.man.commit(raiseHigh{LSN: k.durable.Load()})
	if err != nil && !k.isOver(err) {
		k.unvouched.Store(true)
		k.quiet.in(k.opts.QuietAfter)
	}
	return !k.isOver(err)
}
