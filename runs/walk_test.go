package runs

import (
	"testing"
	"time"

	"durafs/internal/clock"
)

// walker brings runs into every phase and lets every event happen to them.
type walker struct {
	*world
	clock  *clock.Fake
	resume map[string]string // resume tokens, by run
}

// to starts a run and brings it into p.
func (w *walker) to(p Phase) *agent {
	w.t.Helper()
	bound := &Binding{Scope: "s"}
	a := w.start(StartRequest{Binding: bound, Lease: 10 * time.Second, Labels: Labels{"thread": "T"}})
	must := func(err error) {
		w.t.Helper()
		if err != nil {
			w.t.Fatalf("on the way to %s: %v", p, err)
		}
	}
	lose := func() {
		w.pass(w.clock, 12*time.Second)
	}
	switch p {
	case PausedInterruption:
		lose()
	case PausedSideEffectUncertain:
		a.mustClaim("c", "t", "mutating")
		lose()
	case PausedPermission, PausedProviderChange:
		reason := map[Phase]PauseReason{PausedPermission: ForPermission, PausedProviderChange: ForProviderChange}[p]
		_, _, err := w.s.Pause(ctx, a.c, a.id, PauseRequest{Reason: reason, Binding: bound})
		must(err)
		// The agent's token is of an epoch that has ended; the table is asked
		// with the present one.
		a.c.Writer = w.s.token(uint32(w.ref(a.id)), 2, purposeWriter)
	case ResumeDispatching:
		lose()
		pr := w.mustPrepare(a.id, PrepareRequest{Force: true})
		w.resume[a.id] = pr.Token
		a.c.Writer = w.s.token(uint32(w.ref(a.id)), 2, purposeWriter)
	case CancelRequested:
		must(w.cancel(a.id))
	case Cancelled:
		must(w.cancel(a.id))
		a.try("ack")
	case Terminal:
		a.mustSettle("")
	}
	w.wantPhase(a.id, p.String())
	return a
}

// events are how each event of the table comes about; those without an entry
// are the store's own, or have no request that could come at a wrong time.
var events = map[event]func(w *walker, a *agent) error{
	evBeat: func(w *walker, a *agent) error { _, err := a.beat(); return err },
	evWrite: func(w *walker, a *agent) error {
		_, err := a.append(`{"x":1}`)
		return err
	},
	evOutcome: func(w *walker, a *agent) error { _, err := a.outcome(7, `{"x":1}`); return err },
	evSettle:  func(w *walker, a *agent) error { _, err := a.settle(Failure, "other"); return err },
	evPause: func(w *walker, a *agent) error {
		_, _, err := w.s.Pause(ctx, a.c, a.id, PauseRequest{Reason: ForPermission, Binding: &Binding{Scope: "s"}})
		return err
	},
	evCancel: func(w *walker, a *agent) error { return w.cancel(a.id) },
	evPrepare: func(w *walker, a *agent) error {
		var r PrepareRequest
		r.Force = true
		for _, o := range w.record(a.id).OpenCalls {
			r.Close = append(r.Close, o.Call)
		}
		r.AllowBinding = &Binding{Scope: "s"}
		_, err := w.prepare(a.id, r)
		return err
	},
	evAttach: func(w *walker, a *agent) error {
		calls := map[uint64]string{}
		for _, o := range w.record(a.id).OpenCalls {
			calls[o.Call] = "ended"
		}
		_, err := w.s.Attach(ctx, a.c, a.id, AttachRequest{Calls: calls})
		return err
	},
	evActivate: func(w *walker, a *agent) error {
		num := uint32(w.ref(a.id))
		epoch, _ := w.s.epochs(num)
		c := Caller{Resume: w.s.token(num, epoch, purposeResume)}
		_, err := w.s.Activate(ctx, c, a.id, ActivateRequest{Binding: &Binding{Scope: "s"}})
		return err
	},
	evFail: func(w *walker, a *agent) error {
		_, _, err := w.s.FailDispatch(ctx, owner, a.id, FailRequest{})
		return err
	},
}

// TestWalk lets every event happen in every phase, by its request: what the
// table takes changes the run to one of the phases that it names, what it
// refuses is refused with its code and writes nothing, and what is late is kept
// as late and changes nothing else.
func TestWalk(t *testing.T) {
	world, f := newTimed(t)
	if err := world.s.GrantScope(ctx, owner, "s", true); err != nil {
		t.Fatal(err)
	}
	w := &walker{world, f, map[string]string{}}
	pairs := 0
	for p := Running; int(p) < phaseCount; p++ {
		if p == Settling {
			continue // others see the run before it or behind it
		}
		for e := range eventCount {
			happen := events[e]
			if happen == nil {
				continue
			}
			pairs++
			a := w.to(p)
			before, rows, durable := w.record(a.id), w.logText(a.id), w.log.Durable()
			err := happen(w, a)
			rule := transitions[p][e]
			after := w.record(a.id)
			switch rule.verdict {
			case taken:
				if e == evOutcome { // of a call that there is not
					wantCode(t, err, UnknownCall)
					break
				}
				if err != nil || !leadsTo(rule, p, after.Phase) {
					t.Errorf("%s in %s: %v, and it is %s", e, p, err, after.Phase)
				}
			case adopted:
				wantCode(t, err, rule.code)
			default:
				if CodeOf(err) != rule.code {
					t.Errorf("%s in %s: %v, want %s", e, p, err, rule.code)
				}
				lates := after.LateRows - before.LateRows
				if (rule.verdict == late) != (lates == 1) || after.Revision != before.Revision || w.logText(a.id) != rows {
					t.Errorf("%s in %s: %d late rows, revision %d to %d", e, p, lates, before.Revision, after.Revision)
				}
				if rule.verdict == refused && w.log.Durable() != durable {
					t.Errorf("%s in %s: it was refused and wrote something", e, p)
				}
			}
		}
	}
	if pairs != 9*10 {
		t.Errorf("%d pairs were walked", pairs)
	}
}

func leadsTo(r rule, from Phase, to string) bool {
	if len(r.to) == 0 {
		return to == from.String()
	}
	for _, p := range r.to {
		// A cancelled run that no agent has is over at once, and a settlement
		// is one unit.
		if p.String() == to || p == CancelRequested && to == Cancelled.String() || p == Settling && to == Terminal.String() {
			return true
		}
	}
	return false
}
