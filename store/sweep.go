package store

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"sync"

	"durafs/cas"
	"durafs/internal/gentle"
	"durafs/runs"
	"durafs/wal"
)

// sweep lets Close, and a Reset, end sweeps and wait for them.
type sweep struct {
	mu     sync.Mutex
	ended  bool
	cancel context.CancelFunc // of the sweep that runs, if one does
	runs   sync.WaitGroup

	unclosed []uint32 // packs that a former process has left, and that were not swept since
	wasted   int64    // what had been put for nothing before the last sweep
}

// sweepWorthBytes that were put for nothing make a sweep worth while.
const sweepWorthBytes = 64 << 20

// SweepOptions say how much a Sweep looks at.
type SweepOptions struct {
	// All: every pack in which anything is that nothing refers to, for which the
	// active one is ended too. Else what a crash has left, if that was not swept
	// yet, or the packs of which less than half is referred to; and the log is read
	// slowly while somebody writes to it.
	All bool
	// Progress is told what is being done; nil: nobody is.
	Progress func(what string)
}

// Sweep gives back the room of payloads' chunks that nothing in the log refers
// to: what came of a request that was cut, of an outcome that a crash or a full
// disk kept from being committed, of a payload that was put twice. See
// cas.Store.Sweep. It reads the log twice, and may run beside everything else
// but another one, which is cas.ErrSweeping. Whatever fails, all that was there
// stays. Close and Reset end it.
//
// What the log refers to stays, but for payloads that an owner has deleted: also
// those of admissions that were undone, as long as their batches are in the log.
// Who reads a payload while it is deleted, and swept, is told that it was.
func (s *Store) Sweep(ctx context.Context, o SweepOptions) (cas.Swept, error) {
	switch {
	case s.readOnly != nil:
		return cas.Swept{}, s.readOnly
	case s.recovery.LostCount > 0, s.runs.KeepPacks():
		return cas.Swept{}, cas.ErrUnsure
	}
	ctx, done, err := s.sweep.begin(ctx)
	if err != nil {
		return cas.Swept{}, err
	}
	defer done()
	wasted := s.chunks.Stats().WastedBytes
	refs := references{s: s, deleted: map[payloadName]bool{}}
	if !o.All {
		refs.gentle = gentle.Beside(s.log.Durable)
	}
	sweep := cas.SweepOptions{All: o.All, References: refs.visit, Progress: o.Progress}
	if !o.All {
		sweep.Only = s.sweep.unclosed
	}
	swept, err := s.chunks.Sweep(ctx, sweep)
	if err == nil {
		s.sweep.mu.Lock()
		defer s.sweep.mu.Unlock()
		if sweep.Only == nil {
			s.sweep.wasted = wasted
		}
		s.sweep.unclosed = nil
	}
	return swept, err
}

// SweepDue reports whether a sweep is worth its reading of the log: a former
// process ended without closing its packs, or as much was put for nothing as a
// pack holds.
func (s *Store) SweepDue() bool {
	s.sweep.mu.Lock()
	defer s.sweep.mu.Unlock()
	return s.readOnly == nil && (len(s.sweep.unclosed) > 0 || s.chunks.Stats().WastedBytes-s.sweep.wasted >= sweepWorthBytes)
}

func (w *sweep) begin(ctx context.Context) (context.Context, func(), error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case w.ended:
		return nil, nil, wal.ErrClosed
	case w.cancel != nil:
		return nil, nil, cas.ErrSweeping
	}
	ctx, w.cancel = context.WithCancel(ctx)
	w.runs.Add(1)
	return ctx, w.done, nil
}

func (w *sweep) done() {
	w.mu.Lock()
	w.cancel()
	w.cancel = nil
	w.mu.Unlock()
	w.runs.Done()
}

func (s *Store) endSweeps() {
	w := &s.sweep
	w.mu.Lock()
	w.ended = true
	if w.cancel != nil {
		w.cancel()
	}
	w.mu.Unlock()
	w.runs.Wait()
}

// references are those that the log holds. deleted are the payloads that had been
// deleted when they were looked for. That is before anything is frozen, and has to
// be: a settlement or a copy that found a payload before it was deleted has begun
// by then, and is waited for, so that its own reference is met; one that begins
// later finds it deleted.
type references struct {
	s       *Store
	deleted map[payloadName]bool
	looked  bool
	gentle  gentle.Pace
}

type payloadName struct {
	run  uint32
	name string
}

// visit visits every reference in the batches that the log has accepted by now,
// but for those to payloads that had been deleted.
func (r *references) visit(ctx context.Context, visit func(cas.Ref) error) error {
	if !r.looked {
		err := r.s.walkLog(ctx, func(batch []byte, durable bool) error {
			if !durable {
				return nil // a write that may yet be refused: it has deleted nothing
			}
			return errors.Join(r.noteDeleted(batch), r.gentle.Did(ctx, len(batch)))
		})
		if err != nil {
			return err
		}
		r.looked = true
	}
	return r.s.walkLog(ctx, func(batch []byte, _ bool) error {
		refs, err := runs.References(batch)
		if err != nil {
			return fmt.Errorf("%w: %w", cas.ErrUnsure, err)
		}
		for _, ref := range refs {
			if r.deleted[payloadName{ref.Run, ref.Name}] {
				continue
			}
			if err := visit(ref.Ref); err != nil {
				return err
			}
		}
		return r.gentle.Did(ctx, len(batch))
	})
}

func (r *references) noteDeleted(batch []byte) error {
	gone, err := runs.Deletions(batch)
	if err != nil {
		return fmt.Errorf("%w: %w", cas.ErrUnsure, err)
	}
	for _, d := range gone {
		r.deleted[payloadName{d.Run, d.Name}] = true
	}
	return nil
}

// walkLog hands the payload of every batch that the log has accepted by now to
// each. They are made durable first, so that the files have them; and where one
// of them is not met there, it is an error. What is met behind them is on its way
// or was refused, and is not durable.
func (s *Store) walkLog(ctx context.Context, each func(batch []byte, durable bool) error) error {
	var last uint64
	_, err := s.log.Do(ctx, wal.Reserved, func(lsn uint64) wal.Decision {
		last = lsn - 1
		return wal.Decision{After: last}
	})
	if err != nil {
		return err
	}
	next := s.config.began().LSN + 1
	var found *wal.Finding
	_, err = wal.Verify(ctx, s.fs, filepath.Join(s.dir, walName), func(f wal.Frame) error {
		if f.LSN > next {
			return fmt.Errorf("%w: the batches %d to %d were not met in the log", cas.ErrUnsure, next, f.LSN-1)
		}
		next = max(next, f.LSN+1)
		if err := each(f.Payload, f.LSN <= last); err != nil {
			return err
		}
		return ctx.Err()
	}, func(f wal.Finding) { found = &f })
	switch {
	case err != nil:
		return err
	case found != nil:
		return fmt.Errorf("%w: %s at %d: %s", cas.ErrUnsure, found.File, found.Offset, found.Reason)
	case next <= last:
		return fmt.Errorf("%w: the batches %d to %d were not met in the log", cas.ErrUnsure, next, last)
	}
	return nil
}
