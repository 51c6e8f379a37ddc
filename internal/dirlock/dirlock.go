// Package dirlock lets one process at a time use a store.
//
// The lock is flock(2) on a file that stays: it is given back by the kernel
// when the process ends, however it ends, so no lock is ever stale and none is
// ever broken. The file's text (the holder's pid and the machine's boot id) is
// for the message of a second process only and decides nothing.
package dirlock

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

// textBytesMax bounds what is read of the holder's text.
const textBytesMax = 256

// Lock is a lock that is held.
type Lock struct{ f *os.File }

// HeldError says that another holds the lock. PID is 0 where the holder could
// not be read; BootID tells whether the pid is one of this boot.
type HeldError struct {
	Path   string
	PID    int
	BootID string
}

func (e *HeldError) Error() string {
	if e.PID == 0 {
		return e.Path + " is held by another process"
	}
	if boot := BootID(); e.BootID != "" && boot != "" && e.BootID != boot {
		// Over a shared file system, or from inside a virtual machine.
		return fmt.Sprintf("%s is held by process %d of another machine", e.Path, e.PID)
	}
	return fmt.Sprintf("%s is held by process %d", e.Path, e.PID)
}

// Acquire takes the lock, or returns *HeldError at once if another holds it,
// be it in this process. The file is made where it is missing, with mode 0600.
func Acquire(path string) (*Lock, error) {
	for {
		f, err := open(path)
		if err != nil {
			return nil, err
		}
		if err := flock(f); err != nil {
			held := heldBy(f, path)
			f.Close()
			if errors.Is(err, unix.EWOULDBLOCK) {
				return nil, held
			}
			return nil, &os.PathError{Op: "flock", Path: path, Err: err}
		}
		if !isNamed(f, path) { // replaced since: this lock keeps nobody out
			f.Close()
			continue
		}
		if err := describe(f); err != nil {
			f.Close()
			return nil, err
		}
		return &Lock{f}, nil
	}
}

// Close gives the lock back. The file stays: removing it would let two
// processes lock two files of one name.
func (l *Lock) Close() error {
	l.f.Truncate(0) // only a courtesy to readers
	return l.f.Close()
}

func open(path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0o600)
	if err != nil {
		return nil, err
	}
	st, err := f.Stat()
	if err == nil && !st.Mode().IsRegular() {
		err = &os.PathError{Op: "open", Path: path, Err: errors.New("not a regular file")}
	}
	if err == nil && st.Mode().Perm() != 0o600 { // the umask took bits away
		err = f.Chmod(0o600)
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

func flock(f *os.File) error {
	c, err := f.SyscallConn()
	if err != nil {
		return err
	}
	var lockErr error
	if err := c.Control(func(fd uintptr) { lockErr = unix.Flock(int(fd), unix.LOCK_EX|unix.LOCK_NB) }); err != nil {
		return err
	}
	return lockErr
}

func isNamed(f *os.File, path string) bool {
	mine, err1 := f.Stat()
	named, err2 := os.Lstat(path)
	return err1 == nil && err2 == nil && os.SameFile(mine, named)
}

// describe writes who holds the lock. Nothing depends on it, so it is not
// synced, and a full disk does not keep a store from being opened.
func describe(f *os.File) error {
	if err := f.Truncate(0); err != nil {
		return err
	}
	_, err := f.WriteAt(fmt.Appendf(nil, "%d %s\n", os.Getpid(), BootID()), 0)
	if errors.Is(err, unix.ENOSPC) || errors.Is(err, unix.EDQUOT) {
		return nil
	}
	return err
}

func heldBy(f *os.File, path string) *HeldError {
	held := &HeldError{Path: path}
	text := make([]byte, textBytesMax)
	n, err := f.ReadAt(text, 0)
	if err != nil && err != io.EOF {
		return held
	}
	// It may be read before the holder wrote it, or half.
	line, whole := strings.CutSuffix(string(text[:n]), "\n")
	if !whole {
		return held
	}
	if _, err := fmt.Sscanf(line, "%d %s", &held.PID, &held.BootID); err != nil || held.PID < 0 {
		return &HeldError{Path: path}
	}
	return held
}

// BootID is the kernel's random id of this boot, "" where it cannot be read.
func BootID() string {
	text, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(text))
}
