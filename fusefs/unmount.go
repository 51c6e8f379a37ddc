package fusefs

import (
	"context"
	"errors"
	"fmt"
	"time"

	"golang.org/x/sys/unix"
)

// ErrInUse: the mount is out of the tree, but files of it are still open.
var ErrInUse = errors.New("fusefs: files of the mount are still open")

// Unmount ends the mount. While files are in use it tries again for a short
// time, then takes the mount out of the tree and goes on serving those who
// have files open, until the last of them closes or ctx ends (ErrInUse): a
// daemon that ended sooner would leave them with errors. Once it has ended
// Unmount returns nil.
func (s *Server) Unmount(ctx context.Context) error {
	s.unmount.Lock()
	defer s.unmount.Unlock()
	if s.ended() {
		return nil
	}
	if s.attached() && !s.unmountSoon(ctx) {
		if err := s.umount(unix.MNT_DETACH); err != nil && s.attached() {
			return fmt.Errorf("cannot unmount %s: %w", s.dir, err)
		}
		s.log.Info("mount: files are still open; the mount is out of the tree and serves them on", "dir", s.dir)
	}
	select {
	case <-s.served:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("%s: %w", s.dir, ErrInUse)
	}
}

// unmountSoon tries for unmountRetry, and reports whether it is done.
func (s *Server) unmountSoon(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(ctx, unmountRetry)
	defer cancel()
	for pause := 5 * time.Millisecond; ; pause = min(2*pause, 200*time.Millisecond) {
		if err := s.umount(0); err == nil || !s.attached() {
			return true
		}
		select {
		case <-s.served:
			return true
		case <-ctx.Done():
			return false
		case <-time.After(pause):
		}
	}
}

func (s *Server) umount(flags int) error { return umount(s.helper, s.dir, flags) }

func (s *Server) ended() bool {
	select {
	case <-s.served:
		return true
	default:
		return false
	}
}

// attached tells whether the mountpoint is still this mount: somebody may have
// taken it away, and put another there.
func (s *Server) attached() bool {
	m, ok := findMount(s.dir)
	return ok && m.dev == s.dev
}
