package fusefs

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"time"

	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"
)

const (
	// readBytesMax is the largest read request, the most that a kernel takes
	// without its limit being raised.
	readBytesMax = 1 << 20
	// backgroundMax bounds the reads ahead that may be under way.
	backgroundMax = 64
	// subtype makes the type fuse.durafs, by which a mount left behind is
	// known.
	subtype = "durafs"
	fsType  = "fuse." + subtype
)

// Mount mounts and serves; when it returns, the mount answers. A mountpoint
// that overlaps the store, holds files, or is served by somebody is refused; a
// dead mount of a former daemon is taken away first. Root mounts by itself,
// others by the setuid program fusermount3.
func Mount(o Options) (*Server, error) {
	o = defaults(o)
	dir, err := prepare(o)
	if err != nil {
		return nil, err
	}
	helper, err := findHelper(os.Geteuid(), exec.LookPath)
	if err != nil {
		return nil, err
	}
	s := &Server{fs: newRawFS(o), dir: dir, helper: helper, log: o.Log, served: make(chan struct{})}
	s.fuse, err = fuse.NewServer(s.fs, dir, s.mountOptions(o))
	if err != nil {
		s.dropFailed(o)
		return nil, mountError(dir, o, err)
	}
	s.fs.notify.tell = s.fuse
	stop := o.View.Watch(s.fs.notify.changed)
	go s.fs.notify.serve()
	go s.serve(stop)
	if err := s.wait(); err != nil {
		s.umount(unix.MNT_DETACH)
		return nil, mountError(dir, o, err)
	}
	s.dev = s.findDevice()
	setReadAhead(s.dev, readBytesMax>>10, o.Log)
	return s, nil
}

// serve runs until the kernel lets go of the mount.
func (s *Server) serve(stopWatching func()) {
	s.fuse.Serve()
	stopWatching()
	s.fs.notify.close()
	close(s.served)
}

// wait waits for the mount to answer.
func (s *Server) wait() error {
	ready := make(chan error, 1)
	go func() { ready <- s.fuse.WaitMount() }()
	select {
	case err := <-ready:
		if errors.Is(err, syscall.EACCES) {
			err = nil // the mount answers, and lets its server not in
		}
		return err
	case <-time.After(mountTimeout):
		return fmt.Errorf("it does not answer after %v", mountTimeout)
	}
}

func (s *Server) mountOptions(o Options) *fuse.MountOptions {
	level := slog.LevelWarn
	if o.Debug {
		level = slog.LevelDebug
	}
	m := &fuse.MountOptions{
		FsName: source(o.Store), Name: subtype,
		// The kernel checks permissions, by the attributes it is given.
		Options:       []string{"ro", "default_permissions"},
		AllowOther:    o.AllowOther,
		MaxWrite:      readBytesMax,
		MaxBackground: backgroundMax,
		// Links never change where they point to.
		EnableSymlinkCaching: true,
		// What is read is in memory already: there is nothing to splice from.
		DisableSplice: true,
		PanicHandler:  s.fs.panicked,
		Logger:        slog.NewLogLogger(o.Log.Handler(), level),
		Debug:         o.Debug,
	}
	if s.helper == "" {
		m.DirectMountStrict = true
		m.DirectMountFlags = unix.MS_RDONLY | unix.MS_NOSUID | unix.MS_NODEV | unix.MS_NOEXEC | unix.MS_NOATIME
	} else {
		m.Options = append(m.Options, "nosuid", "nodev", "noexec", "noatime")
	}
	return m
}

// source is what the mount table calls the mount. A comma would end an option.
func source(store string) string {
	return "durafs:" + strings.NewReplacer(",", "_", `\`, "_").Replace(store)
}

// findHelper tells which program mounts for a user: none for root.
func findHelper(euid int, look func(string) (string, error)) (string, error) {
	if euid == 0 {
		return "", nil
	}
	for _, name := range []string{"fusermount3", "/bin/fusermount3", "fusermount"} {
		if path, err := look(name); err == nil {
			return path, nil
		}
	}
	return "", errors.New("mounting without being root needs the program fusermount3, which is not installed; " +
		"it is in the package fuse3 (apt install fuse3)")
}

// mountError says what to do about the errors that people meet.
func mountError(dir string, o Options, err error) error {
	switch {
	case errors.Is(err, syscall.ENOENT) || errors.Is(err, syscall.ENXIO) || errors.Is(err, syscall.ENODEV):
		err = fmt.Errorf("%w; is there a /dev/fuse? (modprobe fuse, or give the container the device)", err)
	case errors.Is(err, syscall.EPERM):
		err = fmt.Errorf("%w; a container needs CAP_SYS_ADMIN to mount", err)
	case o.AllowOther && os.Geteuid() != 0:
		err = fmt.Errorf("%w; letting others in needs user_allow_other in /etc/fuse.conf", err)
	}
	return fmt.Errorf("cannot mount on %s: %w", dir, err)
}

// dropFailed takes away what a failed mount left: go-fuse mounts first and
// talks to the kernel then.
func (s *Server) dropFailed(o Options) {
	if m, ok := findMount(s.dir); ok && m.fsType == fsType && m.source == source(o.Store) {
		s.umount(unix.MNT_DETACH)
	}
}

// findDevice is the device number of the mount, as text.
func (s *Server) findDevice() string {
	m, _ := findMount(s.dir)
	return m.dev
}

// setReadAhead lets the kernel read ahead in requests as large as they can be;
// FUSE itself can only lower what a kernel has by default. It is worth a
// factor, and nothing depends on it.
func setReadAhead(dev string, kb int, log *slog.Logger) {
	name := "/sys/class/bdi/" + dev + "/read_ahead_kb"
	f, err := os.OpenFile(name, os.O_WRONLY, 0)
	if err == nil {
		_, err = fmt.Fprintln(f, kb)
		err = errors.Join(err, f.Close())
	}
	if err != nil {
		log.Debug("mount: read-ahead stays as it is", "err", err)
	}
}
