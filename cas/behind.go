package cas

// writeBehind is the goroutine that starts writing back what was appended. The
// call waits while the disk's queue is full, and the appender, who holds up
// everyone, must not. Nothing depends on it: it only leaves less to a barrier.
type writeBehind struct {
	todo chan span // at most one
	done chan struct{}
}

// span is a part of an active pack.
type span struct {
	h      *handle
	off, n int64
}

func (s *Store) startWriteBehind() {
	s.behind.todo = make(chan span, 1)
	s.behind.done = make(chan struct{})
	go s.runWriteBehind()
}

func (s *Store) runWriteBehind() {
	defer close(s.behind.done)
	for w := range s.behind.todo {
		_ = w.h.f.WriteBehind(w.off, w.n)
		s.files.release(w.h)
	}
}

// writeBack hands what was appended to p since the last time over, and reports
// whether that was taken; else the next call hands over more.
func (s *Store) writeBack(p *pack, n int64) bool {
	h, err := s.files.acquire(p)
	if err != nil {
		return false
	}
	select {
	case s.behind.todo <- span{h, s.app.behind, n}:
		return true
	default:
		s.files.release(h)
		return false
	}
}
