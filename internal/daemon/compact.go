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
	// sweepLook is how often it is asked whether a sweep is worth while.
	sweepLook = time.Minute
)

// compact sweeps all, for an owner.
func (l *life) compact(ctx context.Context) (server.CompactDone, error) {
	d, err := l.store.Sweep(ctx, store.SweepOptions{All: true})
	return server.CompactDone{
		Packs: d.Packs, PacksFreed: d.PacksFreed, PacksPinned: d.PacksPinned,
		RecordsMoved: d.RecordsMoved, BytesMoved: d.BytesMoved, BytesFreed: d.BytesFreed,
	}, err
}

// sweepNow and then sweeps when that is worth while, until end is called.
func (l *life) sweeps() (end func()) {
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		look := time.NewTimer(sweepDelay)
		defer look.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-look.C:
				l.sweepIfWorth(ctx)
				look.Reset(sweepLook)
			}
		}
	}()
	return func() { cancel(); <-ended }
}

func (l *life) sweepIfWorth(ctx context.Context) {
	if !l.store.SweepDue() {
		return
	}
	done, err := l.store.Sweep(ctx, store.SweepOptions{})
	switch {
	case err == nil:
		l.d.log.Info("packs were compacted", "freed", done.PacksFreed, "of", done.Packs, "bytes", done.BytesFreed)
	case !errors.Is(err, context.Canceled):
		l.d.log.Warn("packs were not compacted; all that there was is there", "err", err)
	}
}
