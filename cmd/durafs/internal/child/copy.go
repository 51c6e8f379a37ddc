package child

import (
	"errors"
	"io"
	"os"
	"time"
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
	for {
		n, err := src.Read(buf)
		if n > 0 {
			record.Write(buf[:n])
			if _, err := dst.Write(buf[:n]); err != nil {
				return nil
			}
		}
		switch {
		case err == io.EOF:
			return nil
		case errors.Is(err, os.ErrDeadlineExceeded):
			return ErrHeld
		case err != nil:
			return err
		}
	}
}

// ErrHeld says that the command ended, but something that it started still
// holds its output.
var ErrHeld = errors.New("a process that the command left behind still holds its output")

// StopReading lets the readers of both pipes end, with ErrHeld, once they have
// waited for d without an end. It is called when the command has ended.
func (c *Child) StopReading(deadline time.Time) {
	c.Stdout.SetReadDeadline(deadline)
	c.Stderr.SetReadDeadline(deadline)
}
