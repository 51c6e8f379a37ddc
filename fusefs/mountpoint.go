package fusefs

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// prepare makes sure that o.Dir can be mounted on, and resolves it.
func prepare(o Options) (string, error) {
	dir, err := resolve(o.Dir)
	if err != nil {
		return "", fmt.Errorf("mountpoint: %w", err)
	}
	if err := clearStale(dir, o.Log); err != nil {
		return "", err
	}
	info, err := os.Lstat(dir)
	switch {
	case errors.Is(err, os.ErrNotExist):
		return "", fmt.Errorf("mountpoint %s does not exist; make the directory first", dir)
	case err != nil:
		return "", fmt.Errorf("mountpoint: %w", err)
	case !info.IsDir():
		return "", fmt.Errorf("mountpoint %s is not a directory", dir)
	}
	if err := refuseOverlap(dir, o.Store); err != nil {
		return "", err
	}
	return dir, refuseFull(dir)
}

// resolve follows the links of a path, but does not ask its last element
// anything: that may be a dead mount.
func resolve(path string) (string, error) {
	const linksMax = 40
	path, err := filepath.Abs(path)
	if err != nil {
		return "", err
	}
	for range linksMax {
		parent, err := filepath.EvalSymlinks(filepath.Dir(path))
		if err != nil {
			return "", err
		}
		path = filepath.Join(parent, filepath.Base(path))
		target, err := os.Readlink(path)
		if err != nil {
			return path, nil // not a link
		}
		if !filepath.IsAbs(target) {
			target = filepath.Join(parent, target)
		}
		path = filepath.Clean(target)
	}
	return "", &os.PathError{Op: "resolve", Path: path, Err: syscall.ELOOP}
}

// clearStale refuses a mountpoint that somebody serves, and takes away mounts
// of ours whose server is gone, as many as lie on each other.
func clearStale(dir string, log *slog.Logger) error {
	const stackMax = 16
	for range stackMax {
		m, ok := findMount(dir)
		if !ok || !strings.HasPrefix(m.fsType, "fuse") {
			return nil
		}
		switch err := probe(dir); {
		case err == nil:
			return fmt.Errorf("mountpoint %s is in use: %s (%s) is mounted there and served", dir, m.source, m.fsType)
		case !errors.Is(err, syscall.ENOTCONN) && !errors.Is(err, syscall.ECONNABORTED):
			return fmt.Errorf("mountpoint %s is in use: %s (%s) is mounted there: %w", dir, m.source, m.fsType, err)
		case m.fsType != fsType:
			return fmt.Errorf("mountpoint %s has a dead mount of something else, %s (%s); take it away first: umount -l %[1]s", dir, m.source, m.fsType)
		}
		log.Warn("mount: the mount of a daemon that is gone was in place; it is taken away", "dir", dir, "source", m.source)
		if err := detach(dir); err != nil {
			return fmt.Errorf("mountpoint %s has the dead mount %s, which cannot be taken away: %w", dir, m.source, err)
		}
	}
	return fmt.Errorf("mountpoint %s has too many dead mounts on each other", dir)
}

// probe asks who serves a mount whether he is there. Only statfs will do:
// attributes of a dead mount can be answered from memory. A server that hangs
// keeps the goroutine until it answers or is aborted.
func probe(dir string) error {
	answer := make(chan error, 1)
	go func() {
		var st unix.Statfs_t
		answer <- unix.Statfs(dir, &st)
	}()
	select {
	case err := <-answer:
		return err
	case <-time.After(mountTimeout):
		return fmt.Errorf("its server does not answer after %v", mountTimeout)
	}
}

// detach takes a mount out of the tree, whoever holds files of it open.
func detach(dir string) error {
	helper, err := findHelper(os.Geteuid(), exec.LookPath)
	if err != nil {
		return err
	}
	return umount(helper, dir, unix.MNT_DETACH)
}

// umount unmounts, with the helper where there is one.
func umount(helper, dir string, flags int) error {
	if helper == "" {
		return os.NewSyscallError("umount", unix.Unmount(dir, flags|unix.UMOUNT_NOFOLLOW))
	}
	how := "-u"
	if flags&unix.MNT_DETACH != 0 {
		how = "-uz"
	}
	if out, err := exec.Command(helper, how, "--", dir).CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %s", err, strings.TrimSpace(string(out)))
	}
	return nil
}

// refuseOverlap refuses a mountpoint that is the store, lies in it or holds
// it: the daemon would wait for itself at its own files, or hide them.
func refuseOverlap(dir, store string) error {
	store, err := filepath.Abs(store)
	if err == nil {
		store, err = filepath.EvalSymlinks(store)
	}
	if err != nil {
		return fmt.Errorf("mountpoint: the store: %w", err)
	}
	// By name through binds, and by identity along the parents.
	all := mounts()
	dirDev, dirIn := place(all, dir)
	storeDev, storeIn := place(all, store)
	sameDev := dirDev == storeDev
	inStore, err := hasParent(dir, store)
	if err != nil {
		return err
	}
	holdsStore, err := hasParent(store, dir)
	if err != nil {
		return err
	}
	switch {
	case inStore && holdsStore:
		return fmt.Errorf("mountpoint %s is the store itself; choose a directory outside of it", dir)
	case inStore, sameDev && isIn(dirIn, storeIn):
		return fmt.Errorf("mountpoint %s lies in the store %s; choose a directory outside of it", dir, store)
	case holdsStore, sameDev && isIn(storeIn, dirIn):
		return fmt.Errorf("mountpoint %s holds the store %s, which the mount would hide; choose another directory", dir, store)
	}
	return nil
}

// hasParent tells whether path is the directory dir or lies in it, comparing
// directories by device and inode.
func hasParent(path, dir string) (bool, error) {
	want, err := os.Stat(dir)
	if err != nil {
		return false, err
	}
	for {
		got, err := os.Stat(path)
		if err != nil {
			return false, err
		}
		if os.SameFile(got, want) {
			return true, nil
		}
		up := filepath.Dir(path)
		if up == path {
			return false, nil
		}
		path = up
	}
}

// refuseFull refuses a directory that holds something: a mount would hide it.
func refuseFull(dir string) error {
	f, err := os.Open(dir)
	if err != nil {
		return fmt.Errorf("mountpoint: %w", err)
	}
	defer f.Close()
	switch names, err := f.Readdirnames(1); {
	case err == io.EOF:
		return nil
	case err != nil:
		return fmt.Errorf("mountpoint: %w", err)
	default:
		return fmt.Errorf("mountpoint %s is not empty (it holds %q), and a mount would hide that; choose an empty directory", dir, names[0])
	}
}
