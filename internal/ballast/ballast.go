// Package ballast keeps a file whose only use is the space that it takes.
//
// A store must be able to end what is running, and to be opened, on a disk that
// is full to the last block. What that takes is small, and is set aside while
// there is space: a file of a few MiB, unlinked when something small and
// necessary (a manifest, a pack's footer, a segment at open) finds no space,
// and made again when there is space once more.
//
// How its owner uses it:
//
//	b := ballast.New(fsys, dir, bytes)   an earlier process's file counts
//	b.Fill()                             at open, and again while it is not held
//	if err is ENOSPC or EDQUOT && b.Free() { try once more }
//
// It is for what has to succeed, never for an ordinary write: those are refused.
// The bytes do not shrink, and no block is like another: a file system that
// compresses or shares blocks gives them all the space they claim.
package ballast

import (
	"errors"
	"io"
	"io/fs"
	"math/rand/v2"
	"path/filepath"
	"sync"
	"syscall"

	"durafs/internal/vfs"
)

const (
	// Name is the file's name in the directory that it is for.
	Name = "ballast"
	// Bytes is the size of a store's ballast in each of its directories, on a
	// file system that is large enough; see BytesOn.
	Bytes = 4 << 20
	// shareMax bounds it on a small one: this part of the file system.
	shareMax = 16
	// stepBytes is how much is written at a time.
	stepBytes = 256 << 10
)

// BytesOn is the size of a ballast on a file system of this size: Bytes, but at
// most a 16th of it.
func BytesOn(fileSystemBytes int64) int64 { return min(Bytes, fileSystemBytes/shareMax) }

// Ballast is such a file. Its methods may be called concurrently.
type Ballast struct {
	fs    vfs.FS
	dir   string
	bytes int64

	// mu guards held, and is held while the file is made or unlinked.
	mu   sync.Mutex
	held bool
}

// New is the ballast of a directory. A file of that size that is there already
// is held; none is made yet. bytes of 0 or less is none at all: it is never
// held, and Fill has nothing to do.
func New(fsys vfs.FS, dir string, bytes int64) *Ballast {
	b := &Ballast{fs: fsys, dir: dir, bytes: bytes}
	if bytes > 0 {
		info, err := fsys.Stat(b.name())
		b.held = err == nil && info.Size == bytes
	}
	return b
}

func (b *Ballast) name() string { return filepath.Join(b.dir, Name) }

// Held tells whether the file is there.
func (b *Ballast) Held() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.held
}

// Missing tells whether Fill has something to do.
func (b *Ballast) Missing() bool { return b.bytes > 0 && !b.Held() }

// Fill makes the file if it is not held. It does not take the last of a disk:
// where less than twice its size is free it is ENOSPC, and nothing was done. On
// other errors no file is left either.
//
//	unlink      what a crash left half made
//	create, write, fdatasync
//	            or blocks that were only promised could be refused later
//
// The name is not synced: if a power cut takes it, the file is made again.
func (b *Ballast) Fill() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.held || b.bytes <= 0 {
		return nil
	}
	if err := b.fs.Remove(b.name()); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	u, err := b.fs.Usage(b.dir)
	if err != nil {
		return err
	}
	if u.FreeBytes < 2*b.bytes {
		return &fs.PathError{Op: "fill", Path: b.name(), Err: syscall.ENOSPC}
	}
	if err := b.write(); err != nil {
		b.fs.Remove(b.name())
		return err
	}
	b.held = true
	return nil
}

func (b *Ballast) write() error {
	f, err := b.fs.Create(b.name())
	if err != nil {
		return err
	}
	defer f.Close()
	noise := rand.NewChaCha8([32]byte{}) // the same each time: only its form counts
	step := make([]byte, min(stepBytes, b.bytes))
	for off := int64(0); off < b.bytes; off += int64(len(step)) {
		step = step[:min(int64(len(step)), b.bytes-off)]
		noise.Read(step)
		if n, err := f.WriteAt(step, off); err != nil || n < len(step) {
			return errors.Join(err, shortWrite(n, len(step)))
		}
		if err := f.WriteBehind(off, int64(len(step))); err != nil {
			return err
		}
	}
	return f.Datasync()
}

func shortWrite(n, want int) error {
	if n < want {
		return io.ErrShortWrite
	}
	return nil
}

// Free unlinks the file. It tells whether there is more space now than before;
// false: it was not held, and to try again is of no use.
//
//	open dir   before the change
//	unlink
//	sync dir   a file system with a journal gives freed blocks to others only
//	           after its commit
//
// What comes of the sync does not matter here: whoever needs to know of an
// error has a descriptor of the directory of his own, and will be told on it.
func (b *Ballast) Free() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.held {
		return false
	}
	dir, dirErr := b.fs.OpenDir(b.dir)
	if dirErr == nil {
		defer dir.Close()
	}
	b.held = false
	if err := b.fs.Remove(b.name()); err != nil {
		return false
	}
	if dirErr == nil {
		dir.Sync()
	}
	return true
}
