package wal

import (
	"io/fs"
	"syscall"
	"time"

	"durafs/internal/ballast"
)

const (
	// retryPauseMin and retryPauseMax bound how long lies between two tries of
	// what needs space, but see Options.SpaceRetryMax.
	retryPauseMin = 20 * time.Millisecond
	retryPauseMax = time.Second
	// heldBackMax bounds what of the active segment is held back.
	heldBackMax = 1 << 20
)

// heldBack is how much of a segment only reserved batches may use while there
// is no next one. Without that ordinary ones could use up the last segment in
// the time it takes to find out that there is no space for another.
func heldBack(size int64) int64 { return min(heldBackMax, size/4) }

// retryPause is how long lies between the first tries.
func (o *Options) retryPause() time.Duration { return min(retryPauseMin, o.SpaceRetryMax) }

// reserve is what is set aside for what has to succeed on a full disk.
type reserve struct {
	ballast *ballast.Ballast
	// ending is closed when the log is being closed: nobody waits for space
	// any longer.
	ending <-chan struct{}
	// pauseMin and pauseMax bound a wait for space.
	pauseMin, pauseMax time.Duration
}

// retry returns what is called each time when there was no space: it makes
// some, or waits a while. false: to try again is of no use.
func (r *reserve) retry() (again func() bool) {
	pause := r.pauseMin
	return func() bool {
		if r.ballast.Free() {
			return true
		}
		timer := time.NewTimer(pause)
		defer timer.Stop()
		pause = min(2*pause, r.pauseMax)
		select {
		case <-timer.C:
			return true
		case <-r.ending:
			return false
		}
	}
}

// affordable is the size of a segment to be made: size, or a small one where
// the disk has no more. Where it has not even that, ENOSPC: to find that out by
// writing would take the last of it from others for a while.
func (l *Log) affordable(size int64) (int64, error) {
	u, err := l.fs.Usage(l.dir)
	if err != nil {
		return size, nil // then writing tells
	}
	small := l.opts.segmentBytes(0)
	switch {
	case u.FreeBytes >= size+small:
		return size, nil
	case u.FreeBytes >= small:
		return small, nil
	}
	return 0, &fs.PathError{Op: "write ahead", Path: l.dir, Err: syscall.ENOSPC}
}
