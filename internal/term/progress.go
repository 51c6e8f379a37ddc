package term

import (
	"fmt"
	"io"
	"sync"
	"time"

	"durafs/internal/clock"
)

// progressPeriod is the least time between two drawings: a line that changes
// faster cannot be read and costs more than the work it tells of.
const progressPeriod = 100 * time.Millisecond

// Progress is one line on a terminal that tells how far some work is. Where
// its writer is no terminal it draws nothing. It may be used concurrently; the
// zero value draws nothing.
type Progress struct {
	w     io.Writer
	clock clock.Clock
	width int

	mu    sync.Mutex // guards what follows
	drawn bool
	last  time.Duration // boot time of the last drawing
}

// NewProgress returns a Progress on w.
func NewProgress(w io.Writer, c clock.Clock) *Progress {
	if !IsTerminal(w) {
		return &Progress{}
	}
	return newProgress(w, c, Width(w))
}

func newProgress(w io.Writer, c clock.Clock, width int) *Progress {
	return &Progress{w: w, clock: c, width: width}
}

// Printf replaces the line, at most ten times a second: what comes faster is
// not drawn.
func (p *Progress) Printf(format string, args ...any) {
	if p.w == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	now := p.clock.Boot()
	if p.drawn && now-p.last < progressPeriod {
		return
	}
	p.drawn, p.last = true, now
	fmt.Fprintf(p.w, "\r\x1b[K%s", Cut(Safe(fmt.Sprintf(format, args...)), p.width-1))
}

// Clear removes the line, so that something else can be printed.
func (p *Progress) Clear() {
	if p.w == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.drawn {
		fmt.Fprint(p.w, "\r\x1b[K")
		p.drawn = false
	}
}
