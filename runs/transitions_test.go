package runs

import (
	"strings"
	"testing"
)

// lifeTable is the life of a run as the manual draws it. A column is an event,
// a row a phase: "+" is taken, "=" compared with what was first, "~" late,
// "-" refused; a code in words stands where it is not wrong-phase.
const lifeTable = `
phase                         beat             write             outcome          settle            pause            lost cancel            prepare   attach    activate fail projected rollback
running                       +                +                 +                +                 +                +    +                 -         -         -        -    -         +
settling                      +                -finished         ~                =                 -                -    -finished         -         -         -        -    +         -
paused-interruption           -attach-required -attach-required  -attach-required -attach-required  -attach-required -    +                 +         +         -        -    -         -
paused-side-effect-uncertain  -attach-required -attach-required  -attach-required -attach-required  -attach-required -    +                 +         +         -        -    -         -
paused-permission             -                -                 ~                -                 -                -    +                 +         -         -        -    -         -
paused-provider-change        -                -                 ~                -                 -                -    +                 +         -         -        -    -         -
resume-dispatching            -                -                 ~                -                 -                +    +                 -         -         +        +    -         -
cancel-requested              +                ~cancel-requested +                ~cancel-requested -                -    -cancel-requested -         -         -        -    +         -
cancelled                     -finished        -finished         ~finished        =                 -finished        -    -finished         -finished -finished -        -    -         -
terminal                      -finished        -finished         ~finished        =                 -finished        -    -finished         -finished -finished -        -    -         -
`

func TestTransitions(t *testing.T) {
	lines := strings.Split(strings.TrimSpace(lifeTable), "\n")
	events := strings.Fields(lines[0])[1:]
	if len(events) != int(eventCount) || len(lines) != phaseCount {
		t.Fatalf("the table has %d phases and %d events", len(lines)-1, len(events))
	}
	for _, line := range lines[1:] {
		f := strings.Fields(line)
		p, ok := ParsePhase(f[0])
		if !ok || p.String() != f[0] {
			t.Fatalf("%q is no phase", f[0])
		}
		for e, cell := range f[1:] {
			if events[e] != event(e).String() {
				t.Fatalf("column %d is %s", e, events[e])
			}
			checkRule(t, p, event(e), cell)
		}
	}
}

func checkRule(t *testing.T, p Phase, e event, cell string) {
	t.Helper()
	r := transitions[p][e]
	if want := map[byte]verdict{'+': taken, '=': adopted, '~': late, '-': refused}[cell[0]]; r.verdict != want {
		t.Errorf("%s in %s: verdict %d, want %d", e, p, r.verdict, want)
	}
	if code := Code(cell[1:]); code != "" && r.code != code {
		t.Errorf("%s in %s: code %s, want %s", e, p, r.code, code)
	}
	if r.verdict != taken && r.code == "" {
		t.Errorf("%s in %s is refused without a code", e, p)
	}
	for _, to := range r.to {
		if r.verdict != taken || to == p {
			t.Errorf("%s in %s leads to %s", e, p, to)
		}
	}
}

// TestFence walks every pair of phase and event with every kind of token:
// only the current one reaches the table.
func TestFence(t *testing.T) {
	s := New(Options{StoreKey: []byte("k")})
	for p := Running; int(p) < phaseCount; p++ {
		for e := range eventCount {
			l := &live{num: 1, phase: p, epoch: 3, revision: 5, admission: 9}
			for _, tt := range []struct {
				writer string
				epoch  uint64
				code   Code
			}{{"", 0, WriterRequired}, {"x", 0, WrongToken}, {"x", 2, StaleWriter}} {
				if r := s.fence(l, Caller{Writer: tt.writer, Owner: true}, tt.epoch, e); r == nil || r.Code != tt.code {
					t.Errorf("%s in %s with a token of epoch %d: %v, want %s", e, p, tt.epoch, r, tt.code)
				}
			}
			r := s.fence(l, Caller{Writer: "x"}, 3, e)
			rule := transitions[p][e]
			if pass := rule.verdict == taken || rule.verdict == adopted; pass != (r == nil) {
				t.Errorf("%s in %s: %v", e, p, r)
			}
			if r != nil && (r.Code != rule.code || r.ETag != `"9-5"` || r.Phase != p.String() || r.Error() == "") {
				t.Errorf("%s in %s: %+v", e, p, r)
			}
		}
	}
}

func TestCodesHaveAdvice(t *testing.T) {
	codes := Codes()
	if len(codes) < 30 {
		t.Fatalf("there are only %d codes", len(codes))
	}
	for _, c := range codes {
		r := refuse(c, "it did not go")
		if CodeOf(r) != c || !strings.Contains(r.Error(), "; ") {
			t.Errorf("%s says %q", c, r.Error())
		}
	}
}
