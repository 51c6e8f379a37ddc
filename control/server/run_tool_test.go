package server

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"durafs/control"
	"durafs/projection"
	"durafs/runs"
)

// toolRun is a handle for a run of its own, whose calls this test makes.
func (d *realDaemon) toolRun() *control.Run {
	d.t.Helper()
	c := d.client()
	c.Patience = 10 * time.Second
	c.ProjectionTimeout = 5 * time.Second
	run, err := c.Run(d.t.Context(), control.StartRequest{})
	if err != nil {
		d.t.Fatal(err)
	}
	d.t.Cleanup(func() { run.Close() })
	return run
}

// shown is the projection of one text.
func shown(text string) string {
	return fmt.Sprintf(`{"v":1,"status":"ok","parts":[{"kind":"text","text":%q}]}`, text)
}

// TestTool: what a tool returns is recorded, what is committed is returned, and
// a call that has ended is answered without running again.
func TestTool(t *testing.T) {
	d := serveStore(t)
	run := d.toolRun()
	large := strings.Repeat("long ", 20<<10)
	for i, c := range []struct {
		value      any
		err        error
		outcome    string // its beginning
		projection string // its beginning
	}{
		{"a <b>", nil, `{"status":"ok","value":"a <b>"}`, shown("a <b>")},
		{map[string]any{"n": 1}, nil, `{"status":"ok","value":{"n":1}}`, `{"v":1,"status":"ok","parts":[{"kind":"json","value":{"n":1}}]}`},
		{nil, nil, `{"status":"ok"}`, shown("done")},
		{nil, errors.New("no such file"), `{"status":"error","error":"no such file"}`, `{"v":1,"status":"error","parts":[{"kind":"text","text":"no such file"}]}`},
		{"half", errors.New("cut"), `{"status":"error","error":"cut","value":"half"}`, `{"v":1,"status":"error","parts":[{"kind":"text","text":"cut"},{"kind":"text","text":"half"}]}`},
		{make(chan int), nil, `{"status":"error","error":"control: a value that cannot be JSON`, `{"v":1,"status":"error"`},
		{large, nil, `{"status":"ok","payload":{"name":"result-7-1"`, `{"v":1,"status":"ok","parts":[{"kind":"text","text":"long long`},
	} {
		ran := 0
		call := control.ToolCall{ID: fmt.Sprint("c", i), Name: "look", Args: map[string]int{"i": i}}
		effect := func(_ context.Context, k control.Claimed) (any, error) {
			ran++
			if want := fmt.Sprintf("%s:look:%d", run.ID(), i); k.Key != want || k.Attempt != 1 || k.Call != uint64(i+1) {
				t.Errorf("%+v, want the key %s", k, want)
			}
			return c.value, c.err
		}
		got, err := run.Tool(t.Context(), call, control.ReadOnly, effect, nil)
		if err != nil || got.Replayed || !strings.HasPrefix(string(got.Outcome), c.outcome) || !strings.HasPrefix(string(got.Projection), c.projection) {
			t.Errorf("%d: %v %.300s %.300s", i, err, got.Outcome, got.Projection)
		}
		again, err := run.Tool(t.Context(), call, control.ReadOnly, effect, nil)
		if err != nil || !again.Replayed || string(again.Projection) != string(got.Projection) || ran != 1 {
			t.Errorf("%d again: %v %+v, the tool ran %d times", i, err, again, ran)
		}
	}
	p, err := d.client().Payload(t.Context(), run.ID(), "result-7-1", 0, -1)
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	if b, _ := io.ReadAll(p); string(b) != large || !strings.HasPrefix(p.ContentType, "text/plain") {
		t.Errorf("the large value is %d bytes of %s", len(b), p.ContentType)
	}
	if n := strings.Count(d.historyOf(run.ID(), control.HistoryQuery{}), "\n"); n != 7 {
		t.Errorf("the history has %d calls", n)
	}
}

// TestToolProjectors: whatever becomes of the projector, the outcome is there.
func TestToolProjectors(t *testing.T) {
	d := serveStore(t)
	held := make(chan struct{})
	defer close(held)
	for name, p := range map[string]control.Projector{
		"hangs":  func(context.Context, json.RawMessage) ([]byte, error) { <-held; return nil, nil },
		"panics": func(context.Context, json.RawMessage) ([]byte, error) { panic("no") },
		"fails":  func(context.Context, json.RawMessage) ([]byte, error) { return []byte(shown("x")), errors.New("no") },
		"empty":  func(context.Context, json.RawMessage) ([]byte, error) { return nil, nil },
		"odd":    func(context.Context, json.RawMessage) ([]byte, error) { return []byte(`{"v":2}`), nil },
		"late": func(ctx context.Context, _ json.RawMessage) ([]byte, error) {
			<-ctx.Done()
			return []byte(shown("late")), nil
		},
	} {
		t.Run(name, func(t *testing.T) {
			c := d.client()
			c.ProjectionTimeout = 20 * time.Millisecond
			run, err := c.Run(t.Context(), control.StartRequest{})
			if err != nil {
				t.Fatal(err)
			}
			defer run.Close()
			effect := func(context.Context, control.Claimed) (any, error) { return 1, nil }
			got, err := run.Tool(t.Context(), control.ToolCall{ID: "c", Name: "t"}, control.Mutating, effect, p)
			if err != nil || string(got.Projection) != projection.Sentinel || string(got.Outcome) != `{"status":"ok","value":1}` {
				t.Errorf("%v %s %s", err, got.Outcome, got.Projection)
			}
		})
	}
	t.Run("in several lines", func(t *testing.T) {
		run := d.toolRun()
		k, err := run.Claim(t.Context(), control.ToolCall{ID: "c", Name: "t"}, control.Mutating)
		if err != nil {
			t.Fatal(err)
		}
		got, err := k.Settle(t.Context(), []byte("{\n\"a\":\n 1}"), func(_ context.Context, o json.RawMessage) ([]byte, error) {
			return []byte("\n" + strings.ReplaceAll(shown(string(o)), ",", ",\n")), nil
		})
		if err != nil || string(got.Outcome) != `{"a":1}` || string(got.Projection) != shown(`{"a":1}`) {
			t.Errorf("%v %s %s", err, got.Outcome, got.Projection)
		}
	})
}

// TestToolGivenUp: the outcome of a tool is recorded when its caller's time is
// over, when it panics, and when the outcome can be no object.
func TestToolGivenUp(t *testing.T) {
	d := serveStore(t)
	run := d.toolRun()
	ctx, cancel := context.WithCancel(t.Context())
	got, err := run.Tool(ctx, control.ToolCall{ID: "a", Name: "t"}, control.Mutating, func(ctx context.Context, _ control.Claimed) (any, error) {
		cancel()
		<-ctx.Done()
		return nil, ctx.Err()
	}, nil)
	if err != nil || string(got.Outcome) != `{"status":"error","error":"context canceled"}` || string(got.Projection) != projection.Sentinel {
		t.Errorf("%v %s %s", err, got.Outcome, got.Projection)
	}
	func() {
		defer func() {
			if v := recover(); v != "as I like" {
				t.Errorf("the panic is %v", v)
			}
		}()
		run.Tool(t.Context(), control.ToolCall{ID: "b", Name: "t"}, control.Mutating, func(context.Context, control.Claimed) (any, error) { panic("as I like") }, nil)
	}()
	again, err := run.Tool(t.Context(), control.ToolCall{ID: "b", Name: "t"}, control.Mutating, nil, nil)
	if err != nil || string(again.Outcome) != `{"status":"error","error":"the tool panicked"}` {
		t.Errorf("%v %s", err, again.Outcome)
	}
	k, err := run.Claim(t.Context(), control.ToolCall{ID: "c", Name: "t"}, control.Mutating)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := run.Claim(t.Context(), control.ToolCall{ID: "c", Name: "t"}, control.Mutating); err == nil {
		t.Error("a call that is under way was claimed")
	}
	for _, bad := range []string{``, `[]`, `{`, `{"a":"` + strings.Repeat("x", 256<<10) + `"}`, "{\"a\":\"\xff\"}"} {
		if _, err := k.Settle(t.Context(), []byte(bad), nil); err == nil {
			t.Errorf("%.20q was taken for an outcome", bad)
		}
	}
	if _, err := k.Settle(t.Context(), []byte(`{}`), nil); err != nil {
		t.Error(err)
	}
}

// TestToolAcrossRestarts: the daemon goes and comes back at each moment of a
// call, with the answer to a claim or outcome lost or not; the effect happens
// one time, and what is committed is what was meant.
func TestToolAcrossRestarts(t *testing.T) {
	for _, at := range []string{"claim lost", "claim unsent", "effect", "effect stopped", "projector", "outcome lost", "outcome unsent"} {
		t.Run(at, func(t *testing.T) {
			d := serveStore(t)
			run := d.toolRun()
			now := func(when string) {
				switch {
				case when != at:
				case strings.HasSuffix(at, "stopped"):
					d.restart()
				default:
					d.crash()
				}
			}
			goneFor := func(when string) (lost *losing) {
				if !strings.HasPrefix(at, when+" ") {
					return nil
				}
				l := &losing{Domain: d.s.runs, after: strings.HasSuffix(at, "lost"), gone: make(chan struct{})}
				l.left.Store(1)
				d.s.runs = l
				return l
			}
			recover := func(l *losing) {
				<-l.gone
				d.crash()
			}
			done := make(chan struct{})
			if l := goneFor("claim"); l != nil {
				l.claim = true
				go func() { defer close(done); recover(l) }()
			}
			ran := 0
			got, err := run.Tool(t.Context(), control.ToolCall{ID: "c", Name: "t"}, control.Mutating, func(context.Context, control.Claimed) (any, error) {
				ran++
				now("effect")
				now("effect stopped")
				if l := goneFor("outcome"); l != nil {
					l.outcome = true
					go func() { defer close(done); recover(l) }()
				}
				return "x", nil
			}, func(context.Context, json.RawMessage) ([]byte, error) {
				now("projector")
				return []byte(shown("seen")), nil
			})
			if err != nil || ran != 1 || string(got.Outcome) != `{"status":"ok","value":"x"}` {
				t.Fatalf("%v, ran %d times, %s", err, ran, got.Outcome)
			}
			if p := string(got.Projection); p != shown("seen") && (at != "projector" || p != projection.Sentinel) {
				t.Errorf("%s", p)
			}
			if strings.Contains(at, " ") && at != "effect stopped" {
				<-done
			}
			if want := uint64(1); run.Attached() != want && at != "effect stopped" && at != "effect" {
				t.Errorf("attached %d times", run.Attached())
			}
			if h := d.historyOf(run.ID(), control.HistoryQuery{}); strings.Count(h, "\n") != 1 || !strings.Contains(h, string(got.Projection)) {
				t.Errorf("the history is %s", h)
			}
			if _, err := run.Settle(t.Context(), control.SettleRequest{Status: control.Success}); err != nil {
				t.Error(err)
			}
		})
	}
}

// losing loses a request, or the answer to one that was carried out, and tells
// that the connections are to be cut now.
type losing struct {
	Domain
	claim, outcome, after bool
	left                  atomic.Int64
	gone                  chan struct{}
}

// lose waits for its connection to be cut.
func (l *losing) lose(ctx context.Context) error {
	close(l.gone)
	<-ctx.Done()
	return ctx.Err()
}

func (l *losing) Claim(ctx context.Context, c runs.Caller, id string, r runs.ClaimRequest) (runs.Claimed, error) {
	if !l.claim || l.left.Add(-1) != 0 {
		return l.Domain.Claim(ctx, c, id, r)
	}
	if l.after {
		if _, err := l.Domain.Claim(ctx, c, id, r); err != nil {
			return runs.Claimed{}, err
		}
	}
	return runs.Claimed{}, l.lose(ctx)
}

func (l *losing) Outcome(ctx context.Context, c runs.Caller, id string, r runs.OutcomeRequest) (runs.Committed, error) {
	if !l.outcome || l.left.Add(-1) != 0 {
		return l.Domain.Outcome(ctx, c, id, r)
	}
	if l.after {
		if _, err := l.Domain.Outcome(ctx, c, id, r); err != nil {
			return runs.Committed{}, err
		}
	}
	return runs.Committed{}, l.lose(ctx)
}

// TestToolAfterResume: of a call that was open when its agent was lost the
// class decides, or the owner.
func TestToolAfterResume(t *testing.T) {
	type prepare = runs.PrepareRequest
	for _, c := range []struct {
		safety string
		owner  prepare
		want   string // again, refused, closed
	}{
		{control.ReadOnly, prepare{}, "again"},
		{control.Idempotent, prepare{}, "again"},
		{control.Mutating, prepare{Retry: []uint64{1}}, "again"},
		{control.Mutating, prepare{Close: []uint64{1}}, "closed"},
		{"misspelt", prepare{Close: []uint64{1}}, "closed"},
	} {
		t.Run(c.safety+" "+c.want, func(t *testing.T) {
			d := serveStore(t)
			lost := d.toolRun()
			call := control.ToolCall{ID: "c", Name: "t", Args: 1}
			k, err := lost.Claim(t.Context(), call, c.safety)
			if err != nil {
				t.Fatal(err)
			}
			lost.Close()
			d.crash()
			run := d.resumed(lost.ID(), c.owner)
			if _, err := k.Settle(t.Context(), []byte(`{"of":"the dead"}`), nil); control.Code(err) != control.CodeStaleWriter {
				t.Errorf("the lost agent's outcome: %v", err)
			}
			ran := 0
			got, err := run.Tool(t.Context(), call, c.safety, func(_ context.Context, again control.Claimed) (any, error) {
				ran++
				if again.Key != k.Key || again.Attempt != 2 || again.Call != 1 {
					t.Errorf("again %+v, first %+v", again, k.Claimed)
				}
				d.crash() // and the handle attaches with a call that it runs
				return "x", nil
			}, nil)
			if c.want == "again" && (err != nil || ran != 1 || string(got.Projection) != shown("x") || got.Replayed) {
				t.Errorf("%v, ran %d times, %+v", err, ran, got)
			}
			if c.want == "closed" && (err != nil || ran != 0 || !got.ByStore || !strings.Contains(d.historyOf(run.ID(), control.HistoryQuery{}), `"result":`+string(got.Projection))) {
				t.Errorf("%v, ran %d times, %+v", err, ran, got)
			}
		})
	}
}

// TestToolTheOwnerDecides: where nobody has decided, the tool does not run.
// That is so for a class that got worse, and for another process of the same
// epoch.
func TestToolTheOwnerDecides(t *testing.T) {
	d := serveStore(t)
	first := d.toolRun()
	if _, err := first.Claim(t.Context(), control.ToolCall{ID: "c", Name: "t"}, control.Mutating); err != nil {
		t.Fatal(err)
	}
	other, err := d.client().WithWriter(first.Token()).Adopt(t.Context(), first.ID())
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	_, err = other.Tool(t.Context(), control.ToolCall{ID: "c", Name: "t"}, control.ReadOnly, func(context.Context, control.Claimed) (any, error) {
		t.Error("it ran")
		return nil, nil
	}, nil)
	if !errors.Is(err, control.ErrOwnerDecides) || control.Code(err) != control.CodeAgainRefused {
		t.Errorf("%v", err)
	}
}

// resumed prepares and activates a run, whose agent is known to be dead.
func (d *realDaemon) resumed(id string, q runs.PrepareRequest) *control.Run {
	d.t.Helper()
	_, tag, err := d.client().Get(d.t.Context(), id)
	if err != nil {
		d.t.Fatal(err)
	}
	q.IfMatch, q.Dead = tag, true
	owner := runs.Caller{Owner: true}
	p, err := d.store.Runs().Prepare(d.t.Context(), owner, id, q)
	if err != nil {
		d.t.Fatal(err)
	}
	a, err := d.store.Runs().Activate(d.t.Context(), runs.Caller{Resume: p.Token}, id, runs.ActivateRequest{})
	if err != nil {
		d.t.Fatal(err)
	}
	run, err := d.client().WithWriter(a.Writer).Adopt(d.t.Context(), id)
	if err != nil {
		d.t.Fatal(err)
	}
	d.t.Cleanup(func() { run.Close() })
	return run
}

// TestToolStops: after an outcome that could not be recorded nothing more is
// claimed until it is.
func TestToolStops(t *testing.T) {
	d := serveStore(t)
	run := d.toolRun()
	f := &failingOutcomes{Domain: d.s.runs}
	d.s.runs = f
	f.failing.Store(true)
	ran := 0
	effect := func(context.Context, control.Claimed) (any, error) { ran++; return "x", nil }
	if _, err := run.Tool(t.Context(), control.ToolCall{ID: "a", Name: "t"}, control.Mutating, effect, nil); control.Code(err) != "unknown-call" {
		t.Fatalf("%v", err)
	}
	for _, id := range []string{"a", "b"} {
		if _, err := run.Tool(t.Context(), control.ToolCall{ID: id, Name: "t"}, control.Mutating, effect, nil); !errors.Is(err, control.ErrUnsettled) {
			t.Errorf("the next call: %v", err)
		}
	}
	f.failing.Store(false)
	if _, err := run.Tool(t.Context(), control.ToolCall{ID: "b", Name: "t"}, control.Mutating, effect, nil); err != nil {
		t.Error(err)
	}
	got, err := run.Tool(t.Context(), control.ToolCall{ID: "a", Name: "t"}, control.Mutating, effect, nil)
	if err != nil || !got.Replayed || string(got.Projection) != shown("x") || ran != 2 {
		t.Errorf("%v %+v, ran %d times", err, got, ran)
	}
}

// failingOutcomes refuses outcomes for as long as it is to.
type failingOutcomes struct {
	Domain
	failing atomic.Bool
}

func (f *failingOutcomes) Outcome(ctx context.Context, c runs.Caller, id string, r runs.OutcomeRequest) (runs.Committed, error) {
	if f.failing.Load() {
		return runs.Committed{}, &runs.Refusal{Code: runs.UnknownCall}
	}
	return f.Domain.Outcome(ctx, c, id, r)
}

// TestToolOfACancelledRun: when the owner cancels the run, the tool that runs is
// told so, and its outcome is still recorded; the next call is refused.
func TestToolOfACancelledRun(t *testing.T) {
	d := serveStore(t)
	lease := int64(300) // so that it beats often
	run, err := d.client().Run(t.Context(), control.StartRequest{LeaseMS: &lease})
	if err != nil {
		t.Fatal(err)
	}
	defer run.Close()
	got, err := run.Tool(t.Context(), control.ToolCall{ID: "a", Name: "t"}, control.Mutating, func(ctx context.Context, _ control.Claimed) (any, error) {
		if _, err := d.client().Cancel(t.Context(), run.ID(), control.CancelRequest{}); err != nil {
			t.Error(err)
		}
		<-ctx.Done()
		return "half", ctx.Err()
	}, nil)
	if err != nil || string(got.Outcome) != `{"status":"error","error":"context canceled","value":"half"}` || string(got.Projection) != projection.Sentinel {
		t.Errorf("%v %s %s", err, got.Outcome, got.Projection)
	}
	_, err = run.Tool(t.Context(), control.ToolCall{ID: "b", Name: "t"}, control.ReadOnly, nil, nil)
	isProblem(t, err, control.CodeCancelled)
	rec, err := run.Client().Abort(t.Context(), run.ID(), control.AbortAcknowledged)
	if err != nil || rec.Phase != control.PhaseCancelled || len(rec.OpenCalls) > 0 {
		t.Errorf("%+v, %v", rec, err)
	}
}
