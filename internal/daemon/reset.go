package daemon

import (
	"context"
	"fmt"
	"net"
	"time"

	"durafs/control/server"
	"durafs/runs"
	"durafs/wal"
)

// resetAsk is a request to empty the store, and where its answer goes.
type resetAsk struct {
	caller runs.Caller
	server.ResetRequest
	answer chan resetAnswer // has room for it
}

type resetAnswer struct {
	done server.ResetDone
	err  error
}

// askReset has the store emptied, and returns when the next one is there, or why
// it was not done. It is called by a handler of this life's server.
func (l *life) askReset(ctx context.Context, c runs.Caller, r server.ResetRequest) (server.ResetDone, error) {
	ask := resetAsk{c, r, make(chan resetAnswer, 1)}
	select {
	case l.d.resets <- ask:
	case <-l.ending:
		return server.ResetDone{}, wal.ErrClosed
	case <-ctx.Done():
		return server.ResetDone{}, ctx.Err()
	}
	a := <-ask.answer
	return a.done, a.err
}

// reset ends this life and begins the next with an empty store. over is false
// where it was refused, and nothing has happened.
//
//	end for reset   no run is active, and nothing is accepted any more
//	serving         the sockets stay, and who connects now waits for the next
//	                life; followers and watchers end, what is on its way is
//	                answered, all within stopTimeout
//	mount           is taken away: what the kernel knows of it goes with it
//	store           is emptied and opened anew, see store.Reset
//	mount, serving  on the new one
//	answer          to who asked, on the former server
func (l *life) reset(ctx context.Context, ask resetAsk, attended func()) (next *life, over bool, err error) {
	refuse := func(err error) (*life, bool, error) {
		ask.answer <- resetAnswer{err: err}
		return nil, false, nil
	}
	former := l.store.ID()
	if ask.Store != former {
		return refuse(&runs.Refusal{
			Code: runs.RevisionMismatch, Field: "store",
			Detail: fmt.Sprintf("this is store %s, and not %.100q", former, ask.Store),
		})
	}
	sockets, err := l.handOver()
	if err != nil {
		return refuse(err)
	}
	counts := l.store.Runs().Counts()
	active, err := l.store.Runs().EndForReset(ctx, ask.caller, ask.Force)
	if err != nil {
		for _, s := range sockets {
			s.Close() // the sockets themselves stay
		}
		return refuse(err)
	}
	close(l.ending)
	l.d.log.Warn("the store is being reset", "store", former, "by_uid", ask.caller.UID, "active", active)
	finish := l.endServing()
	attended()
	next, err = l.begin(ctx, sockets)
	a := resetAnswer{err: err}
	if err == nil {
		a.done = next.resetDone(former, counts, active)
		l.d.log.Warn("the store was reset", "store", a.done.Store, "former", former)
	}
	ask.answer <- a
	finish()
	if next != nil {
		if err != nil {
			l.d.log.Error("the store was not reset", "store", next.store.ID(), "cause", err)
		}
		err = nil // told to who asked; the daemon goes on
	}
	return next, true, err
}

// handOver makes second handles of both sockets, for the next life. Closing the
// first ones, or these if nothing comes of it, leaves the sockets where they
// are.
func (l *life) handOver() (sockets [2]*net.UnixListener, err error) {
	defer func() {
		if err != nil && sockets[0] != nil {
			sockets[0].Close()
		}
	}()
	for i, old := range []*net.UnixListener{l.control, l.agent} {
		f, err := old.File()
		if err != nil {
			return sockets, err
		}
		again, err := net.FileListener(f)
		f.Close()
		if err != nil {
			return sockets, err
		}
		sockets[i] = again.(*net.UnixListener)
	}
	return sockets, nil
}

// endServing ends the serving but for one request, which asked for the reset;
// finish ends that too, once it is answered.
func (l *life) endServing() (finish func()) {
	for _, s := range []*net.UnixListener{l.control, l.agent} {
		s.SetUnlinkOnClose(false)
	}
	l.store.Runs().Hurry()
	ctx, cut := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() { defer close(ended); l.server.Shutdown(ctx) }()
	others, cancel := context.WithTimeout(context.Background(), stopTimeout)
	defer cancel()
	l.server.AwaitOpen(others, 1)
	return func() {
		defer time.AfterFunc(stopTimeout, cut).Stop()
		<-ended
		cut()
	}
}

// begin empties the store and opens the next life on it. next is nil where the
// store could not be opened again. A mount that cannot be made again is missed,
// and everything else is served.
func (l *life) begin(ctx context.Context, sockets [2]*net.UnixListener) (next *life, err error) {
	if l.mount != nil {
		if err := l.unmount(); err != nil {
			l.d.log.Error("the mount of the former store stays", "cause", err)
		}
	}
	l.undo = nil // the sockets are handed over, and Reset closes the store
	s, err := l.store.Reset(ctx)
	if s == nil {
		for _, x := range sockets {
			x.SetUnlinkOnClose(true)
			x.Close()
		}
		return nil, err
	}
	next = l.d.newLife()
	next.take(s)
	next.makeServer(ctx)
	if mountErr := next.openMount(ctx); mountErr != nil {
		l.d.log.Error("there is no mount any more", "cause", mountErr)
		l.d.mountDir.Store(new(string))
	}
	next.control, next.agent = sockets[0], sockets[1]
	for _, x := range sockets {
		x.SetUnlinkOnClose(true)
		next.undo = append(next.undo, closed(x.Close))
	}
	l.d.life.Store(next)
	return next, err
}

func (l *life) resetDone(former string, counts map[string]int, active int) server.ResetDone {
	done := server.ResetDone{Store: l.store.ID(), Former: former, BootID: l.store.Runs().BootID(), Active: active, LSN: l.store.Log().Durable()}
	for _, n := range counts {
		done.Runs += n
	}
	return done
}
