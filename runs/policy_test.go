package runs

import (
	"encoding/json"
	"fmt"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func intp(n int64) *int64 { return &n }

// TestPolicy: what an owner says is in force at once and after a restart, and
// what he leaves out stays as it was.
func TestPolicy(t *testing.T) {
	w := newWorld(t)
	owner := Caller{UID: 1000, Owner: true}
	want := PolicyState{Policy: DefaultPolicy, Default: true}
	check := func(when string) {
		t.Helper()
		if diff := cmp.Diff(want, w.s.Policy()); diff != "" {
			t.Errorf("%s (-want +got):\n%s", when, diff)
		}
		if p, err := w.s.List(owner, ListQuery{}); err != nil || p.Policy != want.Policy {
			t.Errorf("%s a list says %+v, %v", when, p.Policy, err)
		}
	}
	check("at first")
	uid := owner.UID
	for i, step := range []struct {
		ch       PolicyChange
		change   func(p *Policy)
		replayed bool
	}{
		{PolicyChange{Runs: intp(7)}, func(p *Policy) { p.Runs = 7 }, false},
		{PolicyChange{Runs: intp(7)}, func(p *Policy) {}, true},
		{PolicyChange{RetainAll: new(true), LogBytes: intp(1)}, func(p *Policy) { p.RetainAll, p.LogBytes = true, 1 }, false},
		{PolicyChange{ThreadRuns: intp(3)}, func(p *Policy) { p.ThreadRuns = 3 }, false},
		{PolicyChange{RetainAll: new(bool)}, func(p *Policy) { p.RetainAll = false }, false},
	} {
		step.change(&want.Policy)
		want.Default, want.ByUID = false, &uid
		got, replayed, err := w.s.SetPolicy(ctx, owner, step.ch)
		if err != nil || replayed != step.replayed {
			t.Fatalf("step %d: replayed %v, %v", i, replayed, err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("step %d is answered with (-want +got):\n%s", i, diff)
		}
		check(fmt.Sprint("after step ", i))
		w.reopen()
		check(fmt.Sprint("after step ", i, " and a restart"))
	}
}

func TestPolicyRefused(t *testing.T) {
	w := newWorld(t)
	for name, c := range map[string]struct {
		by    Caller
		ch    PolicyChange
		code  Code
		field string
	}{
		"an agent":       {Caller{UID: 1000}, PolicyChange{Runs: intp(7)}, NotOwner, ""},
		"with a token":   {Caller{Owner: true, Writer: "t"}, PolicyChange{Runs: intp(7)}, NotOwner, ""},
		"zero":           {Caller{Owner: true}, PolicyChange{Runs: intp(0)}, BadPolicy, "runs"},
		"negative":       {Caller{Owner: true}, PolicyChange{LogBytes: intp(-1)}, BadPolicy, "log_bytes"},
		"beyond all":     {Caller{Owner: true}, PolicyChange{ThreadRuns: intp(policyRunsMax + 1)}, BadPolicy, "thread_runs"},
		"one of several": {Caller{Owner: true}, PolicyChange{ThreadRuns: intp(5), LogBytes: intp(policyLogBytesMax + 1)}, BadPolicy, "log_bytes"},
	} {
		_, _, err := w.s.SetPolicy(ctx, c.by, c.ch)
		r := (*Refusal)(nil)
		if CodeOf(err) != c.code {
			t.Errorf("%s: %v", name, err)
		} else if r = err.(*Refusal); r.Field != c.field {
			t.Errorf("%s: the field is %q", name, r.Field)
		}
	}
	if p := w.s.Policy(); !p.Default {
		t.Errorf("refused, and in force: %+v", p)
	}
	if _, err := w.s.PolicyDue(Caller{UID: 1000}); CodeOf(err) != NotOwner {
		t.Errorf("what is due, told to an agent: %v", err)
	}
}

// TestEarlierPolicyInTheLog: a policy of the first kind, and one that cannot be
// read any more, are taken from the log as far as they can be, through footers
// too, and an owner's word replaces them.
func TestEarlierPolicyInTheLog(t *testing.T) {
	for said, want := range map[string]PolicyState{
		`{"policy":"run-retention-v1"}`: {
			Policy: Policy{RetentionStamp, true, 50, 500, 32 << 20}, MigratedFrom: "run-retention-v1",
		},
		`{"policy":"run-retention-v2","retain_all":false,"thread_runs":"many","runs":9,"log_bytes":1000}`: {
			Policy: Policy{RetentionStamp, false, 50, 9, 1000}, FellBack: []string{"thread_runs"},
		},
	} {
		w := newWorldAt(t, fastDir(t))
		w.segmentBytes = 4 << 12
		w.reopen()
		defer w.close()
		err := w.s.set(ctx, Caller{Owner: true}, func(*settings) (*setting, *Refusal) {
			return &setting{setPolicy, policyName, json.RawMessage(said)}, nil
		})
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, w.s.Policy()); diff != "" {
			t.Errorf("%s (-want +got):\n%s", said, diff)
		}
		run := w.start(StartRequest{})
		for range 40 { // several segments, whose footers have it
			run.mustAppend(fmt.Sprintf(`{"pad":"%01000d"}`, 0))
		}
		w.reopen()
		if diff := cmp.Diff(want, w.s.Policy()); diff != "" {
			t.Errorf("%s after a restart (-want +got):\n%s", said, diff)
		}
		next, replayed, err := w.s.SetPolicy(ctx, Caller{Owner: true}, PolicyChange{Runs: intp(int64(want.Runs))})
		if err != nil || replayed || next.FellBack != nil || next.MigratedFrom != "" || next.Policy != want.Policy {
			t.Errorf("%s, said again: %+v, %v, %v", said, next, replayed, err)
		}
	}
}

// TestPolicyDue: what is told to be due is what the pure decision says of the
// runs as they are: those that are over and not pinned, oldest first. Nothing is
// changed by it.
func TestPolicyDue(t *testing.T) {
	w := newWorld(t)
	owner := Caller{Owner: true}
	var ids []string
	for i := range 6 {
		run := w.start(StartRequest{Labels: Labels{"thread": fmt.Sprint(i % 2)}})
		run.mustAppend(`{"a":1}`)
		if i != 1 { // that one works on
			run.mustSettle("")
		}
		ids = append(ids, run.id)
	}
	mustPin := func(on bool) {
		t.Helper()
		if _, err := w.pin(ids[2], on); err != nil {
			t.Fatal(err)
		}
	}
	due := func(want ...string) {
		t.Helper()
		for _, restarted := range []bool{false, true} {
			if restarted {
				w.reopen()
			}
			d, err := w.s.PolicyDue(owner)
			if err != nil || d.Runs != len(want) || !slices.Equal(d.Oldest, want) {
				t.Errorf("due, restarted %v: %+v, %v; want %q", restarted, d, err, want)
			}
			var rows uint64
			var bytes int64
			for _, id := range want {
				ref, _ := w.s.Lookup(id)
				info, _ := w.s.Info(ref)
				rows, bytes = rows+info.Rows, bytes+info.LogBytes
			}
			if d.Rows != rows || d.Bytes != bytes {
				t.Errorf("due: %+v, and there are %d rows of %d bytes", d, rows, bytes)
			}
		}
	}
	due()
	if _, _, err := w.s.SetPolicy(ctx, owner, PolicyChange{Runs: intp(3)}); err != nil {
		t.Fatal(err)
	}
	due(ids[0], ids[2], ids[3])
	mustPin(true)
	due(ids[0], ids[3], ids[4])
	mustPin(false)
	if _, _, err := w.s.SetPolicy(ctx, owner, PolicyChange{Runs: intp(100), ThreadRuns: intp(1)}); err != nil {
		t.Fatal(err)
	}
	due(ids[0], ids[2], ids[3])
	if _, _, err := w.s.SetPolicy(ctx, owner, PolicyChange{RetainAll: new(true)}); err != nil {
		t.Fatal(err)
	}
	due()
}
