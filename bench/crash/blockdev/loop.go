package blockdev

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// Loop is a loop device.
type Loop struct {
	Path string // /dev/loopN
	fd   int    // of it, open
}

// flags of LOOP_CONFIGURE, from linux/loop.h.
const (
	loopAutoclear = 4  // it goes with its last user
	loopDirectIO  = 16 // nothing is cached in it
)

// Attach puts a loop device on a file, past the page cache, so that a flush of
// the one is a sync of the other.
func Attach(file string) (*Loop, error) {
	fd, err := unix.Open(file, unix.O_RDWR|unix.O_CLOEXEC|unix.O_DIRECT, 0)
	if err != nil {
		return nil, fmt.Errorf("blockdev: open %s: %w", file, err)
	}
	defer unix.Close(fd)
	l, err := attach(fd, loopDirectIO)
	if err != nil {
		return nil, err
	}
	for name, want := range map[string]string{"loop/dio": "1", "queue/write_cache": "write back"} {
		if got := l.sys(name); got != want {
			l.Detach()
			return nil, fmt.Errorf("blockdev: %s has %s %q, not %q: flushes would not be seen", l.Path, name, got, want)
		}
	}
	return l, nil
}

// attachTries bounds how often another process may be quicker to take the
// device that was free.
const attachTries = 50

func attach(backing int, flags uint32) (*Loop, error) {
	control, err := unix.Open("/dev/loop-control", unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("blockdev: /dev/loop-control: %w", err)
	}
	defer unix.Close(control)
	for range attachTries {
		n, err := unix.IoctlRetInt(control, unix.LOOP_CTL_GET_FREE)
		if err != nil {
			return nil, fmt.Errorf("blockdev: no loop device is free: %w", err)
		}
		l := &Loop{Path: fmt.Sprintf("/dev/loop%d", n)}
		if l.fd, err = unix.Open(l.Path, unix.O_RDWR|unix.O_CLOEXEC, 0); err != nil {
			return nil, fmt.Errorf("blockdev: open %s: %w", l.Path, err)
		}
		err = unix.IoctlLoopConfigure(l.fd, &unix.LoopConfig{
			Fd: uint32(backing), Info: unix.LoopInfo64{Flags: loopAutoclear | flags},
		})
		if err == nil {
			return l, nil
		}
		unix.Close(l.fd)
		if !errors.Is(err, unix.EBUSY) {
			return nil, fmt.Errorf("blockdev: configure %s: %w", l.Path, err)
		}
	}
	return nil, errors.New("blockdev: each loop device that was free is another's")
}

// sys is an attribute of the device in /sys.
func (l *Loop) sys(name string) string {
	b, err := os.ReadFile("/sys/block/" + strings.TrimPrefix(l.Path, "/dev/") + "/" + name)
	if err != nil {
		return err.Error()
	}
	return strings.TrimSpace(string(b))
}

// Detach takes the device away; while it is mounted, as soon as it is not.
func (l *Loop) Detach() error {
	err := unix.IoctlSetInt(l.fd, unix.LOOP_CLR_FD, 0)
	if err = errors.Join(err, unix.Close(l.fd)); err != nil {
		return fmt.Errorf("blockdev: detach %s: %w", l.Path, err)
	}
	return nil
}

// Mount mounts the file system on the device at dir.
func (l *Loop) Mount(dir, fsType string) error {
	if err := unix.Mount(l.Path, dir, fsType, unix.MS_NOATIME, ""); err != nil {
		return fmt.Errorf("blockdev: mount %s: %w", l.Path, err)
	}
	return nil
}

// Unmount undoes Mount. A child that some thread is just starting holds, until
// it is another program, all that was open in its parent: so a device that is
// busy is asked again for a while. Where somebody uses it all the same, it goes
// when they end, and the caller is told.
func Unmount(dir string) error {
	end := time.NewTimer(busyMax)
	defer end.Stop()
	again := time.NewTicker(time.Millisecond)
	defer again.Stop()
	for {
		err := unix.Unmount(dir, 0)
		if err == nil {
			return nil
		}
		if errors.Is(err, unix.EBUSY) {
			select {
			case <-again.C:
				continue
			case <-end.C:
			}
		}
		return errors.Join(fmt.Errorf("blockdev: unmount %s: %w", dir, err), unix.Unmount(dir, unix.MNT_DETACH))
	}
}

// busyMax is how long a device may be busy when nobody should use it any more.
const busyMax = 3 * time.Second
