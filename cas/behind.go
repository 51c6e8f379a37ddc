package cas

import "context"

// behind are the two goroutines that do early what a barrier would have to do:
// one starts writing back what was appended, which waits while the disk's queue
// is full; one makes it durable. Nothing depends on either: they only leave
// less to a barrier.
type behind struct {
	write chan span  // at most one
	flush chan *pack // at most one
	done  chan struct{}
}

// span is a part of an active pack.
type span struct {
	h      *handle
	off, n int64
}

func (s *Store) startBehind() {
	s.behind.write = make(chan span, 1)
	s.behind.flush = make(chan *pack, 1)
	s.behind.done = make(chan struct{}, 2)
	go func() {
		for w := range s.behind.write {
			_ = w.h.f.WriteBehind(w.off, w.n)
			s.files.release(w.h)
		}
		s.behind.done <- struct{}{}
	}()
	go func() {
		for p := range s.behind.flush {
			_ = s.flush(context.Background(), p, p.end()) // who depends on it asks again
		}
		s.behind.done <- struct{}{}
	}()
}

func (b *behind) close() {
	close(b.write)
	close(b.flush)
	<-b.done
	<-b.done
}

// writeBack hands what was appended to p since the last time over, and reports
// whether that was taken; else the next call hands over more.
func (s *Store) writeBack(p *pack, n int64) bool {
	h, err := s.files.acquire(p)
	if err != nil {
		return false
	}
	select {
	case s.behind.write <- span{h, s.app.behind, n}:
		return true
	default:
		s.files.release(h)
		return false
	}
}

func (s *Store) flushSoon(p *pack) {
	select {
	case s.behind.flush <- p:
	default:
	}
}
