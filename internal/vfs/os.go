package vfs

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

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
		os.Remove(name)
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
	if err := os.Chmod(name, dirMode); err != nil {
		os.Remove(name)
		return err
	}
	return nil
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
	if err != nil {
		return nil, err
	}
	slices.Sort(names)
	return names, nil
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

// mountpointOf walks up from name to the last directory on the same mount.
func mountpointOf(name string) string {
	abs, err := filepath.Abs(name)
	if err != nil {
		return name
	}
	if abs, err = filepath.EvalSymlinks(abs); err != nil {
		return name
	}
	own, err := mountOf(abs)
	if err != nil {
		return name
	}
	for abs != "/" {
		parent := filepath.Dir(abs)
		if up, err := mountOf(parent); err != nil || up != own {
			break
		}
		abs = parent
	}
	return abs
}

// mount tells two mounts apart. The kernel's number of the mount does that
// exactly; the device number, all there is before Linux 5.8, takes a bind
// mount for its origin and on overlayfs a file for a mount of its own.
type mount struct {
	id           uint64
	major, minor uint32
}

func mountOf(name string) (mount, error) {
	var st unix.Statx_t
	err := eintr(func() error { return unix.Statx(unix.AT_FDCWD, name, 0, unix.STATX_MNT_ID, &st) })
	if err != nil {
		return mount{}, err
	}
	if st.Mask&unix.STATX_MNT_ID != 0 {
		return mount{id: st.Mnt_id}, nil
	}
	return mount{major: st.Dev_major, minor: st.Dev_minor}, nil
}

// eintr repeats a call that a signal interrupted.
func eintr(fn func() error) error {
	for {
		if err := fn(); !errors.Is(err, unix.EINTR) {
			return err
		}
	}
}
