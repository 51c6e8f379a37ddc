package vfs

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"unsafe"

	"golang.org/x/sys/unix"
)

// OS is the operating system's file system.
var OS FS = osFS{}

type osFS struct{}

const (
	fileMode = 0o600
	dirMode  = 0o700
)

func (osFS) Create(name string) (File, error) {
	f, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE|os.O_EXCL, fileMode)
	if err != nil {
		return nil, err
	}
	// The umask may have taken bits away.
	if err := f.Chmod(fileMode); err != nil {
		f.Close()
		return nil, err
	}
	return &osFile{File: f}, nil
}

func (osFS) Open(name string) (File, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	return &osFile{File: f}, nil
}

func (osFS) OpenWrite(name string) (File, error) {
	f, err := os.OpenFile(name, os.O_RDWR, 0)
	if err != nil {
		return nil, err
	}
	return &osFile{File: f}, nil
}

func (osFS) OpenDir(name string) (Dir, error) {
	f, err := os.OpenFile(name, os.O_RDONLY|unix.O_DIRECTORY, 0)
	if err != nil {
		return nil, err
	}
	return f, nil
}

func (osFS) Mkdir(name string) error {
	if err := os.Mkdir(name, dirMode); err != nil {
		return err
	}
	return os.Chmod(name, dirMode)
}

func (osFS) Rename(oldname, newname string) error { return os.Rename(oldname, newname) }
func (osFS) Remove(name string) error             { return os.Remove(name) }

func (osFS) ReadDir(name string) ([]string, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	names, err := f.Readdirnames(-1)
	slices.Sort(names)
	return names, err
}

func (osFS) Stat(name string) (Info, error) {
	var st unix.Stat_t
	if err := eintr(func() error { return unix.Stat(name, &st) }); err != nil {
		return Info{}, &fs.PathError{Op: "stat", Path: name, Err: err}
	}
	return Info{Size: st.Size, IsDir: st.Mode&unix.S_IFMT == unix.S_IFDIR, Links: uint64(st.Nlink)}, nil
}

func (osFS) Usage(name string) (Usage, error) {
	var st unix.Statfs_t
	if err := eintr(func() error { return unix.Statfs(name, &st) }); err != nil {
		return Usage{}, &fs.PathError{Op: "statfs", Path: name, Err: err}
	}
	u := Usage{
		Mount:      mountpointOf(name),
		Type:       int64(st.Type),
		SizeBytes:  int64(st.Blocks) * st.Frsize,
		FreeBytes:  int64(st.Bavail) * st.Frsize,
		FreeInodes: int64(st.Ffree),
	}
	if st.Files == 0 {
		u.FreeInodes = -1
	}
	return u, nil
}

// mountpointOf walks up from name to the last directory on the same device.
func mountpointOf(name string) string {
	abs, err := filepath.Abs(name)
	if err != nil {
		return name
	}
	var st, up unix.Stat_t
	if unix.Stat(abs, &st) != nil {
		return name
	}
	for abs != "/" {
		parent := filepath.Dir(abs)
		if unix.Stat(parent, &up) != nil || up.Dev != st.Dev {
			break
		}
		abs = parent
	}
	return abs
}

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
	return f.call("fdatasync", func(fd int) error { return unix.Fdatasync(fd) })
}

func (f *osFile) WriteBehind(off, n int64) error {
	return f.call("sync_file_range", func(fd int) error {
		return unix.SyncFileRange(fd, off, n, unix.SYNC_FILE_RANGE_WRITE)
	})
}

// directAlign satisfies the alignment of O_DIRECT on every disk in use.
const directAlign = 4096

func (f *osFile) ReadUncachedAt(p []byte, off int64) (int, error) {
	d, err := f.openDirect()
	if err != nil {
		return f.readDroppedAt(p, off)
	}
	start := off &^ (directAlign - 1)
	end := (off + int64(len(p)) + directAlign - 1) &^ (directAlign - 1)
	buf := alignedBuffer(int(end - start))
	n, err := d.ReadAt(buf, start)
	if err != nil && !errors.Is(err, io.EOF) {
		if errors.Is(err, unix.EINVAL) { // opened, but not readable that way
			return f.readDroppedAt(p, off)
		}
		return 0, err
	}
	skip := int(off - start)
	if n <= skip {
		return 0, io.EOF
	}
	got := copy(p, buf[skip:n])
	if got < len(p) {
		return got, io.EOF
	}
	return got, nil
}

// readDroppedAt drops the clean pages of the range and reads it again.
func (f *osFile) readDroppedAt(p []byte, off int64) (int, error) {
	err := f.call("fadvise", func(fd int) error {
		return unix.Fadvise(fd, off, int64(len(p)), unix.FADV_DONTNEED)
	})
	if err != nil {
		return 0, err
	}
	return f.ReadAt(p, off)
}

func (f *osFile) openDirect() (*os.File, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.direct == nil {
		d, err := os.OpenFile(f.Name(), os.O_RDONLY|unix.O_DIRECT, 0)
		if err != nil {
			return nil, err
		}
		// The name may stand for another file by now.
		a, err1 := f.Stat()
		b, err2 := d.Stat()
		if err := errors.Join(err1, err2); err != nil || !os.SameFile(a, b) {
			d.Close()
			return nil, errors.Join(err, fs.ErrNotExist)
		}
		f.direct = d
	}
	return f.direct, nil
}

// call makes a system call on the file's descriptor and names it in the error.
func (f *osFile) call(op string, fn func(fd int) error) error {
	c, err := f.SyscallConn()
	if err != nil {
		return err
	}
	var callErr error
	err = c.Control(func(fd uintptr) { callErr = eintr(func() error { return fn(int(fd)) }) })
	if err == nil {
		err = callErr
	}
	if err != nil {
		return &fs.PathError{Op: op, Path: f.Name(), Err: err}
	}
	return nil
}

// eintr repeats a call that a signal interrupted.
func eintr(fn func() error) error {
	for {
		if err := fn(); !errors.Is(err, unix.EINTR) {
			return err
		}
	}
}

func alignedBuffer(n int) []byte {
	b := make([]byte, n+directAlign)
	skip := directAlign - int(uintptr(unsafe.Pointer(unsafe.SliceData(b)))&(directAlign-1))
	return b[skip%directAlign : skip%directAlign+n]
}
