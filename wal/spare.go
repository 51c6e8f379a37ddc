package wal

import (
	"errors"
	"fmt"
	"time"

	"durafs/internal/mutant"
	"durafs/internal/vfs"
	"durafs/segment"
)

const (
	// spareStepBytes is how much of a spare is written at a time, and handed
	// to the disk at once, so that the log's own barriers, which share the
	// disk, find little to wait for. There is no barrier between the steps: on
	// a file that grows each would commit metadata, which the log's barriers
	// would wait for too.
	spareStepBytes = 256 << 10
	// spareStepPause lies between two steps while nobody waits for the spare.
	spareStepPause = 4 * time.Millisecond
)

var zeros [spareStepBytes]byte

var errStopped = errors.New("wal: stopped")

// spare is a segment to come: a file of which all blocks are written, so that a
// barrier on it has no metadata to write.
type spare struct {
	segEntry
	f vfs.File
	// recycled says that the blocks hold another segment's frames.
	recycled bool
	// listed says that it has its own name and header, and the manifest knows
	// it: an open on a full disk uses it again.
	listed bool
}

// makeSpare creates a file with e's size under the name of a spare. pause is
// called between steps. On error no file is left.
func (l *Log) makeSpare(e segEntry, pause func(written int64) error) (*spare, error) {
	name := l.path(spareName(e.ID))
	f, err := l.fs.Create(name)
	if err != nil {
		return nil, err
	}
	if err := l.fillSpare(f, 0, e.Size, pause); err != nil {
		f.Close()
		l.fs.Remove(name) // or the next open does
		return nil, err
	}
	return &spare{segEntry: e, f: f}, nil
}

// fillSpare makes a file of n bytes be one of size bytes.
func (l *Log) fillSpare(f vfs.File, n, size int64, pause func(int64) error) error {
	if l.copyOnWrite() {
		// Blocks written before are no use there; the size alone is.
		if err := f.Truncate(size); err != nil {
			return err
		}
		return f.Datasync()
	}
	for off := n; off < size; {
		step := zeros[:min(spareStepBytes, size-off)]
		if n, err := f.WriteAt(step, off); err != nil || n < len(step) {
			return errors.Join(err, shortWrite(n, len(step)))
		}
		if err := f.WriteBehind(off, int64(len(step))); err != nil {
			return err
		}
		off += int64(len(step))
		if off < size && pause != nil {
			if err := pause(off); err != nil {
				return err
			}
		}
	}
	return f.Datasync()
}

// copyOnWrite tells file systems that never write a block in place.
func (l *Log) copyOnWrite() bool {
	u, err := l.fs.Usage(l.dir)
	const btrfs, zfs, bcachefs = 0x9123683e, 0x2fc12fc1, 0xca451a4e
	return err == nil && (u.Type == btrfs || u.Type == zfs || u.Type == bcachefs)
}

// activate makes a segment of a spare, up to the point where the manifest may
// list it:
//
//	write header (and frames that are carried on)
//	fdatasync         the name will never stand for a file without them
//	rename            from spare-… to its own name
//	fsync directory   the name stays
//
// Only after the manifest lists it may a further frame be written.
func (l *Log) activate(s *spare, carried []byte) error {
	if s.listed {
		return writeSynced(s.f, carried, segment.HeaderBytes)
	}
	b := append(l.header(s.segEntry, s.recycled), carried...)
	if err := writeSynced(s.f, b, 0); err != nil {
		return err
	}
	if err := l.fs.Rename(l.path(spareName(s.ID)), l.path(segmentName(s.ID))); err != nil {
		return err
	}
	if mutant.On(mutant.NoDirSyncAfterRename) {
		return nil
	}
	if err := l.dirf.Sync(); err != nil {
		return fmt.Errorf("%w: %w", errDirSync, err)
	}
	return nil
}

func writeSynced(f vfs.File, b []byte, off int64) error {
	if n, err := f.WriteAt(b, off); err != nil || n < len(b) {
		return errors.Join(err, shortWrite(n, len(b)))
	}
	return f.Datasync()
}

// abandon gives back the space of a segment that could not be made, unless the
// manifest may list it. What cannot be removed the next open removes.
func (l *Log) abandon(s *spare, why error) {
	s.f.Close()
	if errors.Is(why, ErrPoisoned) || s.listed {
		return
	}
	l.fs.Remove(l.path(spareName(s.ID)))
	l.fs.Remove(l.path(segmentName(s.ID)))
}

// errDirSync is a directory whose names are not certain any more.
var errDirSync = errors.New("wal: directory could not be synced")

// prepare makes, activates and lists the next segment.
func (l *Log) prepare(pause func(int64) error) (*active, error) {
	s, err := l.nextSpare(pause)
	if err != nil {
		return nil, err
	}
	if err = l.activate(s, nil); err == nil && !mutant.On(mutant.ListedAfterFrames) {
		err = l.man.commit(setSegment(s.segEntry))
	}
	if err != nil {
		l.abandon(s, err)
		return nil, err
	}
	l.made.Add(1)
	if s.recycled {
		l.stats.recycled.Add(1)
	}
	seg := newSegFile(s.segEntry)
	l.files.add(seg)
	return &active{segFile: seg, f: s.f}, nil
}

// nextSpare is a dropped segment that can be used again, or a new file.
func (l *Log) nextSpare(pause func(int64) error) (*spare, error) {
	size := l.opts.segmentBytes(int(l.made.Load()))
	if l.isShort() {
		size = l.opts.segmentBytes(0) // better a small one than none
	}
	// A number is taken for good when a file bears it.
	l.lastID++
	e := segEntry{ID: l.lastID, Salt: l.opts.Salt(), Size: size, State: segLive}
	if s := l.recycle(e, pause); s != nil {
		return s, nil
	}
	size, err := l.affordable(size)
	if err != nil {
		return nil, err
	}
	e.Size = size
	return l.makeSpare(e, pause)
}
