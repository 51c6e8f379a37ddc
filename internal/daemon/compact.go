package daemon

import (
	"context"
	"errors"
	"time"

	"durafs/control/server"
	"durafs/store"
)

const (
	// sweepDelay is how long after a start the packs that a crash has left are
	// swept: first those who wait for the daemon have their turn.
	sweepDelay = 10 * time.Second
	// sweepLook is how often it is asked whether a sweep is worth while. After one
	// that failed twice as long is waited each time, up to sweepLookMax.
	sweepLook    = time.Minute
	sweepLookMax = 4 * time.Hour
)

// compact sweeps all, for an owner.
func (l *life) compact(ctx context.Context) (server.CompactDone, error) {
	d, err := l.store.Sweep(ctx, store.SweepOptions{All: true})
	return server.CompactDone{
		Packs: d.Packs, PacksFreed: d.PacksFreed, PacksPinned: d.PacksPinned,
		RecordsMoved: d.RecordsMoved, BytesMoved: d.BytesMoved, BytesFreed: d.BytesFreed,
	}, err
}

// sweeps begins to sweep when that is worth while, until end is called.
func (l *life) sweeps() (end func()) {
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		wait := sweepLook
		look := time.NewTimer(sweepDelay)
		defer look.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-look.C:
			}
			if wait = min(2*wait, sweepLookMax); l.sweepIfWorth(ctx) {
				wait = sweepLook
			}
			look.Reset(wait)
		}
	}()
	return func() { cancel(); <-ended }
}

// sweepIfWorth sweeps if that is due, and reports whether nothing is in its way.
func (l *life) sweepIfWorth(ctx context.Context) bool {
	if !l.store.SweepDue() {
		return true
	}
	done, err := l.store.Sweep(ctx, store.SweepOptions{})
	switch {
	case err == nil:
		l.d.log.Info("packs were compacted", "freed", done.PacksFreed, "of", done.Packs, "bytes", done.BytesFreed)
	case !errors.Is(err, context.Canceled):
		l.d.log.Warn("packs were not compacted; all that there was is there", "err", err)
	}
	return err == nil
}
