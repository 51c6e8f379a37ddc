package runs

import (
	"slices"
	"sort"
	"time"
)

// ThreadHead is what memory knows of a thread that has messages.
type ThreadHead struct {
	Name string
	// Number is the LSN of its first message: given by the log, never reused.
	// A thread whose first message is undone with its run has another one.
	Number uint64
	// Messages, and the LSN of the last one, change with every change.
	Messages int
	Last     uint64
}

// threadOrder lists threads by the number that ThreadHead has. Messages come in
// the order of the log, so that a new thread is the last one.
type threadOrder []threadNumber

type threadNumber struct {
	lsn  uint64
	name string
}

// from is the position of the first thread whose number is lsn or higher.
func (o threadOrder) from(lsn uint64) int {
	return sort.Search(len(o), func(i int) bool { return o[i].lsn >= lsn })
}

// renumber notes that a thread's first message is another one; 0 for none.
func (o *threadOrder) renumber(name string, was, now uint64) {
	if was == now {
		return
	}
	if at := o.from(was); was != 0 && at < len(*o) && (*o)[at].lsn == was {
		*o = slices.Delete(*o, at, at+1)
	}
	if now != 0 {
		*o = slices.Insert(*o, o.from(now), threadNumber{now, name})
	}
}

// number is the LSN of a thread's first message, 0 where it has none.
func (t *thread) number() uint64 {
	if t == nil || len(t.messages) == 0 {
		return 0
	}
	return t.messages[0].lsn
}

func (x *index) threadHead(name string) (ThreadHead, bool) {
	t := x.threads[name]
	if t.number() == 0 {
		return ThreadHead{}, false
	}
	return ThreadHead{name, t.number(), len(t.messages), t.messages[len(t.messages)-1].lsn}, true
}

// ThreadByName finds a thread that has messages.
func (s *Store) ThreadByName(name string) (ThreadHead, bool) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.index.threadHead(name)
}

// ThreadLastAt is when the last message of a thread came; the zero time where
// that cannot be read any more.
func (s *Store) ThreadLastAt(name string) time.Time {
	s.mu.RLock()
	var at place
	if t := s.index.threads[name]; t.number() != 0 {
		at = t.messages[len(t.messages)-1].at
	}
	s.mu.RUnlock()
	b, err := s.readBatch(at.pos())
	if err != nil {
		return time.Time{}
	}
	return unixTime(b.stamp.at)
}

// ThreadsFrom lists the threads whose number is from or higher, in the order of
// their numbers, at most limit.
func (s *Store) ThreadsFrom(from uint64, limit int) []ThreadHead {
	s.mu.RLock()
	defer s.mu.RUnlock()
	o := s.index.threadOrder
	var list []ThreadHead
	for _, t := range o[o.from(from):] {
		if len(list) == limit {
			break
		}
		if h, ok := s.index.threadHead(t.name); ok {
			list = append(list, h)
		}
	}
	return list
}

// Conversation is a thread as of a moment. It may be used concurrently.
type Conversation interface {
	Len() int
	// Message reads message i, the oldest being 0, as Thread does.
	Message(i int) (Message, error)
}

// conversation holds where the messages lie.
type conversation struct {
	store    *Store
	messages []message
	recent   []uint32 // the runs that tell their calls
}

// OpenThread takes the messages that a thread has now.
func (s *Store) OpenThread(name string) (Conversation, bool) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	t := s.index.threads[name]
	if t.number() == 0 {
		return nil, false
	}
	return &conversation{s, slices.Clone(t.messages), s.index.inThread(name, ThreadCallsRuns)}, true
}

// Len implements Conversation.
func (c *conversation) Len() int { return len(c.messages) }

// Message implements Conversation.
func (c *conversation) Message(i int) (Message, error) {
	m := c.messages[i]
	return c.store.threadMessage(m, slices.Contains(c.recent, m.run))
}
