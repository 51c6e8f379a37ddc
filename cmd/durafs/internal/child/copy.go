package child

import (
	"errors"
	"io"
	"os"
	"time"

	"durafs/internal/clock"
)

// copyBytes is the size of a pipe: no read can give more.
const copyBytes = 64 << 10

// Copy passes what src gives on to dst, and a copy of it to record, until src
// ends. When dst takes no more, src is closed, so that the command is told by
// SIGPIPE as dst's own writer would be; that is no error. record must not
// block.
func Copy(dst io.Writer, src *os.File, record io.Writer) error {
	defer src.Close()
	buf := make([]byte, copyBytes)
	stopping := false
	for {
		n, err := src.Read(buf)
		if n > 0 {
			record.Write(buf[:n])
			if _, err := dst.Write(buf[:n]); err != nil {
				return nil
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
