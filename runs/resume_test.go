package runs

import (
	"fmt"
	"io"
	"testing"
	"time"
)

var owner = Caller{UID: 1000, Owner: true}

func (w *world) etag(id string) string {
	w.t.Helper()
	_, tag, err := w.s.Get(owner, id)
	if err != nil {
		w.t.Fatal(err)
	}
	return tag
}

func (w *world) prepare(id string, r PrepareRequest) (Prepared, error) {
	w.t.Helper()
	r.IfMatch = w.etag(id)
	return w.s.Prepare(ctx, owner, id, r)
}

func (w *world) mustPrepare(id string, r PrepareRequest) Prepared {
	w.t.Helper()
	p, err := w.prepare(id, r)
	if err != nil {
		w.t.Fatalf("prepare: %v", err)
	}
	return p
}

// resume prepares and activates a run, at once.
func (w *world) resume(id string, r PrepareRequest) *agent {
	w.t.Helper()
	r.Force = true
	p := w.mustPrepare(id, r)
	a, err := w.s.Activate(ctx, Caller{UID: 7, Resume: p.Token}, id, ActivateRequest{Binding: r.Binding})
	if err != nil {
		w.t.Fatalf("activate: %v", err)
	}
	return &agent{w, id, Caller{UID: 7, Writer: a.Writer}}
}

// TestResume: a run whose agent was lost goes on under its id, in a new epoch,
// with the request that it was started with; the token works once.
func TestResume(t *testing.T) {
	w, f := newTimed(t)
	old := w.start(StartRequest{ID: "exec_r", ResumeRequest: []byte("go on with this"), Lease: 10 * time.Second})
	old.mustAppend(`{"a":1}`)
	old.mustClaim("c1", "read", "read-only")
	w.reopen()

	_, err := w.prepare(old.id, PrepareRequest{})
	if r := wantCode(t, err, AttachWindow); r.RetryAfter != 10*time.Second {
		t.Errorf("the window is %s", r.RetryAfter)
	}
	offers, err := w.resumable()
	if err != nil || len(offers) != 1 || offers[0].Ready || offers[0].InMS != 10_000 || !offers[0].Available || offers[0].UID != 7 {
		t.Errorf("offers: %+v, %v", offers, err)
	}
	w.pass(f, 10*time.Second)
	if offers, _ = w.resumable(); len(offers) != 1 || !offers[0].Ready {
		t.Errorf("offers: %+v", offers)
	}
	_, err = w.s.Prepare(ctx, Caller{UID: 7}, old.id, PrepareRequest{IfMatch: offers[0].ETag})
	wantCode(t, err, NotOwner)
	_, err = w.s.Prepare(ctx, owner, old.id, PrepareRequest{IfMatch: `"1-1"`})
	wantCode(t, err, RevisionMismatch)

	p := w.mustPrepare(old.id, PrepareRequest{})
	if p.Epoch != 2 || p.Record.Phase != "resume-dispatching" || p.Record.Resume.Attempt != 1 || p.Record.Resume.FromPhase != "paused-interruption" {
		t.Errorf("prepared: %s", mustJSON(p))
	}
	wantStale := func() {
		t.Helper()
		_, err := old.append(`{"stale":1}`)
		wantCode(t, err, StaleWriter)
		_, err = w.s.Attach(ctx, old.c, old.id, AttachRequest{Calls: map[uint64]string{1: "running"}})
		wantCode(t, err, StaleWriter)
	}
	wantStale()
	for _, c := range []Caller{{UID: 7, Resume: p.Token}, owner} {
		r, err := w.s.OpenResumeRequest(c, old.id)
		if err != nil {
			t.Fatal(err)
		}
		if b, _ := io.ReadAll(io.NewSectionReader(r, 0, r.Size())); string(b) != "go on with this" {
			t.Errorf("the resume request is %q", b)
		}
	}
	_, err = w.s.OpenResumeRequest(Caller{UID: 7}, old.id)
	wantCode(t, err, NotOwner)
	for _, token := range []string{"", "x", w.s.token(uint32(w.ref(old.id)), 2, purposeWriter)} {
		_, err := w.s.Activate(ctx, Caller{UID: 7, Resume: token}, old.id, ActivateRequest{})
		if code := CodeOf(err); code != ResumeRequired && code != WrongToken {
			t.Errorf("with the token %q: %v", token, err)
		}
	}
	got, err := w.s.Activate(ctx, Caller{UID: 7, Resume: p.Token}, old.id, ActivateRequest{})
	if err != nil || got.Epoch != 2 || got.ExecutionKey != old.id || len(got.OpenCalls) != 1 || got.Record.Phase != "running" || got.HistorySeq != 5 || got.Record.Pause != nil {
		t.Fatalf("activated: %s, %v", mustJSON(got), err)
	}
	_, err = w.s.Activate(ctx, Caller{UID: 7, Resume: p.Token}, old.id, ActivateRequest{})
	wantCode(t, err, WrongPhase)
	_, err = w.s.OpenResumeRequest(Caller{Resume: p.Token}, old.id)
	wantCode(t, err, WrongToken)
	wantStale()

	a := &agent{w, old.id, Caller{UID: 7, Writer: got.Writer}}
	_, err = a.claim("c1", "read", "read-only")
	if r := wantCode(t, err, CallExists); r.State != "open" {
		t.Errorf("%+v", r)
	}
	again, err := w.s.Again(ctx, a.c, a.id, AgainRequest{Call: 1, IdempotencyKey: "k"})
	if err != nil || again.Attempt != 2 || again.Key != "exec_r:read:0" || again.Index != 0 {
		t.Errorf("again: %+v, %v", again, err)
	}
	replay, err := w.s.Again(ctx, a.c, a.id, AgainRequest{Call: 1, IdempotencyKey: "k"})
	if err != nil || !replay.Replayed || replay.Attempt != 2 {
		t.Errorf("again, repeated: %+v, %v", replay, err)
	}
	_, err = w.s.Again(ctx, a.c, a.id, AgainRequest{Call: 1})
	wantCode(t, err, AgainRefused)
	if rec := w.record(a.id); rec.Resume.Attempt != 0 || rec.ProgressCount != 2 {
		t.Errorf("after progress: %s", mustJSON(rec))
	}
	a.mustOutcome(1, `{}`)
	_, err = w.s.Again(ctx, a.c, a.id, AgainRequest{Call: 1})
	wantCode(t, err, AgainRefused)
	_, err = w.s.Again(ctx, a.c, a.id, AgainRequest{Call: 9})
	wantCode(t, err, UnknownCall)
	a.mustSettle("done")
	if got := w.ownTypes(a.id); got != "accepted tool-call paused resumed tool-call tool-result terminal" {
		t.Errorf("the log tells: %s", got)
	}
	if n := w.info(a.id).LateRows; n != 2 {
		t.Errorf("%d late rows: %s", n, w.late(a.id))
	}
}

// TestUncertain: after an effect the owner decides on every open call; only
// what it names runs again.
func TestUncertain(t *testing.T) {
	w, _ := newTimed(t)
	a := w.start(StartRequest{ID: "exec_u"})
	for i := range 3 {
		a.mustClaim(fmt.Sprint("c", i+1), "write", "mutating")
	}
	w.reopen()
	if offers, err := w.resumable(); err != nil || len(offers) != 0 {
		t.Errorf("it is offered: %+v, %v", offers, err)
	}
	for name, r := range map[string]PrepareRequest{
		"nothing": {}, "one left": {Retry: []uint64{1}, Close: []uint64{2}}, "both": {Retry: []uint64{1, 2}, Close: []uint64{2, 3}},
	} {
		r.Force = true
		_, err := w.prepare(a.id, r)
		wantCode(t, err, UnaccountedCalls)
		if w.record(a.id).Revision != 5 {
			t.Fatalf("%s: changed", name)
		}
	}
	_, err := w.prepare(a.id, PrepareRequest{Force: true, Retry: []uint64{1, 2, 3, 4}})
	wantCode(t, err, UnknownCall)
	a = w.resume(a.id, PrepareRequest{Retry: []uint64{1}, Close: []uint64{2, 3}})
	if got := w.record(a.id).OpenCalls; len(got) != 1 || got[0].Call != 1 {
		t.Errorf("open calls: %+v", got)
	}
	if got, err := w.s.Again(ctx, a.c, a.id, AgainRequest{Call: 1}); err != nil || got.Attempt != 2 {
		t.Errorf("again: %+v, %v", got, err)
	}
	_, err = w.s.Again(ctx, a.c, a.id, AgainRequest{Call: 2})
	wantCode(t, err, AgainRefused)
	_, err = a.outcome(2, `{"status":"ok"}`)
	wantCode(t, err, OutcomeConflict)
	w.reopen()
	b := w.resume(a.id, PrepareRequest{Retry: []uint64{1}})
	if _, err := w.s.Again(ctx, b.c, b.id, AgainRequest{Call: 1}); err != nil {
		t.Errorf("named again, it may run again: %v", err)
	}
	w.reopen()
	c := w.resume(a.id, PrepareRequest{Close: []uint64{1}})
	_, err = w.s.Again(ctx, c.c, c.id, AgainRequest{Call: 1})
	wantCode(t, err, AgainRefused)
}

// TestAttachWins: any owner's decision since the pause keeps the former agent
// out, and nothing else does.
func TestAttachWins(t *testing.T) {
	w, f := newTimed(t)
	a := w.start(StartRequest{Lease: 10 * time.Second})
	w.pass(f, 12*time.Second)
	a.mustAttach()
	w.pass(f, 12*time.Second)
	w.reopen()
	w.pass(f, 50*time.Second)
	a.mustAttach()
	if rec := w.record(a.id); rec.Epoch != 1 || rec.Resume.Attempt != 0 || rec.BootID != w.s.BootID() {
		t.Errorf("the record is %s", mustJSON(rec))
	}
	w.reopen()
	p := w.mustPrepare(a.id, PrepareRequest{Dead: true})
	if _, _, err := w.s.FailDispatch(ctx, Caller{Resume: p.Token}, a.id, FailRequest{"no such program"}); err != nil {
		t.Fatal(err)
	}
	rec := w.wantPhase(a.id, "paused-interruption")
	if rec.Resume.Attempt != 1 || rec.Pause.Reason != "restart" || rec.Pause.Detail != "the dispatch failed: no such program" {
		t.Errorf("the record is %s", mustJSON(rec))
	}
	_, err := w.s.Attach(ctx, a.c, a.id, AttachRequest{})
	wantCode(t, err, StaleWriter)
	_, err = w.s.Activate(ctx, Caller{Resume: p.Token}, a.id, ActivateRequest{})
	wantCode(t, err, WrongPhase)
}

// TestExhausted: the third dispatch that comes to nothing ends the run,
// whatever way it came to nothing.
func TestExhausted(t *testing.T) {
	for name, miss := range map[string]func(w *world, pass func(time.Duration), id string){
		"failed": func(w *world, _ func(time.Duration), id string) {
			p := w.mustPrepare(id, PrepareRequest{Force: true})
			if _, _, err := w.s.FailDispatch(ctx, Caller{Resume: p.Token}, id, FailRequest{}); err != nil {
				w.t.Fatal(err)
			}
		},
		"timed out": func(w *world, pass func(time.Duration), id string) {
			w.mustPrepare(id, PrepareRequest{Force: true})
			pass(DispatchTimeout + 2*time.Second)
		},
		"crashed while dispatched": func(w *world, _ func(time.Duration), id string) {
			w.mustPrepare(id, PrepareRequest{Force: true})
			w.reopen()
		},
		"interrupted again": func(w *world, _ func(time.Duration), id string) {
			w.resume(id, PrepareRequest{}).mustAppend(`{}`)
			w.reopen()
		},
		"silent again": func(w *world, pass func(time.Duration), id string) {
			w.resume(id, PrepareRequest{})
			pass(LeaseDefault + 2*time.Second)
		},
	} {
		t.Run(name, func(t *testing.T) {
			w, f := newTimed(t)
			pass := func(d time.Duration) { w.pass(f, d) }
			a := w.start(StartRequest{ID: "exec_e", Lease: -1, Labels: Labels{"thread": "T"}, ResumeRequest: []byte("x")})
			w.reopen()
			miss(w, pass, a.id)
			miss(w, pass, a.id)
			rec := w.wantPhase(a.id, "paused-interruption")
			if rec.Resume.Attempt != 2 {
				t.Errorf("two misses count as %d", rec.Resume.Attempt)
			}
			b := w.resume(a.id, PrepareRequest{})
			b.mustClaim("c", "t", "read-only") // progress: counting begins anew
			b.mustOutcome(1, `{}`)
			w.reopen()
			for range 2 {
				miss(w, pass, a.id)
				w.wantPhase(a.id, "paused-interruption")
			}
			miss(w, pass, a.id)
			rec = w.wantPhase(a.id, "terminal")
			if rec.Terminal.Status != ResumeExhausted {
				t.Errorf("it ended as %s", mustJSON(rec.Terminal))
			}
			before := w.picture()
			w.reopen()
			if after := w.picture(); after != before {
				t.Errorf("a restart changed\n%s\nto\n%s", before, after)
			}
			if n := w.count(uint32(w.ref(a.id)), kindJournal, onceTerminal); n != 1 {
				t.Errorf("%d terminal rows in the journal", n)
			}
		})
	}
}

// TestPause: an agent that lacks a permission gives its run up, keeps no right
// to it, and the run waits for exactly that scope.
func TestPause(t *testing.T) {
	w, _ := newTimed(t)
	bound := &Binding{Provider: "p", Model: "m", Scope: "mail:send"}
	a := w.start(StartRequest{Binding: bound})
	ask := func(scope string) error {
		b := *bound
		b.Scope = scope
		_, _, err := w.s.Pause(ctx, a.c, a.id, PauseRequest{Reason: ForPermission, Binding: &b})
		return err
	}
	wantCode(t, ask("mail:read"), ScopeMismatch)
	_, _, err := w.s.Pause(ctx, a.c, a.id, PauseRequest{Reason: "tired"})
	wantCode(t, err, BadReason)
	a.mustClaim("c1", "t", "mutating")
	wantCode(t, ask("mail:send"), CallOpen)
	a.mustOutcome(1, `{}`)
	a.mustClaim("c2", "t", "read-only")
	if err := ask("mail:send"); err != nil {
		t.Fatal(err)
	}
	rec := w.wantPhase(a.id, "paused-permission")
	if rec.Epoch != 2 || rec.Pause.Reason != "permission" {
		t.Errorf("the record is %s", mustJSON(rec))
	}
	_, err = a.append(`{}`)
	wantCode(t, err, StaleWriter)
	w.reopen()
	w.wantPhase(a.id, "paused-permission")
	_, err = w.prepare(a.id, PrepareRequest{})
	wantCode(t, err, PermissionMissing)
	offered := func() int {
		t.Helper()
		offers, err := w.resumable()
		if err != nil {
			t.Fatal(err)
		}
		return len(offers)
	}
	x := w.watch(owner, WatchQuery{})
	if err := w.s.GrantScope(ctx, owner, "mail:read", true); err != nil || offered() != 0 || w.toldOffers(x) != 0 {
		t.Errorf("another scope offers it: %v", err)
	}
	wantCode(t, w.s.GrantScope(ctx, Caller{UID: 7}, "mail:send", true), NotOwner)
	if err := w.s.GrantScope(ctx, owner, "mail:send", true); err != nil || offered() != 1 || w.toldOffers(x) != 1 {
		t.Errorf("its scope does not offer it: %v", err)
	}
	w.reopen()
	if offered() != 1 {
		t.Error("a boot does not offer it")
	}
	p := w.mustPrepare(a.id, PrepareRequest{})
	if err := w.s.GrantScope(ctx, owner, "mail:send", false); err != nil {
		t.Fatal(err)
	}
	_, err = w.s.Activate(ctx, Caller{Resume: p.Token}, a.id, ActivateRequest{Binding: bound})
	wantCode(t, err, PermissionMissing)
	w.wantPhase(a.id, "paused-permission")
	if err := w.s.GrantScope(ctx, owner, "mail:send", true); err != nil {
		t.Fatal(err)
	}
	b := w.resume(a.id, PrepareRequest{Binding: bound})
	if _, err := w.s.Again(ctx, b.c, b.id, AgainRequest{Call: 2}); err != nil {
		t.Errorf("a harmless call that was open at the pause runs again: %v", err)
	}
	if scopes, err := w.s.Scopes(owner); err != nil || len(scopes) != 2 || scopes[1] != (Grant{"mail:send", 1000}) {
		t.Errorf("the scopes are %+v, %v", scopes, err)
	}
}

// resumable is the first page of the offers.
func (w *world) resumable() ([]Offer, error) {
	p, err := w.s.Resumable(owner, "")
	return p.Offers, err
}

// TestResumablePages: every run is on one page, and none on two.
func TestResumablePages(t *testing.T) {
	w, _ := newTimed(t)
	for i := range ResumableMax + 2 {
		w.start(StartRequest{ID: fmt.Sprint("exec_", i)})
	}
	w.reopen()
	first, err := w.s.Resumable(owner, "")
	if err != nil || len(first.Offers) != ResumableMax || first.Offers[0].ID != "exec_0" || first.Next == "" {
		t.Fatalf("%d offers, next %q, %v", len(first.Offers), first.Next, err)
	}
	rest, err := w.s.Resumable(owner, first.Next)
	if err != nil || len(rest.Offers) != 2 || rest.Offers[0].ID != fmt.Sprint("exec_", ResumableMax) || rest.Next != "" {
		t.Errorf("then %+v, %v", rest, err)
	}
	_, err = w.s.Resumable(owner, "no number")
	wantCode(t, err, BadCursor)
	_, err = w.s.Resumable(Caller{UID: 7}, "")
	wantCode(t, err, NotOwner)
}

// toldOffers counts the offers that a watcher is told of.
func (w *world) toldOffers(x *Watcher) (n int) {
	for _, ev := range w.told(x) {
		if ev.Kind == EventOffer {
			n++
		}
	}
	return n
}

// TestBinding: another provider than the run's is never taken silently; an
// owner's consent names one and serves one activation.
func TestBinding(t *testing.T) {
	w, _ := newTimed(t)
	one, two, three := &Binding{Provider: "one"}, &Binding{Provider: "two"}, &Binding{Provider: "three"}
	a := w.start(StartRequest{Binding: one})
	w.reopen()
	_, err := w.prepare(a.id, PrepareRequest{Force: true, Binding: two})
	wantCode(t, err, BindingMismatch)
	p := w.mustPrepare(a.id, PrepareRequest{Force: true})
	_, err = w.s.Activate(ctx, Caller{Resume: p.Token}, a.id, ActivateRequest{})
	wantCode(t, err, BadBinding)
	_, err = w.s.Activate(ctx, Caller{Resume: p.Token}, a.id, ActivateRequest{Binding: two})
	wantCode(t, err, BindingMismatch)
	rec := w.wantPhase(a.id, "paused-provider-change")
	if rec.Binding.Provider != "one" || rec.Pause.Reason != "provider-change" {
		t.Errorf("the record is %s", mustJSON(rec))
	}
	_, err = w.prepare(a.id, PrepareRequest{})
	wantCode(t, err, BindingMismatch)
	p = w.mustPrepare(a.id, PrepareRequest{AllowBinding: two})
	_, err = w.s.Activate(ctx, Caller{Resume: p.Token}, a.id, ActivateRequest{Binding: three})
	wantCode(t, err, BindingMismatch)
	p = w.mustPrepare(a.id, PrepareRequest{Binding: one}) // its own is offered again
	_, err = w.s.Activate(ctx, Caller{Resume: p.Token}, a.id, ActivateRequest{Binding: two})
	wantCode(t, err, BindingMismatch) // the consent was for one activation
	w.wantPhase(a.id, "paused-provider-change")
}

// TestConsent: a provider that an owner allowed is the run's from then on.
func TestConsent(t *testing.T) {
	w, _ := newTimed(t)
	one, two := &Binding{Provider: "one"}, &Binding{Provider: "two"}
	a := w.start(StartRequest{Binding: one})
	if _, _, err := w.s.Pause(ctx, a.c, a.id, PauseRequest{Reason: ForProviderChange, Binding: two}); err != nil {
		t.Fatal(err)
	}
	p := w.mustPrepare(a.id, PrepareRequest{AllowBinding: two})
	got, err := w.s.Activate(ctx, Caller{Resume: p.Token}, a.id, ActivateRequest{Binding: two})
	if err != nil || got.Record.Binding.Provider != "two" {
		t.Fatalf("%s, %v", mustJSON(got.Record), err)
	}
}

// TestActivationThatPauses: where the provider on offer is another one, or the
// scope was revoked meanwhile, nothing was dispatched, and that does not count:
// such a run is not ended for it.
func TestActivationThatPauses(t *testing.T) {
	w, _ := newTimed(t)
	bound, other := &Binding{Provider: "p", Scope: "mail"}, &Binding{Provider: "q"}
	w.start(StartRequest{ID: "exec_a", Binding: bound})
	w.reopen()
	for n := range 2 * DispatchesMax {
		if err := w.s.GrantScope(ctx, owner, "mail", true); err != nil {
			t.Fatal(err)
		}
		p := w.mustPrepare("exec_a", PrepareRequest{Binding: bound, Force: true})
		if p.Record.Resume.Attempt != 1 {
			t.Fatalf("dispatch %d is counted as %d", n, p.Record.Resume.Attempt)
		}
		r, want := ActivateRequest{Binding: other}, BindingMismatch
		if n%2 == 0 {
			if err := w.s.GrantScope(ctx, owner, "mail", false); err != nil {
				t.Fatal(err)
			}
			r, want = ActivateRequest{Binding: bound}, PermissionMissing
		}
		_, err := w.s.Activate(ctx, Caller{UID: 7, Resume: p.Token}, "exec_a", r)
		wantCode(t, err, want)
		if got := w.record("exec_a").Resume.Attempt; got != 0 {
			t.Fatalf("after it the attempt is %d", got)
		}
	}
	if err := w.s.GrantScope(ctx, owner, "mail", true); err != nil {
		t.Fatal(err)
	}
	w.resume("exec_a", PrepareRequest{Binding: bound})
	w.reopen() // the first dispatch that came to something is lost
	w.wantPhase("exec_a", "paused-interruption")
}
