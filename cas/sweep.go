package cas

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"durafs/internal/mutant"
)

// drainMax is how long a sweep waits for requests that began before it.
const drainMax = time.Minute

// SweepOptions say what a Sweep looks at.
type SweepOptions struct {
	// All: every pack in which anything is that nothing refers to; else those of
	// which less than half is referred to.
	All bool
	// Only, if not nil, are the numbers of the packs that are looked at, as with
	// All. For each record of what is looked at 28 bytes of memory are used.
	Only []uint32
	// References calls visit for every reference that there is at a moment after
	// it was called: those of every batch that was accepted before. Its error, or
	// a gap in what it reads, ends the sweep, and nothing is removed. It is called
	// twice.
	References func(ctx context.Context, visit func(Ref) error) error
	// Progress is told what is being done; nil: nobody is.
	Progress func(what string)
}

// Swept tells what a Sweep did.
type Swept struct {
	Packs        int   `json:"packs"`         // that there were, sealed
	PacksFreed   int   `json:"packs_freed"`   // that are gone
	RecordsMoved int64 `json:"records_moved"` // and are in other packs now
	BytesMoved   int64 `json:"bytes_moved"`
	BytesFreed   int64 `json:"bytes_freed"`  // by which the packs are smaller now
	PacksPinned  int   `json:"packs_pinned"` // that stayed, since something in them is damaged
}

// Sweep gives back the room of what nothing refers to: it copies what is
// referred to out of the packs that are worth it, the victims, into new ones, and
// removes them. In this order:
//
//	count    which packs are worth it
//	freeze   no put takes a chunk of a victim for its own any more
//	drain    all who may have taken one before have told the log, or never will
//	mark     what all references in the log come to, in the victims
//	copy     each such record, verified, into a pack of its own; the pack is
//	         read back from the disk, sealed, and listed: durable
//	commit   the ledger: the victims are gone
//	unlink   their files
//
// Up to the commit the victims are in charge, and after it the copies, which are
// sealed: no open cuts them, whatever the log says of where things lie. A crash
// before it leaves copies that nothing needs, or a pack that the next Open drops;
// after it, files that the next Open removes.
//
// A reference says where something lay when it was written. What has moved is
// found by its id, see visit.
//
// Whatever fails, the victims stay. A record that is referred to and damaged
// keeps its pack; what cannot be read of a manifest ends the sweep, since what
// it refers to is not known. Reads, puts and deletions go on meanwhile. The
// error is ErrSweeping, ErrHeld, ErrClosed, why the store is not healthy, *NoSpaceError,
// *DamageError, ctx's, ErrUnsure, or that of References.
func (s *Store) Sweep(ctx context.Context, o SweepOptions) (Swept, error) {
	leave, err := s.enter()
	if err != nil {
		return Swept{}, err
	}
	defer leave()
	if !s.sweeping.TryLock() {
		return Swept{}, ErrSweeping
	}
	defer s.sweeping.Unlock()
	w := sweep{s: s, ctx: ctx, o: o}
	err = w.run()
	return w.done, err
}

// sweep is one Sweep.
type sweep struct {
	s       *Store
	ctx     context.Context
	o       SweepOptions
	victims []*pack
	done    Swept
}

func (w *sweep) run() error {
	if err := w.s.Healthy(); err != nil {
		return err
	}
	if w.o.All {
		if err := w.s.sealActive(w.ctx); err != nil {
			return err
		}
	}
	w.progress("what is referred to")
	if err := w.choose(); err != nil || len(w.victims) == 0 {
		return err
	}
	w.freeze()
	defer w.thaw()
	if !mutant.On(mutant.SweepNotDrained) {
		if err := w.drain(); err != nil {
			return err
		}
	}
	w.progress("what is to be kept")
	live, err := w.mark(w.victims)
	if err != nil {
		return err
	}
	w.progress(fmt.Sprintf("%d packs", len(w.victims)))
	return w.move(live)
}

// drain waits for those who may have found something in a victim, but not for
// ever: a payload may come in for hours.
func (w *sweep) drain() error {
	ctx, cancel := context.WithTimeout(w.ctx, drainMax)
	defer cancel()
	err := w.s.holds.drain(ctx)
	if err != nil && w.ctx.Err() == nil {
		return ErrHeld
	}
	return err
}

func (w *sweep) progress(what string) {
	if w.o.Progress != nil {
		w.o.Progress(what)
	}
}

// choose counts what is referred to in every sealed pack, and takes the victims.
// It is a guess: what counts is what mark finds once they are frozen.
func (w *sweep) choose() error {
	var sealed []*pack
	for _, p := range w.s.newestFirst() {
		if !p.isSealed() || w.o.Only != nil && !slices.Contains(w.o.Only, p.seq) {
			continue
		}
		w.done.Packs++
		if _, err := w.s.listed(p); err != nil && !mutant.On(mutant.SweepErrorIsEmpty) {
			w.pinned(p, err)
			continue
		}
		sealed = append(sealed, p)
	}
	live, err := w.mark(sealed)
	if err != nil {
		return err
	}
	for _, p := range sealed {
		if live.lost[p.seq] {
			w.pinned(p, errNotListed)
			continue
		}
		all, kept := live.bytesOf(p.seq)
		if (w.o.All || w.o.Only != nil) && kept < all || 2*kept < all {
			w.victims = append(w.victims, p)
		}
	}
	slices.Reverse(w.victims) // the oldest first, as they were written
	return nil
}

func (p *pack) isSealed() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.sealed && !p.missing
}

// errNotListed is of a pack that an open could not read all of: what it missed is
// in no footer, and may be read by its place.
var errNotListed = errors.New("something refers to a record that the pack does not list")

// pinned notes a pack that stays, since something in it is damaged.
func (w *sweep) pinned(p *pack, err error) {
	w.s.log.Warn("a pack is not swept: something in it is damaged", "pack", p.seq, "err", err)
	w.done.PacksPinned++
}

func (w *sweep) freeze() {
	for _, p := range w.victims {
		if !mutant.On(mutant.SweepNotFrozen) {
			p.frozen.Store(true)
		}
	}
}

// thaw lets puts find chunks in what has stayed. What is gone stays frozen: a put
// that began to look at it before may look at this only now.
func (w *sweep) thaw() {
	for _, p := range w.victims {
		if w.s.pack(p.seq) == p {
			p.frozen.Store(false)
		}
	}
}

// move copies what is live and removes the victims.
func (w *sweep) move(live *survey) error {
	out := mover{s: w.s, ctx: w.ctx, gentle: w.s.gently(), moved: make(map[ID]bool)}
	defer out.abandon()
	var free []*pack
	for _, p := range w.victims {
		if live.lost[p.seq] { // it was chosen before something referred to that
			w.pinned(p, errNotListed)
			continue
		}
		err := out.take(p, live)
		if _, damaged := errors.AsType[*DamageError](err); damaged {
			w.pinned(p, err)
			continue
		}
		if err != nil {
			return err
		}
		free = append(free, p)
	}
	if mutant.On(mutant.SweepUnlinkedEarly) {
		for _, p := range free {
			_ = w.s.fs.Remove(p.path())
		}
	}
	// From here on the copies are durable, under their names and in the ledger.
	if err := out.seal(); err != nil {
		return err
	}
	w.done.RecordsMoved, w.done.BytesMoved = out.records, out.bytes
	w.done.BytesFreed = -out.packBytes
	for _, p := range free {
		bytes := p.end()
		if err := w.s.removePack(p); err != nil {
			return err
		}
		w.done.PacksFreed++
		w.done.BytesFreed += bytes
	}
	return nil
}

// removePack takes a pack away that nothing needs: first the ledger, durably,
// then the file. Who has it open reads on.
func (s *Store) removePack(p *pack) error {
	l := p.ledger()
	l.Sealed = true
	if err := s.opts.Ledger.SealPack(l); err != nil {
		return fmt.Errorf("cas: take pack %d out of the list: %w", p.seq, err)
	}
	s.mu.Lock()
	delete(s.packs, p.seq)
	s.mu.Unlock()
	s.files.drop(p)
	if err := s.fs.Remove(p.path()); err != nil {
		s.log.Warn("a swept pack is left behind until the next start", "file", p.path(), "err", err)
	}
	return nil
}
