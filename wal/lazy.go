package wal

import "time"

// A lazy batch makes no barrier of its own while it may still find company: the
// group it is in starts with the first batch that is in a hurry, which costs
// that one nothing, or when its time is over. All fields here are guarded by
// the accept lock.

// due tells whether a barrier is to be made for what is queued. Groups go in
// the order of LSNs, so one that is urgent takes those before it along.
func (l *Log) due() bool { return l.urgent > 0 }

// hurryFor notes that a caller of this class waits for a group.
func (l *Log) hurryFor(g *group, class Class) {
	switch {
	case class != Lazy:
		l.hasten(g)
	case !g.urgent && g.timer == nil:
		g.timer = time.AfterFunc(l.opts.LazyMax, func() {
			l.mu.Lock()
			defer l.mu.Unlock()
			l.hasten(g)
			l.wakeWriter()
		})
	}
}

// hasten makes a group urgent that is still in the queue.
func (l *Log) hasten(g *group) {
	if !g.urgent && !g.settled {
		g.urgent = true
		l.urgent++
	}
}

// settle ends the hurry for a group that leaves the queue.
func (l *Log) settle(g *group) {
	g.settled = true
	if g.urgent {
		l.urgent--
	}
	if g.timer != nil {
		g.timer.Stop()
	}
}
