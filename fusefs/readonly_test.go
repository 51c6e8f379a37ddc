package fusefs_test

import (
	"os"
	"strings"
	"syscall"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"
)

// mutations are the system calls that would change something. Each is made on
// names that exist and ones that do not, as it takes.
func mutations(dir, file, out string) map[string]func() error {
	fresh, other := dir+"/fresh", dir+"/record"
	if file == other {
		other = dir + "/log"
	}
	open := func(name string, flags int) func() error {
		return func() error {
			fd, err := unix.Open(name, flags, 0o600)
			if err == nil {
				unix.Close(fd)
			}
			return err
		}
	}
	// What takes an open file gets one for reading: a writing one cannot be.
	onFile := func(call func(fd int) error) func() error {
		return func() error {
			fd, err := unix.Open(file, unix.O_RDONLY, 0)
			if err != nil {
				return err
			}
			defer unix.Close(fd)
			return call(fd)
		}
	}
	times := []unix.Timespec{{Sec: 1}, {Sec: 1}}
	return map[string]func() error{
		"open O_WRONLY":             open(file, unix.O_WRONLY),
		"open O_RDWR":               open(file, unix.O_RDWR),
		"open O_RDONLY|O_TRUNC":     open(file, unix.O_RDONLY|unix.O_TRUNC),
		"open O_WRONLY|O_APPEND":    open(file, unix.O_WRONLY|unix.O_APPEND),
		"open O_CREAT":              open(fresh, unix.O_RDONLY|unix.O_CREAT),
		"open O_CREAT|O_EXCL":       open(fresh, unix.O_RDWR|unix.O_CREAT|unix.O_EXCL),
		"open O_CREAT of a payload": open(dir+"/payload", unix.O_RDWR|unix.O_CREAT),
		"open O_TMPFILE":            open(dir, unix.O_TMPFILE|unix.O_RDWR),
		"mkdir":                     func() error { return unix.Mkdir(fresh, 0o700) },
		"mknod file":                func() error { return unix.Mknod(fresh, unix.S_IFREG|0o600, 0) },
		"mknod fifo":                func() error { return unix.Mknod(fresh, unix.S_IFIFO|0o600, 0) },
		"mknod socket":              func() error { return unix.Mknod(fresh, unix.S_IFSOCK|0o600, 0) },
		"unlink":                    func() error { return unix.Unlink(file) },
		"rmdir":                     func() error { return unix.Rmdir(dir + "/payloads") },
		"rename":                    func() error { return unix.Rename(file, fresh) },
		"rename over":               func() error { return unix.Rename(file, other) },
		"renameat2 exchange": func() error {
			return unix.Renameat2(unix.AT_FDCWD, file, unix.AT_FDCWD, other, unix.RENAME_EXCHANGE)
		},
		"renameat2 noreplace": func() error {
			return unix.Renameat2(unix.AT_FDCWD, file, unix.AT_FDCWD, fresh, unix.RENAME_NOREPLACE)
		},
		"link":          func() error { return unix.Link(file, fresh) },
		"symlink":       func() error { return unix.Symlink("x", fresh) },
		"truncate":      func() error { return unix.Truncate(file, 0) },
		"truncate up":   func() error { return unix.Truncate(file, 1<<20) },
		"chmod":         func() error { return unix.Chmod(file, 0o777) },
		"chmod dir":     func() error { return unix.Chmod(dir, 0o777) },
		"fchmod":        onFile(func(fd int) error { return unix.Fchmod(fd, 0o777) }),
		"chown":         func() error { return unix.Chown(file, 1, 1) },
		"lchown":        func() error { return unix.Lchown(file, 1, 1) },
		"fchown":        onFile(func(fd int) error { return unix.Fchown(fd, 1, 1) }),
		"utimensat":     func() error { return unix.UtimesNanoAt(unix.AT_FDCWD, file, times, 0) },
		"utimensat now": func() error { return unix.UtimesNanoAt(unix.AT_FDCWD, file, nil, 0) },
		"utimensat dir": func() error { return unix.UtimesNanoAt(unix.AT_FDCWD, dir, times, 0) },
		"futimens":      onFile(func(fd int) error { return unix.Futimes(fd, []unix.Timeval{{Sec: 1}, {Sec: 1}}) }),
		"setxattr":      func() error { return unix.Setxattr(file, "user.x", []byte("y"), 0) },
		"setxattr dir":  func() error { return unix.Setxattr(dir, "user.x", []byte("y"), 0) },
		"setxattr acl":  func() error { return unix.Setxattr(file, "security.x", []byte("y"), 0) },
		"fsetxattr":     onFile(func(fd int) error { return unix.Fsetxattr(fd, "user.x", []byte("y"), 0) }),
		"removexattr":   func() error { return unix.Removexattr(file, "user.x") },
		"fremovexattr":  onFile(func(fd int) error { return unix.Fremovexattr(fd, "user.x") }),
		"chattr": onFile(func(fd int) error {
			flags := 0
			_, _, e := unix.Syscall(unix.SYS_IOCTL, uintptr(fd), 0x40086602, uintptr(unsafe.Pointer(&flags)))
			if e != 0 {
				return e
			}
			return nil
		}),
		"fallocate": func() error {
			fd, err := unix.Open(file, unix.O_RDWR, 0)
			if err != nil {
				return err
			}
			defer unix.Close(fd)
			return unix.Fallocate(fd, 0, 0, 1<<20)
		},
		"copy_file_range into": func() error {
			in, err := unix.Open(out, unix.O_RDONLY, 0)
			if err != nil {
				return err
			}
			defer unix.Close(in)
			fd, err := unix.Open(file, unix.O_WRONLY, 0)
			if err != nil {
				return err
			}
			defer unix.Close(fd)
			_, err = unix.CopyFileRange(in, nil, fd, nil, 10, 0)
			return err
		},
		"bind a socket": func() error {
			fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM, 0)
			if err != nil {
				return err
			}
			defer unix.Close(fd)
			return unix.Bind(fd, &unix.SockaddrUnix{Name: "/proc/self/cwd/fresh"})
		},
	}
}

func TestEveryMutationIsRefused(t *testing.T) {
	_, v := sample()
	mnt, _ := mount(t, v)
	outside := t.TempDir() + "/outside"
	if err := os.WriteFile(outside, []byte("0123456789"), 0o600); err != nil {
		t.Fatal(err)
	}
	before := run(t, "sh", "-c", "cd "+mnt+" && ls -lRi . && find . -type f -exec cat {} +")
	check := func(t *testing.T, chattr syscall.Errno) {
		t.Chdir(mnt)
		for _, n := range []int{1, 2} {
			dir := runDir(mnt, n)
			for _, file := range []string{dir + "/log", dir + "/record", dir + "/payloads/" + map[int]string{1: "plan.txt", 2: "big"}[n]} {
				for name, call := range mutations(dir, file, outside) {
					want := syscall.EROFS
					if name == "chattr" {
						want = chattr
					}
					if err := call(); err != want {
						t.Errorf("%s on %s of run %d: %v, want %v", name, file[len(dir):], n, err, want)
					}
				}
			}
		}
	}
	t.Run("as mounted", func(t *testing.T) { check(t, syscall.EROFS) })
	if err := unix.Mount("", mnt, "", unix.MS_REMOUNT|unix.MS_NOSUID|unix.MS_NODEV, ""); err != nil {
		t.Fatal(err)
	}
	if opts := mountOptions(t, mnt); !strings.HasPrefix(opts, "rw") {
		t.Fatalf("remounted rw, but it is %s", opts)
	}
	// There are no such flags to be set, says the kernel before it would ask.
	t.Run("after remount,rw", func(t *testing.T) { check(t, syscall.ENOTTY) })
	if after := run(t, "sh", "-c", "cd "+mnt+" && ls -lRi . && find . -type f -exec cat {} +"); after != before {
		t.Error("something changed")
	}
}

func TestMountOptions(t *testing.T) {
	_, v := sample()
	mnt, _ := mount(t, v)
	opts := mountOptions(t, mnt)
	for _, o := range []string{"ro", "nosuid", "nodev", "noatime", "default_permissions"} {
		if !strings.Contains(","+opts+",", ","+o+",") {
			t.Errorf("the option %s is missing in %s", o, opts)
		}
	}
}

// mountOptions are the options of a mount and of its file system.
func mountOptions(t *testing.T, mnt string) string {
	t.Helper()
	b, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(b)) {
		if f := strings.Fields(line); f[4] == mnt {
			return f[5] + "," + f[len(f)-1]
		}
	}
	t.Fatalf("%s is not mounted", mnt)
	return ""
}
