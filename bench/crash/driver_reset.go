package crash

import (
	"bytes"
	"context"
	"errors"
	"fmt"

	"durafs/internal/vfs/simdisk"
	"durafs/runs"
	"durafs/segment"
	"durafs/store"
)

// Reset fills a store, empties it, and fills the next one: what a crash leaves
// is the former with all it had, or an empty one that gives no number again.
func Reset() *Driver {
	return &Driver{
		Name: "reset", Doc: "a store with runs, payloads and settings that is emptied, and used on",
		Live: resetLive, Judge: resetJudge,
		Explore: simdisk.Explore{HeadBytes: []int64{segment.FrameHeaderBytes}},
	}
}

// resetFacts are what was promised: which store it is, and what that one has.
// Of every store the highest LSN and run number count.
type resetFacts struct {
	store  string
	tried  bool     // to empty it
	filled []string // its runs
	lsn    uint64
	run    uint64
}

// The promises of this driver.
const (
	resetIs    = "store"  // Text: its id. It was opened, or a reset has made it
	resetTried = "reset?" // the store is about to be emptied
	resetRun   = "run"    // Text: a run's id. N: the LSN since, M: its number
)

func resetFactsOf(promises []Promise) (f resetFacts) {
	for _, p := range promises {
		switch p.What {
		case resetIs:
			if p.Text != f.store {
				f.filled = nil
			}
			f.store, f.tried = p.Text, false
		case resetTried:
			f.tried = true
		case resetRun:
			f.filled = append(f.filled, p.Text)
			f.lsn, f.run = max(f.lsn, p.N), max(f.run, p.M)
		}
	}
	return f
}

// judge holds an open store against what was promised.
func (f *resetFacts) judge(s *store.Store) error {
	if lsn := s.Log().Durable(); lsn < f.lsn {
		return fmt.Errorf("the log goes on behind LSN %d, and was at %d", lsn, f.lsn)
	}
	scopes, err := s.Runs().Scopes(lifeOwner)
	if err != nil {
		return err
	}
	switch {
	case f.store == "" || s.ID() == f.store:
		for _, id := range f.filled {
			if err := resetHas(s, id); err != nil {
				return fmt.Errorf("store %s, run %s: %w", s.ID(), id, err)
			}
		}
		if len(f.filled) > 0 && len(scopes) != 1 {
			return fmt.Errorf("there are %d scopes", len(scopes))
		}
	case !f.tried:
		return fmt.Errorf("it is store %s, and was %s, which nobody has emptied", s.ID(), f.store)
	case len(s.Runs().Counts()) > 0 || len(scopes) > 0:
		return fmt.Errorf("store %s is new, and has %v and %d scopes", s.ID(), s.Runs().Counts(), len(scopes))
	case s.Log().Durable() <= f.lsn && f.lsn > 0:
		return fmt.Errorf("the log of the next store goes on behind LSN %d, which the former one had", s.Log().Durable())
	}
	return nil
}

const resetPayload = 18 << 10

// resetHas reads what fill wrote.
func resetHas(s *store.Store, id string) error {
	ref, ok := s.Runs().Lookup(id)
	if !ok {
		return errors.New("it is gone")
	}
	r, err := s.Runs().OpenPayload(ref, "p")
	if err != nil {
		return err
	}
	got := make([]byte, resetPayload)
	if _, err := r.ReadAt(got, 0); err != nil || !bytes.Equal(got, content(1, resetPayload)) {
		return fmt.Errorf("its payload: %v", err)
	}
	return nil
}

func resetOpen(l *Life) (*store.Store, error) {
	w := storeWork{pack: 128 << 10}
	s, err := store.Open(context.Background(), storeDir, w.options(l))
	if err != nil {
		return nil, &openError{err}
	}
	return s, resetSeen(l, s)
}

// resetSeen judges an open store.
func resetSeen(l *Life, s *store.Store) error {
	f := resetFactsOf(l.Promises())
	err := f.judge(s)
	if err != nil && l.Faulty && s.ID() == f.store {
		return &openError{err} // a read that fails is no loss
	}
	if notes := s.Recovery().Notes; err == nil && len(notes) > 0 && !l.Faulty && damaged(notes) {
		err = fmt.Errorf("a crash is taken for damage: %q", notes)
	}
	return err
}

func resetJudge(l *Life) error {
	s, err := resetOpen(l)
	if s != nil {
		end(l, s, false)
	}
	return allowed(l, err)
}

func resetLive(l *Life) error {
	s, err := resetOpen(l)
	if err == nil {
		if s.Healthy() == nil { // else it may not have been made yet, and says so
			l.Promise(Promise{What: resetIs, Text: s.ID()})
		}
		if err = resetFill(l, s); err == nil {
			s, err = resetOnce(l, s)
		}
		if l.Faulty && !errors.As(err, new(*judgement)) {
			err = nil // it may be refused; what was promised counts
		}
	}
	if s == nil {
		return allowed(l, err)
	}
	return allowed(l, errors.Join(err, end(l, s, l.Closes && err == nil)))
}

// judgement is an error that no fault excuses.
type judgement struct{ error }

// resetOnce empties the store, and judges the next one.
func resetOnce(l *Life, s *store.Store) (*store.Store, error) {
	l.Promise(Promise{What: resetTried})
	former := s.ID()
	next, err := s.Reset(context.Background())
	if next == nil {
		return nil, err
	}
	if err == nil && next.ID() == former {
		return next, &judgement{errors.New("it was emptied, and is the same store")}
	}
	if wrong := resetSeen(l, next); wrong != nil && !errors.As(wrong, new(*openError)) {
		return next, &judgement{wrong}
	}
	l.Promise(Promise{What: resetIs, Text: next.ID()})
	return next, err
}

// resetFill makes a run with a payload, and a scope. Its number and position are
// above all that were promised of any store.
func resetFill(l *Life, s *store.Store) error {
	f := resetFactsOf(l.Promises())
	ctx, id := context.Background(), fmt.Sprintf("exec_%d", l.Depth)
	if err := s.Runs().GrantScope(ctx, lifeOwner, "s", true); err != nil {
		return fmt.Errorf("fill: grant: %w", err)
	}
	st, err := s.Runs().Start(ctx, lifeOwner, runs.StartRequest{ID: id})
	if err != nil {
		return fmt.Errorf("fill: start: %w", err)
	}
	ref, _ := s.Runs().Lookup(id)
	if uint64(ref) <= f.run {
		return &judgement{fmt.Errorf("run number %d is given after %d", ref, f.run)}
	}
	if _, _, err := s.Runs().Put(ctx, runs.Caller{Writer: st.Writer}, id, "p", runs.SourceNamed, "", bytes.NewReader(content(1, resetPayload))); err != nil {
		return fmt.Errorf("fill: put: %w", err)
	}
	l.Promise(Promise{What: resetRun, Text: id, N: s.Log().Durable(), M: uint64(ref)})
	return nil
}
