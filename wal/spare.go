package wal

import (
	"errors"
	"fmt"
	"time"

	"durafs/internal/vfs"
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

// makeSpare creates a segment to come and writes all of its blocks: a barrier
// on blocks that were written before has no metadata to write. pause is called
// between steps. On error no file is left.
func (l *Log) makeSpare(id uint32, size int64, pause func(written int64) error) (vfs.File, error) {
	name := l.path(spareName(id))
	f, err := l.fs.Create(name)
	if err != nil {
		return nil, err
	}
	if err := l.fillSpare(f, size, pause); err != nil {
		f.Close()
		l.fs.Remove(name) // or the next open does
		return nil, err
	}
	return f, nil
}

func (l *Log) fillSpare(f vfs.File, size int64, pause func(int64) error) error {
	if l.copyOnWrite() {
		// Blocks written before are no use there; the size alone is.
		if err := f.Truncate(size); err != nil {
			return err
		}
		return f.Datasync()
	}
	for off := int64(0); off < size; {
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
func (l *Log) activate(f vfs.File, id uint32, salt uint64, carried []byte) error {
	b := append(l.header(id, salt), carried...)
	if n, err := f.WriteAt(b, 0); err != nil || n < len(b) {
		return errors.Join(err, shortWrite(n, len(b)))
	}
	if err := f.Datasync(); err != nil {
		return err
	}
	if err := l.fs.Rename(l.path(spareName(id)), l.path(segmentName(id))); err != nil {
		return err
	}
	if err := l.dirf.Sync(); err != nil {
		return fmt.Errorf("%w: %w", errDirSync, err)
	}
	return nil
}

// abandon gives back the space of a segment that could not be made, unless the
// manifest may list it. What cannot be removed the next open removes.
func (l *Log) abandon(f vfs.File, id uint32, why error) {
	f.Close()
	if errors.Is(why, ErrPoisoned) {
		return
	}
	l.fs.Remove(l.path(spareName(id)))
	l.fs.Remove(l.path(segmentName(id)))
}

// errDirSync is a directory whose names are not certain any more.
var errDirSync = errors.New("wal: directory could not be synced")

// prepare makes, activates and lists the next segment.
func (l *Log) prepare(pause func(int64) error) (*active, error) {
	size := l.opts.segmentBytes(l.made)
	if l.isShort() {
		size = l.opts.segmentBytes(0) // better a small one than none
	}
	// A number is taken for good when a file bears it.
	l.lastID++
	e := segEntry{ID: l.lastID, Salt: newSalt(), Size: size, State: segLive}
	f, err := l.makeSpare(e.ID, size, pause)
	if err != nil {
		return nil, err
	}
	if err = l.activate(f, e.ID, e.Salt, nil); err == nil {
		err = l.man.commit(setSegment(e))
	}
	if err != nil {
		l.abandon(f, e.ID, err)
		return nil, err
	}
	l.made++
	s := newSegFile(e)
	l.files.add(s)
	return &active{segFile: s, f: f}, nil
}
