package vfs

import (
	"errors"
	"io/fs"
	"os"
	"sync"

	"golang.org/x/sys/unix"
)

// osFile adds to *os.File what the store needs of Linux.
type osFile struct {
	*os.File

	// mu guards direct, a second descriptor of the same file with O_DIRECT,
	// opened when first needed.
	mu     sync.Mutex
	direct *os.File
}

func (f *osFile) Close() error {
	f.mu.Lock()
	if f.direct != nil {
		f.direct.Close()
		f.direct = nil
	}
	f.mu.Unlock()
	return f.File.Close()
}

func (f *osFile) Size() (int64, error) {
	st, err := f.Stat()
	if err != nil {
		return 0, err
	}
	return st.Size(), nil
}

func (f *osFile) Datasync() error {
	return call(f.File, "fdatasync", func(fd int) error { return unix.Fdatasync(fd) })
}

func (f *osFile) WriteBehind(off, n int64) error {
	err := call(f.File, "sync_file_range", func(fd int) error {
		return unix.SyncFileRange(fd, off, n, unix.SYNC_FILE_RANGE_WRITE)
	})
	for _, cannot := range []error{unix.ENOSYS, unix.EOPNOTSUPP, unix.EINVAL, unix.ESPIPE} {
		if errors.Is(err, cannot) {
			return nil // nothing was promised
		}
	}
	return err
}

// call makes a system call on the file's descriptor and names it in the error.
func call(f *os.File, op string, fn func(fd int) error) error {
	c, err := f.SyscallConn()
	if err != nil {
		return err
	}
	var callErr error
	err = c.Control(func(fd uintptr) { callErr = eintr(func() error { return fn(int(fd)) }) })
	switch {
	case err != nil: // the one reason is a closed file, in an error of its own
		return &fs.PathError{Op: op, Path: f.Name(), Err: errors.Join(fs.ErrClosed, err)}
	case callErr != nil:
		return &fs.PathError{Op: op, Path: f.Name(), Err: callErr}
	}
	return nil
}
