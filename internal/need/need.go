// Package need says what a test needs of the machine it runs on.
//
// A test that cannot run is skipped, with a word on what is missing. Where CI
// is set it fails instead: there everything must be, and what was not tested
// must not look tested.
package need

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// Missing ends the test: what says what is missing and how to get it.
func Missing(t testing.TB, what string) {
	t.Helper()
	if os.Getenv("CI") != "" {
		t.Fatal("missing: ", what)
	}
	t.Skip("missing: ", what)
}

// Program needs a program, which this Debian package has.
func Program(t testing.TB, name, debianPackage string) {
	t.Helper()
	if _, err := exec.LookPath(name); err != nil {
		Missing(t, name+" (apt-get install "+debianPackage+")")
	}
}

// Root needs root, to do what.
func Root(t testing.TB, what string) {
	t.Helper()
	if os.Geteuid() != 0 {
		Missing(t, "root, to "+what)
	}
}

// FUSE needs to be able to mount.
func FUSE(t testing.TB) {
	t.Helper()
	f, err := os.OpenFile("/dev/fuse", os.O_RDWR, 0)
	if err != nil {
		Missing(t, "/dev/fuse: "+err.Error())
	}
	f.Close()
	if os.Geteuid() != 0 {
		Program(t, "fusermount3", "fuse3")
	}
}

// Loop needs to be able to make and mount a small ext4 file system.
func Loop(t testing.TB) {
	t.Helper()
	Root(t, "mount a loop device")
	Program(t, "mkfs.ext4", "e2fsprogs")
	Program(t, "losetup", "util-linux")
	if _, err := os.Stat("/dev/loop-control"); err != nil {
		Missing(t, "loop devices: "+err.Error())
	}
}

// Ext4 mounts a new ext4 file system of n bytes, for as long as the test runs.
// Everybody may reach it, and write to it.
func Ext4(t testing.TB, n int64) (mnt string) {
	t.Helper()
	Loop(t)
	dir := t.TempDir()
	image := filepath.Join(dir, "image")
	mnt = filepath.Join(dir, "mnt")
	err := errors.Join(os.WriteFile(image, nil, 0o600), os.Truncate(image, n), os.Mkdir(mnt, 0o700),
		os.Chmod(filepath.Dir(dir), 0o755), os.Chmod(dir, 0o755))
	if err != nil {
		t.Fatal(err)
	}
	run := func(name string, args ...string) {
		t.Helper()
		if out, err := exec.Command(name, args...).CombinedOutput(); err != nil {
			t.Fatalf("%s %s: %v: %s", name, strings.Join(args, " "), err, out)
		}
	}
	run("mkfs.ext4", "-q", "-m", "0", "-E", "lazy_itable_init=0,lazy_journal_init=0", image)
	run("mount", "-o", "loop", image, mnt) // the loop device goes with the mount
	t.Cleanup(func() { run("umount", mnt) })
	if err := os.Chmod(mnt, 0o777); err != nil {
		t.Fatal(err)
	}
	return mnt
}
