package store

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"path/filepath"
	"slices"
	"syscall"

	"durafs/cas"
	"durafs/runs"
	"durafs/wal"
)

// canBeRead reports whether a store that did not open can be opened to be read
// only: it exists, and is damaged where nobody can tell whose data it was, or
// there is no room for what opening writes.
func (s *Store) canBeRead(err error) bool {
	if s.config.Store == [16]byte{} || s.recovery.Created {
		return false
	}
	_, damaged := errors.AsType[*wal.DamageError](err)
	return damaged || errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT)
}

// openReadOnly opens what is left of the store, from the beginning again.
// Nothing is written; why stands in Healthy and in every answer to a write.
func (s *Store) openReadOnly(ctx context.Context, opt Options, why error) error {
	opt.Log.Error("the store is opened read-only", "cause", why)
	if err := s.closeParts(context.WithoutCancel(ctx)); err != nil {
		opt.Log.Warn("what was opened of the store could not be closed", "cause", err)
	}
	s.log, s.chunks, s.readOnly = nil, nil, why
	s.recovery = Recovery{ReadOnly: why.Error()}
	s.runs = runs.New(runs.Options{Clock: s.clock, StoreKey: s.config.Key, Log: opt.Log, Sinks: opt.Sinks})
	if err := s.openLog(ctx, opt); err != nil {
		return errors.Join(why, err)
	}
	chunks, found, err := cas.Open(ctx, cas.Options{
		FS: s.fs, Dir: filepath.Join(s.dir, casName), StoreID: s.config.Store,
		Ledger: s.packsThere(), Log: opt.Log, ReadOnly: s.log.ReadOnly(),
	})
	if err != nil {
		return errors.Join(why, err)
	}
	s.chunks = chunks
	s.recovery.addChunks(found)
	s.nameLost()
	return s.runs.Boot(ctx, s.log, s.chunks)
}

// packList is a ledger that nothing is written to.
type packList []cas.Pack

func (l packList) Packs() []cas.Pack       { return l }
func (l packList) AddPack(cas.Pack) error  { return wal.ErrReadOnly }
func (l packList) SealPack(cas.Pack) error { return wal.ErrReadOnly }

// packsThere lists the packs of the manifest, and those that are there and not
// in it: it may be lost.
func (s *Store) packsThere() packList {
	packs := map[uint32]cas.Pack{}
	found, err := cas.Found(s.fs, filepath.Join(s.dir, casName), s.config.Store)
	if err != nil {
		s.recovery.Notes = append(s.recovery.Notes, err.Error())
	}
	for _, p := range append(found, casPacks(s.log.Packs())...) {
		packs[p.Seq] = p
	}
	return slices.SortedFunc(maps.Values(packs), func(a, b cas.Pack) int { return cmp.Compare(a.Seq, b.Seq) })
}
