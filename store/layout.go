package store

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"syscall"

	"durafs/internal/clock"
	"durafs/internal/durable"
	"durafs/internal/vfs"
)

// The names in a store's directory.
const (
	dirMode     = 0o700
	configName  = "store.json"
	makingName  = "store.json.making" // store.json, until the store is made
	lockName    = "LOCK"
	walName     = "wal"
	casName     = "cas"
	tmpName     = "tmp"  // never trusted, emptied at open
	lostName    = "lost" // what recovery would not trust or delete
	ControlName = "control.sock"
	AgentName   = "agent.sock"
)

var directories = []string{walName, casName, tmpName, lostName}

// ours are the names that an interrupted creation can have left.
var ours = append([]string{lockName, makingName, makingName + durable.TmpSuffix, ControlName, AgentName}, directories...)

// makeRoot makes the directory of a store to come and those above it where
// they are missing. A directory that exists stays as it is, but its name is
// made durable: an earlier process may have made it and been killed before its
// sync, and the whole store would go with the name.
func makeRoot(fsys vfs.FS, dir string) error {
	if info, err := fsys.Stat(dir); err == nil {
		if !info.IsDir {
			return &fs.PathError{Op: "open", Path: dir, Err: errors.New("it is a file, not a directory")}
		}
		return syncName(fsys, dir)
	} else if !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if parent := filepath.Dir(dir); parent != dir {
		if err := makeRoot(fsys, parent); err != nil {
			return err
		}
	}
	return durable.EnsureDir(fsys, dir)
}

// syncName makes the name of a directory durable. Where this process may not
// look into the directory above, or nothing can be written there, it was not
// us who made the name.
func syncName(fsys vfs.FS, dir string) error {
	above, err := fsys.OpenDir(filepath.Dir(dir))
	if err == nil {
		defer above.Close()
		err = above.Sync()
	}
	if errors.Is(err, fs.ErrPermission) || errors.Is(err, errors.ErrUnsupported) || errors.Is(err, syscall.EROFS) || errors.Is(err, syscall.EINVAL) {
		return nil
	}
	return err
}

// checkRoot tells whether dir is a store, or may become one. What is neither
// is a *ForeignError, before anything in it was touched.
func checkRoot(fsys vfs.FS, dir string) (exists bool, err error) {
	names, err := fsys.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	if slices.Contains(names, configName) {
		return true, nil
	}
	making := slices.Contains(names, makingName)
	for _, name := range names {
		if !slices.Contains(ours, name) {
			return false, &ForeignError{Dir: dir, Name: name}
		}
		if making || name != walName && name != casName {
			continue
		}
		inside, err := fsys.ReadDir(filepath.Join(dir, name))
		if err != nil {
			return false, err
		}
		if len(inside) > 0 {
			return false, &ConfigError{Path: filepath.Join(dir, configName), Reason: "it is missing, but " + name + "/ holds files"}
		}
	}
	return false, nil
}

// beginCreation makes what a store needs before its log can be made, and
// decides who the store is. It can be interrupted anywhere and begun again:
//
//	mkdir wal, cas, tmp, lost   each with a sync of dir
//	store.json.making           who the store is, for whoever goes on after a crash
//
// The log is made next, and endCreation comes last. So a store whose log is
// gone is never taken for a new one.
func beginCreation(fsys vfs.FS, dir string, ck clock.Clock) (config, error) {
	if fsys == vfs.OS {
		// The user's own mkdir left it readable for others.
		if err := os.Chmod(dir, dirMode); err != nil {
			return config{}, err
		}
	}
	if err := ensureDirectories(fsys, dir); err != nil {
		return config{}, err
	}
	c, err := readConfig(fsys, dir, makingName)
	if !errors.Is(err, fs.ErrNotExist) {
		return c, err // an earlier process began
	}
	if c, err = newConfig(ck.Now()); err != nil {
		return config{}, err
	}
	b, err := c.encode()
	if err != nil {
		return config{}, err
	}
	return c, durable.WriteFile(fsys, filepath.Join(dir, makingName), b)
}

// endCreation gives store.json its name: from here on the store exists.
func endCreation(fsys vfs.FS, dir string) error {
	return durable.Rename(fsys, filepath.Join(dir, makingName), filepath.Join(dir, configName))
}

func ensureDirectories(fsys vfs.FS, dir string) error {
	for _, name := range directories {
		if err := durable.EnsureDir(fsys, filepath.Join(dir, name)); err != nil {
			return err
		}
	}
	return nil
}

// readConfig reads store.json, or what will become it.
func readConfig(fsys vfs.FS, dir, name string) (config, error) {
	path := filepath.Join(dir, name)
	b, err := durable.ReadFile(fsys, path, configBytesMax)
	if errors.Is(err, durable.ErrTooLarge) {
		return config{}, &ConfigError{Path: path, Reason: err.Error()}
	}
	if errors.Is(err, syscall.EIO) {
		return config{}, &ConfigError{Path: path, Reason: "it cannot be read", Err: err}
	}
	if err != nil {
		return config{}, err
	}
	return decodeConfig(path, b)
}

// emptyTmp removes what a former boot left half-made. Nothing depends on it
// being gone, so nothing is synced.
func emptyTmp(fsys vfs.FS, dir string) error {
	tmp := filepath.Join(dir, tmpName)
	names, err := fsys.ReadDir(tmp)
	for _, name := range names {
		err = errors.Join(err, fsys.Remove(filepath.Join(tmp, name)))
	}
	return err
}
