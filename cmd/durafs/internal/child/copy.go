package child

import (
	"errors"
	"fmt"
	"io"
	"os"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"durafs/internal/clock"
)

// copyBytes is the size of a pipe: no read can give more.
const copyBytes = 64 << 10

// Copy passes what src gives on to dst, and a copy of it to record, until src
// ends. When dst takes no more, src is closed, so that the command is told by
// SIGPIPE as dst's own writer would be. That dst's reader went away is no
// error; anything else that keeps dst from being written is ErrUnwritten, for
// the command cannot say it. record must not block.
func Copy(dst io.Writer, src *os.File, record io.Writer) error {
	defer src.Close()
	buf := make([]byte, copyBytes)
	stopping := false
	for {
		n, err := src.Read(buf)
		if n > 0 {
			record.Write(buf[:n])
			if err := put(dst, buf[:n]); err != nil {
				return unwritten(err)
			}
		}
		late := errors.Is(err, os.ErrDeadlineExceeded)
		switch {
		case err == io.EOF:
			return nil
		case late && stopping:
			return ErrHeld
		case err != nil && !late:
			return err
		}
		// Past the deadline, what is in the pipe by now still counts: dst may
		// have been slow.
		if stopping = stopping || late; stopping {
			src.SetReadDeadline(clock.System.Now().Add(lastRead))
		}
	}
}

// put writes all of b. A file that is shared with others, as standard output
// mostly is, can be made non-blocking by any of them, at any time, and then
// says EAGAIN: that is no end, and waited for as it would have been before.
func put(dst io.Writer, b []byte) error {
	for {
		n, err := dst.Write(b)
		if err == nil || !errors.Is(err, syscall.EAGAIN) {
			return err
		}
		b = b[n:]
		if err := waitWritable(dst); err != nil {
			return err
		}
	}
}

func waitWritable(dst io.Writer) error {
	f, ok := dst.(syscall.Conn)
	if !ok {
		return syscall.EAGAIN
	}
	conn, err := f.SyscallConn()
	if err != nil {
		return err
	}
	var waitErr error
	err = conn.Control(func(fd uintptr) {
		for {
			_, waitErr = unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLOUT}}, -1)
			if waitErr != unix.EINTR {
				return
			}
		}
	})
	return errors.Join(err, waitErr)
}

func unwritten(err error) error {
	if errors.Is(err, syscall.EPIPE) || errors.Is(err, io.ErrClosedPipe) {
		return nil
	}
	return fmt.Errorf("%w: %w", ErrUnwritten, err)
}

// ErrUnwritten says that what the command printed could not be passed on.
var ErrUnwritten = errors.New("what the command printed could not be passed on")

// lastRead is how long a read past StopReading waits. What is in the pipe is
// there at once.
const lastRead = 20 * time.Millisecond

// ErrHeld says that the command ended, but something that it started still
// holds its output.
var ErrHeld = errors.New("a process that the command left behind still holds its output")

// StopReading lets the readers of both pipes end, with ErrHeld, once they have
// waited for d without an end. It is called when the command has ended.
func (c *Child) StopReading(d time.Duration) {
	deadline := clock.System.Now().Add(d)
	c.Stdout.SetReadDeadline(deadline)
	c.Stderr.SetReadDeadline(deadline)
}
