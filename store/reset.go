package store

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"syscall"

	"durafs/internal/durable"
	"durafs/internal/vfs"
	"durafs/wal"
)

// Reset empties the store and opens it anew, all under its lock. The next store
// has another id, key and boot, so that every token of this one is void, and
// gives no LSN, run number or file number again. Nothing may use this store any
// more, and its Close need not be called.
//
// In this order:
//
//	close       what is open: it was acknowledged, and is to be there if the
//	            next step fails
//	store.json  another id, and a note that what lies beside it is the former
//	            store's: durable.WriteFile, one rename. This is the commit point:
//	            before it a crash leaves the former store, after it an empty one
//	unlink      every file of wal/, cas/, tmp/ and lost/
//	fsync       each of these directories, or a file could come back and be found
//	            beside those of the next store
//	log         a new one, which begins behind the numbers in store.json
//	store.json  without the note: from here on the files are the next store's
//
// What comes after the commit point is done by opening, this one or, after a
// crash, the next: it begins again from the unlinking until the note is gone.
//
// When it fails, next is the store as it could be opened again, whichever it is,
// or nil where it could not be, and then the lock is given back.
func (s *Store) Reset(ctx context.Context) (next *Store, err error) {
	if s.readOnly != nil {
		return s, fmt.Errorf("%w: a store that can only be read is not emptied; remove its directory instead", wal.ErrReadOnly)
	}
	ctx = context.WithoutCancel(ctx)
	begin := s.clock.Boot()
	// A log that takes no more writes cannot be closed well, and has not to be:
	// what was acknowledged is on the disk.
	s.closeParts(ctx)
	err = s.commitReset()
	next, openErr := openLocked(ctx, s.dir, s.options, s.lock, begin)
	return next, errors.Join(err, openErr)
}

// commitReset makes the store another one. The log is closed.
func (s *Store) commitReset() error {
	c, err := newConfig(s.clock.Now())
	if err != nil {
		return err
	}
	high := s.log.HighWater()
	c.Reset = &resetMark{
		Emptying: true, Segment: high.Segment, Pack: high.Pack,
		// One LSN is left out: whoever has seen the last one is to learn that he
		// has missed something.
		LSN: high.LSN + 1,
		Run: max(high.Run, s.runs.Numbers().Run), Thread: high.Thread, Target: high.Target,
	}
	return writeConfig(s.fs, s.dir, c)
}

func writeConfig(fsys vfs.FS, dir string, c config) error {
	b, err := c.encode()
	if err != nil {
		return err
	}
	return durable.WriteFile(fsys, filepath.Join(dir, configName), b)
}

// empty removes all files in the store's directories, durably.
func empty(fsys vfs.FS, dir string) error {
	for _, sub := range directories {
		if err := emptyDir(fsys, filepath.Join(dir, sub)); err != nil {
			return err
		}
	}
	return nil
}

func emptyDir(fsys vfs.FS, dir string) error {
	d, err := fsys.OpenDir(dir)
	if err != nil {
		return err
	}
	defer d.Close()
	names, err := fsys.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, name := range names {
		if err := removeAll(fsys, filepath.Join(dir, name)); err != nil {
			return err
		}
	}
	return d.Sync()
}

// removeAll removes a file, or a directory that somebody has put there, for
// evidence perhaps: it must not keep the store from being opened.
func removeAll(fsys vfs.FS, path string) error {
	err := fsys.Remove(path)
	if errors.Is(err, syscall.ENOTEMPTY) || errors.Is(err, syscall.EEXIST) {
		if err = emptyDir(fsys, path); err == nil {
			err = fsys.Remove(path)
		}
	}
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// endReset takes the note away: the files are this store's.
func (s *Store) endReset() error {
	c := s.config
	mark := *c.Reset
	mark.Emptying = false
	c.Reset = &mark
	if err := writeConfig(s.fs, s.dir, c); err != nil {
		return err
	}
	s.config = c
	return nil
}
