package daemon

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
)

// noGroup is the group of sockets that have none.
const noGroup = -1

// socketDirMode lets the group pass through to the sockets, and list nothing.
const socketDirMode fs.FileMode = 0o710

// SocketGroupError says why the sockets cannot be shared with a group, and what
// to do.
type SocketGroupError struct{ Group, Reason, Do string }

func (e *SocketGroupError) Error() string {
	return fmt.Sprintf("the sockets cannot be shared with group %s: %s; %s", e.Group, e.Reason, e.Do)
}

// resolveGroup finds the group that the sockets are shared with, and checks
// where they are to stand.
//
// The store is nobody else's to pass through, so the sockets stand elsewhere.
// Their directory must be ours, or whoever else owns it could put a socket of
// his own in the place of ours; and it must let nobody pass but the group, so
// that a mistake with the socket's own mode opens it to nobody.
func (d *Daemon) resolveGroup() error {
	d.group = noGroup
	name := d.config.SocketGroup
	if name == "" {
		return nil
	}
	gid, err := groupID(name)
	if err != nil {
		return err
	}
	dir := filepath.Dir(d.config.Socket)
	refuse := func(reason string) error {
		return &SocketGroupError{name, reason, fmt.Sprintf("make it with: mkdir -m 0700 %[1]s && chgrp %[2]s %[1]s && chmod 0710 %[1]s", dir, name)}
	}
	inside, err := within(d.config.Store, dir)
	switch {
	case err != nil:
		return err
	case inside:
		return &SocketGroupError{name, "they stand in the store, which nobody else may look into", "give --socket a path outside of it, in a directory of mode 0710 of that group"}
	}
	fi, err := os.Lstat(dir)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return refuse(dir + " is missing")
	case err != nil:
		return err
	case !fi.IsDir():
		return refuse(dir + " is no directory")
	}
	st := fi.Sys().(*syscall.Stat_t)
	switch {
	case int(st.Uid) != os.Geteuid():
		return refuse(fmt.Sprintf("%s belongs to uid %d, and not to us", dir, st.Uid))
	case int(st.Gid) != gid:
		return refuse(fmt.Sprintf("%s is of group %d", dir, st.Gid))
	case fi.Mode().Perm() != socketDirMode:
		return refuse(fmt.Sprintf("%s has mode %04o, and not %04o", dir, fi.Mode().Perm(), socketDirMode))
	}
	d.group = gid
	return nil
}

func groupID(name string) (int, error) {
	g, err := user.LookupGroup(name)
	if err == nil {
		return strconv.Atoi(g.Gid)
	}
	if gid, numErr := strconv.ParseUint(name, 10, 31); numErr == nil {
		return int(gid), nil
	}
	return 0, &SocketGroupError{name, err.Error(), "name a group that there is (getent group), or give its number"}
}

// within reports whether path is dir, or below it; links are resolved as far as
// both exist.
func within(dir, path string) (bool, error) {
	d, err := realPath(dir)
	if err != nil {
		return false, err
	}
	p, err := realPath(path)
	return p == d || strings.HasPrefix(p, strings.TrimSuffix(d, "/")+"/"), err
}
