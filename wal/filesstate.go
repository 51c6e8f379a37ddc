package wal

import (
	"fmt"
	"path/filepath"

	"durafs/internal/vfs"
	"durafs/segment"
)

// filesState lists the segments of a directory by their own headers, for a log
// whose manifest is lost. Which of them were dropped or ended it does not say,
// so the first frame of a later segment decides where an earlier one ends.
func filesState(fsys vfs.FS, dir string, storeID [16]byte) (manifestState, error) {
	state := newManifestState()
	names, err := fsys.ReadDir(dir)
	if err != nil {
		return state, err
	}
	for _, name := range names {
		id, ok := segmentID(name)
		if !ok {
			continue
		}
		e, err := entryOf(fsys, filepath.Join(dir, name), id, storeID)
		if err != nil {
			return state, err
		}
		state.segments[id] = e
		state.high.Segment = max(state.high.Segment, id)
	}
	limit := uint64(0)
	list := state.sortedSegments()
	for i := len(list) - 1; i >= 0; i-- {
		e := list[i]
		first := e.Last
		e.Last = limit
		state.segments[e.ID] = e
		if first > 0 {
			limit = first - 1
		}
	}
	return state, nil
}

// entryOf is what a file says of itself; its Last is, for the moment, the LSN
// of its first batch.
func entryOf(fsys vfs.FS, name string, id uint32, storeID [16]byte) (segEntry, error) {
	e := segEntry{ID: id, State: segLive}
	f, err := fsys.Open(name)
	if err != nil {
		return e, nil
	}
	defer f.Close()
	if e.Size, err = f.Size(); err != nil {
		return e, nil
	}
	read := salvage{read: f.ReadUncachedAt}
	h, err := readHeader(read.ReadAt, segment.LogFile, storeID)
	if fromLaterVersion(err) {
		return e, fmt.Errorf("wal: %s: %w", filepath.Base(name), err)
	}
	if err != nil {
		return e, nil // without its salt no frame of it checks
	}
	e.Salt = h.Salt
	w := segment.NewWalker(read.ReadAt, segment.NewKey(e.Salt), segment.HeaderBytes, e.Size, 0)
	defer w.Close()
	w.FreeStart()
	for {
		frame, err := w.Next()
		if err == nil && frame.Count > 0 {
			e.Last = frame.LSN
			return e, nil
		}
		if err == nil {
			continue
		}
		if found, _ := w.Resync(); !found {
			return e, nil
		}
	}
}
