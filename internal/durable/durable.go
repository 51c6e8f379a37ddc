// Package durable makes small changes of names that survive a power cut.
//
// A file's bytes are safe after a datasync of the file, its name after a sync
// of the directory that holds it, and only in that order is a name never seen
// without its bytes. Each helper lists its system calls, in order, and why each
// is there.
//
// The directory is opened before the change. The kernel reports an error of
// writing a directory back once to each descriptor that was open when the error
// came; a descriptor that is opened later may never be told.
//
// The helpers expect to be the only one who changes these names: the caller
// holds the lock of the directory (package dirlock). After an error a name may
// stand for the former or the new file, complete in either case, and which of
// them can change once more at a power cut; a caller that must know reads the
// file again after the next successful sync.
package durable

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"

	"durafs/internal/vfs"
)

// TmpSuffix is appended to a name while the file is being written. A file with
// such a name is a remainder of a crash and worth nothing.
const TmpSuffix = ".tmp"

// ErrTooLarge says that a file is larger than its reader allows.
var ErrTooLarge = errors.New("file too large")

// WriteFile makes name stand for a file with this content, replacing one of
// that name as one step. When it returns nil the new file is durable.
//
//	open dir       before the change, see the package comment
//	unlink tmp     what a crash left; O_EXCL below refuses to reuse it
//	create tmp     under a name nobody reads
//	write tmp
//	datasync tmp   or the name could outlive a crash that the bytes do not
//	close tmp
//	rename         atomic: readers see the former file or the new one
//	sync dir       until now the former name may come back at a power cut
func WriteFile(fsys vfs.FS, name string, data []byte) error {
	dir, err := fsys.OpenDir(filepath.Dir(name))
	if err != nil {
		return err
	}
	defer dir.Close()

	tmp := name + TmpSuffix
	if err := fsys.Remove(tmp); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := writeNew(fsys, tmp, data); err != nil {
		fsys.Remove(tmp) // it may not exist
		return err
	}
	if err := fsys.Rename(tmp, name); err != nil {
		fsys.Remove(tmp)
		return err
	}
	return dir.Sync() // from here on the new file is what every later open sees
}

// writeNew makes a file and its content durable, under a name that is not yet.
func writeNew(fsys vfs.FS, name string, data []byte) error {
	f, err := fsys.Create(name)
	if err != nil {
		return err
	}
	_, err = f.WriteAt(data, 0)
	if err == nil {
		err = f.Datasync()
	}
	return errors.Join(err, f.Close())
}

// ReadFile reads a file of at most bytesMax bytes; a larger one is ErrTooLarge.
func ReadFile(fsys vfs.FS, name string, bytesMax int64) ([]byte, error) {
	f, err := fsys.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	size, err := f.Size()
	if err != nil {
		return nil, err
	}
	if size > bytesMax {
		return nil, fmt.Errorf("%s: %w: %d bytes, at most %d", name, ErrTooLarge, size, bytesMax)
	}
	data := make([]byte, size)
	n, err := f.ReadAt(data, 0)
	if errors.Is(err, io.EOF) && int64(n) == size {
		err = nil
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %d of %d bytes: %w", name, n, size, err)
	}
	return data, nil
}

// CreateDir makes a directory, durably. It is an error (fs.ErrExist) if the
// name exists.
//
//	open parent    before the change
//	mkdir
//	sync parent    the new name
func CreateDir(fsys vfs.FS, name string) error {
	return inDir(fsys, name, func() error { return fsys.Mkdir(name) })
}

// EnsureDir is CreateDir that takes an existing directory too. It syncs the
// parent also then: whoever made the directory may have died before its sync.
func EnsureDir(fsys vfs.FS, name string) error {
	return inDir(fsys, name, func() error {
		err := fsys.Mkdir(name)
		if !errors.Is(err, fs.ErrExist) {
			return err
		}
		info, statErr := fsys.Stat(name)
		if statErr != nil {
			return statErr
		}
		if !info.IsDir {
			return err
		}
		return nil
	})
}

// Rename gives a file that is durable another name in the same directory,
// durably.
//
//	open dir       before the change
//	rename
//	sync dir       until now the former name may come back at a power cut
func Rename(fsys vfs.FS, oldname, newname string) error {
	if filepath.Dir(oldname) != filepath.Dir(newname) {
		return &fs.PathError{Op: "rename", Path: oldname, Err: errors.New("not within one directory")}
	}
	return inDir(fsys, newname, func() error { return fsys.Rename(oldname, newname) })
}

// Remove unlinks a file, durably: after it the name does not come back.
//
//	open dir       before the change
//	unlink
//	sync dir       until now the name may come back at a power cut
func Remove(fsys vfs.FS, name string) error {
	return inDir(fsys, name, func() error { return fsys.Remove(name) })
}

// inDir makes a change in the directory that holds name and syncs it.
func inDir(fsys vfs.FS, name string, change func() error) error {
	dir, err := fsys.OpenDir(filepath.Dir(name))
	if err != nil {
		return err
	}
	defer dir.Close()
	if err := change(); err != nil {
		return err
	}
	return dir.Sync()
}
