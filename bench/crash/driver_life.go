package crash

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"durafs/runs"
	"durafs/store"
)

// lifeWork is what owners, agents and dispatchers do to one run.
type lifeWork struct {
	script func(*lifeAgent) error

	runBytesMax int64                           // bound of a run, 0 for none
	judged      func(*Life, *store.Store) error // what is judged besides, nil for nothing
}

// Cancel cancels a run between a claim and its outcome.
func Cancel() *Driver {
	w := lifeWork{script: (*lifeAgent).cancelled}
	return w.driver("cancel", "claims, a cancellation, outcomes within it, its end")
}

// Undo takes a run back whose first row finds no room.
func Undo() *Driver {
	w := lifeWork{script: (*lifeAgent).undone}
	return w.driver("undo", "an admission that is undone on a full disk, with its row of the journal and its message")
}

func (w *lifeWork) driver(name, doc string) *Driver {
	return &Driver{
		Name: name, Doc: doc, Live: w.live, Judge: w.judge, Ballasts: storeBallasts,
	}
}

var (
	bound     = &runs.Binding{Provider: "p", Scope: "s"}
	lifeOwner = runs.Caller{UID: 1, Owner: true}
)

func (w *lifeWork) open(l *Life) (*store.Store, error) {
	o := (&storeWork{pack: 1 << 20}).options(l)
	o.RunBytesMax = w.runBytesMax
	s, err := store.Open(context.Background(), storeDir, o)
	if err != nil {
		return nil, &openError{err}
	}
	if err := l.openedFor(s); err != nil {
		return s, err
	}
	facts := lifeFactsOf(l.Promises())
	undone := func(id, file string) bool {
		f := facts.runs[id]
		return f != nil && (f.tried["rollback"] || f.tried["delete "+strings.TrimPrefix(file, "payloads/")])
	}
	err = errors.Join(facts.judge(s), judgeRead(l.Promises(), s, undone))
	if err == nil && w.judged != nil {
		err = w.judged(l, s)
	}
	if err != nil {
		if l.Faulty && l.full == nil {
			err = &openError{err}
		}
		return s, err
	}
	return s, nil
}

func (w *lifeWork) judge(l *Life) error {
	s, err := w.open(l)
	if s != nil {
		end(l, s, false)
	}
	return allowed(l, err)
}

func (w *lifeWork) live(l *Life) error {
	s, err := w.open(l)
	if err == nil {
		l.reads(s)
		l.look()
		err = w.work(l, s)
		l.reads(nil)
		if l.Faulty {
			err = nil // it may be refused; what was promised counts
		}
	}
	if s == nil {
		return allowed(l, err)
	}
	return allowed(l, errors.Join(err, end(l, s, l.Closes && err == nil)))
}

func (w *lifeWork) work(l *Life, s *store.Store) error {
	if err := finishOld(l, s); err != nil || l.Depth > 0 {
		return err
	}
	a := &lifeAgent{l: l, s: s.Runs(), id: "exec_a"}
	err := w.script(a)
	if err != nil {
		err = fmt.Errorf("%s: %w", a.id, err)
		a.endOnFull()
	}
	a.resumes()
	return err
}

// endOnFull cancels a run on a full disk.
func (a *lifeAgent) endOnFull() {
	ref, ok := a.s.Lookup(a.id)
	if info, _ := a.s.Info(ref); ok && !info.Sealed() && a.l.mustEnd() {
		a.l.wrong(notEnded(a.cancel()))
	}
}

// resumes starts and ends another run once there is space again.
func (a *lifeAgent) resumes() {
	try := 0
	a.l.resumes(func() error {
		try++
		next := &lifeAgent{l: a.l, s: a.s, id: fmt.Sprintf("exec_again-%d", try)}
		return steps(next.start, next.settle)
	})
}

// finishOld brings runs of earlier lives to an end: one that was lost is taken
// back by its agent and settled, any other is cancelled.
func finishOld(l *Life, s *store.Store) error {
	ctx := context.Background()
	for id, f := range lifeFactsOf(l.Promises()).runs {
		ref, ok := s.Runs().Lookup(id)
		if !ok || f.writer == "" {
			continue
		}
		info, _ := s.Runs().Info(ref)
		if info.Sealed() {
			continue
		}
		rec, err := s.Runs().Record(ref)
		if err != nil {
			return err
		}
		a := &lifeAgent{l: l, s: s.Runs(), id: id, c: runs.Caller{Writer: f.writer}}
		if rec.Pause != nil && (rec.Pause.Reason == "restart" || rec.Pause.Reason == "lease") && rec.Resume.Attempt == 0 {
			calls := map[uint64]string{}
			for _, o := range rec.OpenCalls {
				calls[o.Call] = "ended"
			}
			if _, err := s.Runs().Attach(ctx, a.c, id, runs.AttachRequest{Calls: calls}); err == nil {
				return a.settle()
			}
		}
		if err := a.cancel(); err != nil {
			return err
		}
	}
	return nil
}

// lifeAgent is one run and those who act on it.
type lifeAgent struct {
	l  *Life
	s  *runs.Store
	id string
	c  runs.Caller
}

// do promises that a step was tried, makes it, and promises what is true then.
func (a *lifeAgent) do(what string, n uint64, step func(ctx context.Context) error) error {
	a.l.Promise(Promise{What: what + "?", N: n, Text: a.id + "\x00"})
	if err := a.l.refused(step(context.Background())); err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	a.l.Promise(Promise{What: what, N: n, Text: a.id + "\x00" + a.c.Writer})
	a.l.look()
	if ref, ok := a.s.Lookup(a.id); ok {
		if rec, err := a.s.Record(ref); err == nil {
			a.l.Promise(Promise{What: "seen", N: rec.Revision, M: rec.Epoch, Text: a.id + "\x00"})
		}
	}
	return nil
}

func (a *lifeAgent) start() error {
	return a.do("start", 0, func(ctx context.Context) error {
		st, err := a.s.Start(ctx, runs.Caller{UID: 1}, runs.StartRequest{
			ID: a.id, Labels: runs.Labels{"thread": a.id}, Message: []byte(`"do"`), Binding: bound, ResumeRequest: []byte("x"), IdempotencyKey: a.id,
		})
		a.c.Writer = st.Writer
		return err
	})
}

func (a *lifeAgent) claim(n uint64, safety string) error {
	return a.do("claim", n, func(ctx context.Context) error {
		_, err := a.s.Claim(ctx, a.c, a.id, runs.ClaimRequest{CallID: fmt.Sprint(n), Name: "t", Safety: []byte(`"` + safety + `"`), Args: []byte(fmt.Sprint(n))})
		return err
	})
}

func (a *lifeAgent) outcome(n uint64) error {
	return a.do("outcome", n, func(ctx context.Context) error {
		_, err := a.s.Outcome(ctx, a.c, a.id, runs.OutcomeRequest{Call: n, Outcome: lifeOutcome(n)})
		return err
	})
}

func lifeOutcome(n uint64) []byte { return []byte(fmt.Sprintf(`{"status":"ok","of":%d}`, n)) }

func (a *lifeAgent) cancel() error {
	return a.do("cancel", 0, func(ctx context.Context) error {
		_, err := a.s.Cancel(ctx, lifeOwner, a.id, runs.CancelRequest{})
		if runs.CodeOf(err) == runs.Finished {
			err = nil
		}
		return err
	})
}

// lifeAnswerBytes is the size of the answer that a run settles with.
const lifeAnswerBytes = 1000

func (a *lifeAgent) settle() error {
	return a.do("settle", 0, func(ctx context.Context) error {
		_, err := a.s.Settle(ctx, a.c, a.id, runs.SettleRequest{Status: runs.Success, Summary: "done", Payload: strings.NewReader(strings.Repeat("a", lifeAnswerBytes))})
		return err
	})
}

// steps makes them until one fails: a call's number is known only as long as
// none before it was refused.
func steps(all ...func() error) error {
	for _, step := range all {
		if err := step(); err != nil {
			return err
		}
	}
	return nil
}

// cancelled is cancelled between a claim and its outcome.
func (a *lifeAgent) cancelled() error {
	err := steps(
		a.start,
		func() error { return a.claim(1, "mutating") },
		func() error { return a.outcome(1) },
		func() error { return a.claim(2, "idempotent") },
		a.cancel,
		func() error { return a.outcome(2) },
	)
	if err != nil {
		return err
	}
	return a.do("ack", 0, func(ctx context.Context) error {
		_, _, err := a.s.AckAbort(ctx, a.c, a.id, runs.AbortExited)
		return err
	})
}

// undone is taken back where its first row finds no room.
func (a *lifeAgent) undone() error {
	if err := a.start(); err != nil {
		return err
	}
	err := a.do("row", 0, func(ctx context.Context) error {
		_, err := a.s.Append(ctx, a.c, a.id, []runs.Row{{JSON: []byte(`{"x":1}`)}}, "")
		return err
	})
	if err == nil {
		return a.settle()
	}
	a.l.Promise(Promise{What: "rollback?", Text: a.id + "\x00"})
	if a.s.Rollback(context.Background(), a.c, a.id) == nil {
		a.l.Promise(Promise{What: "rollback", Text: a.id + "\x00"})
	}
	return err
}
