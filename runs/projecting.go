package runs

import (
	"context"
	"sync"
	"time"
)

// How long an outcome that was received waits for its projection.
const (
	ProjectionTimeout    = 10 * time.Second
	ProjectionTimeoutMax = 60 * time.Second
	// hurryGrace is what is left of it when the store is about to close: most
	// projections follow their outcome at once, and are on their way.
	hurryGrace = time.Second
)

// Once an outcome was received nothing can strand it: not a projector that is
// slow, hangs, crashes, or was never there. The first request that brings the
// outcome of an open call leads: it waits for a projection, its own or that of
// another request for the same call, and commits the outcome with it, or with
// the sentinel if none comes in time. That its connection breaks changes
// nothing: the client may bring the projection on another one.
//
//	request 1                      request 2
//	outcome received: leads
//	connection breaks
//	                               the same outcome, and the projection
//	commits both
//	                               answers what is committed

// projectings are the outcomes that wait for their projections.
type projectings struct {
	mu      sync.Mutex
	waiting map[callKeyed]*projecting

	// hurry is closed when the store is about to close: nobody waits much longer;
	// now when it closes: nobody waits any more.
	hurry, now         chan struct{}
	hurryOnce, nowOnce sync.Once
}

type callKeyed struct {
	num  uint32
	call uint64
}

// projecting is an outcome that was received and is not yet committed.
type projecting struct {
	// candidate takes the first that comes; nil says that none will.
	candidate chan []byte
	done      chan struct{} // closed when the leader has ended
}

// join finds the outcome of a call that waits, or makes it wait.
func (ps *projectings) join(key callKeyed) (p *projecting, leads bool) {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	if p := ps.waiting[key]; p != nil {
		return p, false
	}
	if ps.waiting == nil {
		ps.waiting = map[callKeyed]*projecting{}
	}
	p = &projecting{candidate: make(chan []byte, 1), done: make(chan struct{})}
	ps.waiting[key] = p
	return p, true
}

func (ps *projectings) leave(key callKeyed, p *projecting) {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	delete(ps.waiting, key)
	close(p.done)
}

// offer brings a candidate; of several the first counts.
func (p *projecting) offer(candidate []byte) {
	select {
	case p.candidate <- candidate:
	default:
	}
}

// Hurry ends the waiting for projections, from here on: outcomes whose projection
// does not come within hurryGrace are committed with the sentinel. It is called
// before the store closes.
func (s *Store) Hurry() { s.projectings.hurryOnce.Do(func() { close(s.projectings.hurry) }) }

// HurryNow is Hurry without the moment of grace.
func (s *Store) HurryNow() { s.projectings.nowOnce.Do(func() { close(s.projectings.now) }) }

// reading reads a request's candidate on a goroutine of its own, until that
// returns or ctx ends. The channel gets it, or nil where none will come, and
// nothing where the reading failed: another request may bring it.
func (r *OutcomeRequest) reading(ctx context.Context) <-chan []byte {
	got := make(chan []byte, 1)
	if r.Projection == nil {
		got <- nil
		return got
	}
	go func() {
		if b, err := r.Projection(ctx); err == nil {
			got <- b
		}
	}()
	return got
}

// await is the candidate for an outcome, nil if none comes in time, or the run
// is not running any more, or the store closes. It outlasts its request.
func (s *Store) await(num uint32, p *projecting, own <-chan []byte) []byte {
	timeout := time.NewTimer(s.projectionTimeout)
	defer timeout.Stop()
	for hurry := s.projectings.hurry; ; {
		changed := s.Changed(Ref(num))
		if s.publishedPhase(num) != Running {
			return nil
		}
		select {
		case b := <-own:
			return b
		case b := <-p.candidate:
			return b
		case <-timeout.C:
			return nil
		case <-s.projectings.now:
			return nil
		case <-hurry:
			hurry = nil
			timeout.Reset(min(hurryGrace, s.projectionTimeout))
		case <-changed:
		}
	}
}

func (s *Store) publishedPhase(num uint32) Phase {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.index.phase(num)
}

// follow brings a request's candidate to the one that leads, and waits until
// that has ended. What it returns has the candidate once more.
func (s *Store) follow(ctx context.Context, p *projecting, own <-chan []byte) (<-chan []byte, error) {
	again := own
	for {
		select {
		case candidate := <-own:
			p.offer(candidate)
			kept := make(chan []byte, 1)
			kept <- candidate
			own, again = nil, kept
		case <-p.done:
			return again, nil
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}
