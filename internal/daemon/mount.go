package daemon

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"syscall"

	"durafs/fusefs"
	"durafs/internal/durable"
	"durafs/internal/vfs"
	"durafs/view"
)

// openMount mounts the runs. The mountpoint is made where it is missing; what
// a former daemon left mounted there is taken away.
func (l *life) openMount(context.Context) error {
	d := l.d
	if d.config.Mount == "" {
		return nil
	}
	if !isMountPoint(d.config.Mount) {
		if err := durable.EnsureDir(vfs.OS, d.config.Mount); err != nil {
			return fmt.Errorf("cannot make the mountpoint: %w", err)
		}
	}
	m, err := fusefs.Mount(fusefs.Options{
		Dir:   d.config.Mount,
		Store: d.config.Store,
		View:  view.New(l.store.Runs(), l.statusText),
		Space: d.space,
		Log:   d.log,
		Clock: d.clock,
	})
	if err != nil {
		return err
	}
	l.mount = m
	dir := m.Dir()
	if d.config.Mount != dir { // the first time: later others read it
		d.config.Mount = dir
	}
	d.mountDir.Store(&dir)
	l.undo = append(l.undo, l.unmount)
	return nil
}

// mountDone is closed when the mount has ended; nil where there is none.
func (l *life) mountDone() <-chan struct{} {
	if l.mount == nil {
		return nil
	}
	return l.mount.Done()
}

// isMountPoint reports whether asking a directory anything could be asking a
// daemon that is not there any more.
func isMountPoint(dir string) bool {
	var st syscall.Stat_t
	return isDeadMount(syscall.Lstat(dir, &st))
}

func isDeadMount(err error) bool {
	return errors.Is(err, syscall.ENOTCONN) || errors.Is(err, syscall.ECONNABORTED)
}

// unmount ends the mount. Readers that do not let go in time are cut off when
// the process ends; they have been served for as long as was promised.
func (l *life) unmount() error {
	ctx, cancel := context.WithTimeout(context.Background(), stopTimeout)
	defer cancel()
	err := l.mount.Unmount(ctx)
	if errors.Is(err, fusefs.ErrInUse) {
		l.d.log.Warn("files of the mount are still open; their readers are cut off", "mount", l.d.config.Mount)
		return nil
	}
	return err
}

// statusText is the file status in the mount.
func (l *life) statusText() []byte {
	var b bytes.Buffer
	s := l.status()
	s.WriteText(&b)
	return b.Bytes()
}

// space tells how full the store's file system is, for df.
func (d *Daemon) space() (fusefs.Space, error) {
	u, err := vfs.OS.Usage(d.config.Store)
	return fusefs.Space{SizeBytes: u.SizeBytes, FreeBytes: u.FreeBytes, Inodes: -1, FreeInodes: u.FreeInodes}, err
}
