package runs

import (
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func (a *agent) claim(callID, name, safety string) (Claimed, error) {
	return a.w.s.Claim(ctx, a.c, a.id, ClaimRequest{CallID: callID, Name: name, Safety: mustJSON(safety), Args: []byte(`{"of":"` + callID + `"}`)})
}

func (a *agent) mustClaim(callID, name, safety string) Claimed {
	a.w.t.Helper()
	got, err := a.claim(callID, name, safety)
	if err != nil {
		a.w.t.Fatalf("claim %s: %v", callID, err)
	}
	return got
}

func (a *agent) outcome(call uint64, text string) (Committed, error) {
	return a.w.s.Outcome(ctx, a.c, a.id, OutcomeRequest{Call: call, Outcome: []byte(text)})
}

func (a *agent) mustOutcome(call uint64, text string) Committed {
	a.w.t.Helper()
	got, err := a.outcome(call, text)
	if err != nil {
		a.w.t.Fatalf("outcome of %d: %v", call, err)
	}
	return got
}

func (w *world) record(id string) *Record {
	w.t.Helper()
	rec, err := w.s.Record(w.ref(id))
	if err != nil {
		w.t.Fatal(err)
	}
	return rec
}

// TestClaim: a call gets numbers within the run and within its tool, and shows
// in record and log, with its outcome and after a restart as well.
func TestClaim(t *testing.T) {
	w := newWorld(t)
	a := w.start(StartRequest{ID: "exec_a"})
	for i, want := range []Claimed{
		{Call: 1, Index: 0, Key: "exec_a:read:0", Attempt: 1, Safety: ReadOnly},
		{Call: 2, Index: 0, Key: "exec_a:write:0", Attempt: 1, Safety: Mutating},
		{Call: 3, Index: 1, Key: "exec_a:read:1", Attempt: 1, Safety: ReadOnly},
	} {
		got := a.mustClaim(fmt.Sprint("c", i+1), []string{"read", "write", "read"}[i], string(want.Safety))
		if d := cmp.Diff(want, got); d != "" {
			t.Error(d)
		}
	}
	got := a.mustOutcome(1, `{"status":"ok", "n":1e400 }`)
	if string(got.Outcome) != `{"status":"ok", "n":1e400 }` || got.Call != 1 || got.Replayed {
		t.Errorf("the outcome is answered with %+v", got)
	}
	rec := w.record(a.id)
	if rec.Class != "mutating" || rec.ProgressCount != 4 || rec.Revision != 5 || len(rec.OpenCalls) != 2 || rec.OpenCalls[0].Call != 2 {
		t.Errorf("the record is %s", mustJSON(rec))
	}
	if got := w.ownTypes(a.id); got != "accepted tool-call tool-call tool-call tool-result" {
		t.Errorf("the log tells: %s", got)
	}
	before := w.picture()
	w.reopen()
	a.attachEnded()
	if got := a.mustClaim("c4", "read", "read-only"); got.Call != 4 || got.Index != 2 {
		t.Errorf("after a restart a claim gets %+v", got)
	}
	calls, err := w.s.Calls(w.ref(a.id), 1, 2)
	if err != nil || len(calls) != 2 || calls[0].CallID != "c2" || calls[0].Result != nil || string(calls[1].Args) != `{"of":"c3"}` {
		t.Errorf("calls above 1: %s, %v\n%s", mustJSON(calls), err, before)
	}
	calls, _ = w.s.Calls(w.ref(a.id), 0, 0)
	if len(calls) != 4 || calls[0].Result == nil || string(calls[0].Result.Outcome) != `{"status":"ok", "n":1e400 }` {
		t.Errorf("all calls: %s", mustJSON(calls))
	}
}

// attachEnded attaches and says of every open call that it has ended.
func (a *agent) attachEnded() {
	a.w.t.Helper()
	calls := map[uint64]string{}
	for _, o := range a.w.record(a.id).OpenCalls {
		calls[o.Call] = "ended"
	}
	if _, err := a.w.s.Attach(ctx, a.c, a.id, AttachRequest{Calls: calls}); err != nil {
		a.w.t.Fatalf("attach: %v", err)
	}
}

// TestClaimOnce: one label is claimed once, in every epoch; a repeated request
// with its key gets the first answer as long as the call is open.
func TestClaimOnce(t *testing.T) {
	w := newWorld(t)
	a := w.start(StartRequest{ID: "exec_a"})
	keyed := ClaimRequest{CallID: "c1", Name: "t", Safety: []byte(`"idempotent"`), IdempotencyKey: "k", BodyHash: [32]byte{1}}
	first, err := w.s.Claim(ctx, a.c, a.id, keyed)
	if err != nil {
		t.Fatal(err)
	}
	again, err := w.s.Claim(ctx, a.c, a.id, keyed)
	if again.Replayed = !again.Replayed; err != nil || again != first {
		t.Errorf("the same again: %+v, %v", again, err)
	}
	other := keyed
	other.BodyHash[0] = 2
	for name, ask := range map[string]func() error{
		"without its key":   func() error { _, err := a.claim("c1", "t", "idempotent"); return err },
		"with another body": func() error { _, err := w.s.Claim(ctx, a.c, a.id, other); return err },
	} {
		r := wantCode(t, ask(), CallExists)
		if r.Call != 1 || r.State != "open" {
			t.Errorf("%s: %+v", name, r)
		}
	}
	a.mustOutcome(1, `{"status":"ok"}`)
	_, err = w.s.Claim(ctx, a.c, a.id, keyed)
	if r := wantCode(t, err, CallExists); r.State != "settled" {
		t.Errorf("settled: %+v", r)
	}
	w.reopen()
	a.attachEnded()
	_, err = a.claim("c1", "t", "idempotent")
	wantCode(t, err, CallExists)
	if rec := w.record(a.id); rec.ProgressCount != 2 {
		t.Errorf("progress is %d", rec.ProgressCount)
	}
}

// TestOutcomeOnce: the same outcome again is no news, however it is written;
// another one is refused with what stands.
func TestOutcomeOnce(t *testing.T) {
	w := newWorld(t)
	a := w.start(StartRequest{ID: "exec_a"})
	_, err := a.outcome(1, `{}`)
	wantCode(t, err, UnknownCall)
	a.mustClaim("c1", "t", "read-only")
	first := `{"status":"ok","out":{"b":[1,2.50],"a":"ä"}}`
	a.mustOutcome(1, first)
	for range 2 {
		for _, same := range []string{first, `{ "out" : {"a":"\u00e4","b":[1,2.50]}, "status":"ok"}`} {
			got, err := a.outcome(1, same)
			if err != nil || !got.Replayed || string(got.Outcome) != first {
				t.Errorf("%s: %+v, %v", same, got, err)
			}
		}
		for _, other := range []string{`{"status":"ok"}`, `{"status":"ok","out":{"b":[1,2.5],"a":"ä"}}`} {
			_, err := a.outcome(1, other)
			if r := wantCode(t, err, OutcomeConflict); r.Committed == nil || string(r.Committed.Outcome) != first {
				t.Errorf("%s: %+v", other, r)
			}
		}
		w.reopen()
		a.attachEnded()
	}
	for _, bad := range []string{"", "[]", `"x"`, "{", `{"a":1}x`, "{\"a\":\"\xff\"}"} {
		_, err := a.outcome(1, bad)
		wantCode(t, err, RowInvalid)
	}
	_, err = a.outcome(1, `{"a":"`+strings.Repeat("x", OutcomeBytesMax)+`"}`)
	wantCode(t, err, TooLarge)
}

// TestSafety: only a class that is exactly declared counts, the owner's word
// makes it worse, and no later claim makes a run's class better.
func TestSafety(t *testing.T) {
	for text, want := range map[string]Safety{
		`"read-only"`: ReadOnly, `"idempotent"`: Idempotent, `"mutating"`: Mutating, `"unknown"`: UnknownSafety,
		`"Read-Only"`: UnknownSafety, `"readonly"`: UnknownSafety, `"read-only "`: UnknownSafety, `null`: UnknownSafety, `0`: UnknownSafety,
		`true`: UnknownSafety, `["read-only"]`: UnknownSafety, `{"safety":"read-only"}`: UnknownSafety, ``: UnknownSafety, `"read-only`: UnknownSafety,
	} {
		if got := ParseSafety(json.RawMessage(text)); got != want {
			t.Errorf("%s counts as %s, want %s", text, got, want)
		}
	}
	for i, a := range safeties {
		for j, b := range safeties {
			if a.Worst(b) != safeties[max(i, j)] {
				t.Errorf("the worse of %s and %s is %s", a, b, a.Worst(b))
			}
		}
	}
	w := newWorld(t)
	owner := Caller{Owner: true}
	wantCode(t, w.s.SetToolClass(ctx, Caller{UID: 7}, "bash", Mutating), NotOwner)
	if err := w.s.SetToolClass(ctx, owner, "bash", Mutating); err != nil {
		t.Fatal(err)
	}
	w.reopen()
	a := w.start(StartRequest{})
	if got := a.mustClaim("1", "cat", "read-only"); got.Safety != ReadOnly || w.record(a.id).Class != "read-only" {
		t.Errorf("cat counts as %s", got.Safety)
	}
	if got := a.mustClaim("2", "bash", "read-only"); got.Safety != Mutating || w.record(a.id).Class != "mutating" {
		t.Errorf("bash counts as %s", got.Safety)
	}
	a.mustClaim("3", "cat", "read-only")
	if got := w.record(a.id).Class; got != "mutating" {
		t.Errorf("the run's class got better: %s", got)
	}
	if err := w.s.SetToolClass(ctx, owner, "bash", ""); err != nil {
		t.Fatal(err)
	}
	if got := a.mustClaim("4", "bash", "read-only"); got.Safety != ReadOnly {
		t.Errorf("without the owner's word bash counts as %s", got.Safety)
	}
	if got := w.record(a.id).Class; got != "mutating" {
		t.Errorf("the run's class got better: %s", got)
	}
}

// TestClaimBounds: names, sizes and numbers.
func TestClaimBounds(t *testing.T) {
	w := newWorld(t)
	a := w.start(StartRequest{})
	for name, tt := range map[string]struct {
		r    ClaimRequest
		code Code
	}{
		"no label":      {ClaimRequest{Name: "t"}, BadName},
		"no tool":       {ClaimRequest{CallID: "c"}, BadName},
		"tool name":     {ClaimRequest{CallID: "c", Name: "a b"}, BadName},
		"long name":     {ClaimRequest{CallID: "c", Name: strings.Repeat("a", ToolNameBytesMax+1)}, BadName},
		"large":         {ClaimRequest{CallID: "c", Name: "t", Args: []byte(`"` + strings.Repeat("x", ArgsBytesMax) + `"`)}, TooLarge},
		"no JSON":       {ClaimRequest{CallID: "c", Name: "t", Args: []byte(`{`)}, RowInvalid},
		"both":          {ClaimRequest{CallID: "c", Name: "t", Args: []byte(`{}`), ArgsPayload: "p"}, BadName},
		"not a payload": {ClaimRequest{CallID: "c", Name: "t", ArgsPayload: "p"}, UnknownPayload},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := w.s.Claim(ctx, a.c, a.id, tt.r)
			wantCode(t, err, tt.code)
		})
	}
	for i := range OpenCallsMax {
		a.mustClaim(fmt.Sprint(i), "t", "read-only")
	}
	_, err := a.claim("one more", "t", "read-only")
	wantCode(t, err, TooManyCalls)
	a.mustOutcome(1, `{}`)
	a.mustClaim("one more", "t", "read-only")
	large := `{"x":"` + strings.Repeat("x", ArgsBytesMax-100) + `"}`
	a.mustOutcome(2, large)
	if _, err := w.s.Claim(ctx, a.c, a.id, ClaimRequest{CallID: "large", Name: "t", Args: []byte(large)}); err != nil {
		t.Fatal(err)
	}
	calls, err := w.s.Calls(w.ref(a.id), 0, 0)
	if err != nil || string(calls[1].Result.Outcome) != large || string(calls[len(calls)-1].Args) != large {
		t.Errorf("what is large is not read back: %v", err)
	}
}

// TestClaimsTogether: claims of one run at the same time get every number once.
func TestClaimsTogether(t *testing.T) {
	w := newWorld(t)
	a := w.start(StartRequest{})
	const n = 40
	got := make([]Claimed, n)
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() {
			var err error
			if got[i], err = a.claim(fmt.Sprint(i%20), "t", "read-only"); err != nil && CodeOf(err) != CallExists {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	calls, indexes := map[uint64]bool{}, map[uint64]bool{}
	for _, c := range got {
		if c.Call != 0 {
			calls[c.Call], indexes[c.Index] = true, true
		}
	}
	if len(calls) != n/2 || len(indexes) != n/2 || !calls[n/2] || !indexes[0] {
		t.Errorf("the calls are %v, the indexes %v", calls, indexes)
	}
}

// TestSettleClosesCalls: calls without an outcome end with the run as unknown,
// and what comes then is late, but for what says the same as is there.
func TestSettleClosesCalls(t *testing.T) {
	w := newWorld(t)
	a := w.start(StartRequest{})
	a.mustClaim("c1", "t", "mutating")
	a.mustClaim("c2", "t", "mutating")
	a.mustOutcome(2, `{"status":"ok"}`)
	a.mustSettle("")
	if got := w.ownTypes(a.id); got != "accepted tool-call tool-call tool-result tool-result terminal" {
		t.Errorf("the log tells: %s", got)
	}
	if rec := w.record(a.id); len(rec.OpenCalls) != 0 || rec.ProgressCount != 3 {
		t.Errorf("the record is %s", mustJSON(rec))
	}
	for range 2 {
		got, err := a.outcome(2, `{"status":"ok"}`)
		if err != nil || !got.Replayed {
			t.Errorf("the same outcome after the end: %+v, %v", got, err)
		}
		_, err = a.outcome(1, `{"status":"ok"}`)
		wantCode(t, err, Finished)
		_, err = a.claim("c3", "t", "mutating")
		wantCode(t, err, Finished)
		w.reopen()
	}
	if got := w.info(a.id).LateRows; got != 2 || !strings.Contains(w.late(a.id), `"what":"outcome","code":"finished"`) {
		t.Errorf("%d late rows: %s", got, w.late(a.id))
	}
	calls, err := w.s.Calls(w.ref(a.id), 0, 0)
	if err != nil || calls[0].Result == nil || !calls[0].Result.ByStore {
		t.Errorf("calls: %s, %v", mustJSON(calls), err)
	}
}

// TestLostByClass: what a restart makes of a run is decided by the worst that
// it has claimed, with an outcome or without.
func TestLostByClass(t *testing.T) {
	for _, tt := range []struct {
		class   string
		settled bool
		phase   string
	}{
		{"", false, "paused-interruption"},
		{"read-only", false, "paused-interruption"},
		{"idempotent", false, "paused-interruption"},
		{"idempotent", true, "paused-interruption"},
		{"mutating", false, "paused-side-effect-uncertain"},
		{"mutating", true, "paused-side-effect-uncertain"},
		{"unknown", true, "paused-side-effect-uncertain"},
	} {
		t.Run(fmt.Sprint(tt.class, tt.settled), func(t *testing.T) {
			w := newWorld(t)
			a := w.start(StartRequest{})
			a.mustAppend(`{"a":1}`)
			if tt.class != "" {
				a.mustClaim("c", "t", tt.class)
				a.mustClaim("d", "t", "read-only")
			}
			if tt.settled {
				a.mustOutcome(1, `{}`)
			}
			w.reopen()
			rec := w.record(a.id)
			if rec.Phase != tt.phase {
				t.Errorf("it is %s, want %s", rec.Phase, tt.phase)
			}
			_, err := a.outcome(1, `{}`)
			wantCode(t, err, AttachRequired)
			if got := w.info(a.id).LateRows; got != 0 {
				t.Errorf("%d late rows", got)
			}
			_, err = w.s.Attach(ctx, a.c, a.id, AttachRequest{})
			if len(rec.OpenCalls) > 0 {
				wantCode(t, err, UnaccountedCalls)
				a.attachEnded()
			}
			if now := w.record(a.id); now.Phase != "running" || now.Epoch != 1 {
				t.Errorf("then it is %s", mustJSON(now))
			}
		})
	}
}
