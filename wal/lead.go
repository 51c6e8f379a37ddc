package wal

import (
	"context"
	"errors"
)

// Do is SubmitWaiting and Wait in one.
func (l *Log) Do(ctx context.Context, class Class, decide func(lsn uint64) Decision) (lsn uint64, err error) {
	t := l.SubmitWaiting(class, decide)
	return t.lsn, t.Wait(ctx)
}

// SubmitWaiting is Submit by a caller that has nothing to do but to wait for
// the ticket. If it finds the writer idle it commits its group itself before it
// returns, and so nobody has to be woken, which on a fast disk costs a third of
// a barrier.
//
// Whoever leads does what the writer does, in the same order, and lets others
// join its group in the same way.
func (l *Log) SubmitWaiting(class Class, decide func(lsn uint64) Decision) Ticket {
	t, lead := l.submitAsLeader(class, decide)
	if lead {
		l.lead()
	}
	return t
}

// submitAsLeader is Submit, except that where the caller may lead it does.
func (l *Log) submitAsLeader(class Class, decide func(lsn uint64) Decision) (t Ticket, lead bool) {
	l.mu.Lock()
	defer l.mu.Unlock() // also when decide panics
	t = l.submit(class, decide)
	if lead = l.idle && !l.leading && l.due() && len(l.queue) == 1 && l.queue[0] == t.group; lead {
		l.leading = true
	} else {
		l.wakeWriter()
	}
	return t, lead
}

// wakeWriter tells the writer that there is a group, where nobody else will
// look. The accept lock is held.
func (l *Log) wakeWriter() {
	if l.idle && !l.leading && l.due() {
		l.idle = false
		l.work.Broadcast()
	}
}

// lead commits the first group in the writer's place.
func (l *Log) lead() {
	finished := false
	defer func() {
		if !finished { // a panic: what was written nobody knows
			l.fail(errors.New("a commit did not come to its end"))
		}
		l.follow()
	}()
	l.yield()
	if g := l.first(); g != nil {
		l.commit(g)
	}
	finished = true
}

// first takes the first group; nil when the log is poisoned, which the writer
// answers.
func (l *Log) first() *group {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.poison != nil {
		return nil
	}
	l.queue[0].taken = true
	return l.queue[0]
}

// follow gives the lead back. The writer goes on with what has come meanwhile;
// where nothing has, it is not woken.
func (l *Log) follow() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.leading = false
	if l.due() || l.closing || l.poison != nil {
		l.idle = false
		l.work.Broadcast()
	}
}
