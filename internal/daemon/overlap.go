package daemon

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// OverlapError says that store and mountpoint lie inside one another. The
// daemon would wait for itself whenever it touched its store through its own
// mount.
type OverlapError struct{ Store, Mount, How string }

func (e *OverlapError) Error() string {
	return fmt.Sprintf("the mountpoint %s %s the store %s: choose two directories of which neither holds the other", e.Mount, e.How, e.Store)
}

// checkOverlap compares the two by what they are, links resolved, as far as
// they exist.
func checkOverlap(store, mount string) error {
	s, err := realPath(store)
	if err != nil {
		return err
	}
	m, err := realPath(mount)
	if err != nil {
		return err
	}
	switch {
	case s == m:
		return &OverlapError{store, mount, "is"}
	case strings.HasPrefix(m, s+"/"):
		return &OverlapError{store, mount, "lies inside"}
	case strings.HasPrefix(s, m+"/"), m == "/":
		return &OverlapError{store, mount, "holds"}
	}
	return nil
}

// realPath resolves the links in a path whose end need not exist. A directory
// that does not answer, such as the mount of a daemon that has died, is taken
// for itself.
func realPath(path string) (string, error) {
	real, err := filepath.EvalSymlinks(path)
	if err == nil {
		return real, nil
	}
	if path == "/" {
		return path, nil
	}
	if !errors.Is(err, fs.ErrNotExist) && !isDeadMount(err) {
		return "", err
	}
	if fi, err := os.Lstat(path); err == nil && fi.Mode()&fs.ModeSymlink != 0 {
		return "", fmt.Errorf("%s is a link to nowhere", path)
	}
	dir, err := realPath(filepath.Dir(path))
	if err != nil {
		return "", err
	}
	return filepath.Join(dir, filepath.Base(path)), nil
}
