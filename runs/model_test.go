package runs

import (
	"flag"
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// model says in a few lines what a run is: it is what the store is held
// against, whatever the order of requests and restarts.
type model struct {
	runs  map[string]*modelRun
	order []string
}

type modelRun struct {
	agent    *agent
	old      *agent // with a token of an earlier epoch
	phase    Phase
	revision uint64
	epoch    uint64
	rows     []string
	keys     map[string]string
	payloads map[string]string
	names    []string
	outcome  string // status and answer
	late     int
}

func TestModel(t *testing.T) {
	base := fastDir(t)
	checks(t, 25)
	rapid.Check(t, func(rt *rapid.T) {
		dir, err := os.MkdirTemp(base, "model")
		if err != nil {
			rt.Fatal(err)
		}
		defer os.RemoveAll(dir)
		w := newWorldAt(t, dir)
		defer w.close()
		m := &model{runs: map[string]*modelRun{}}
		rt.Repeat(map[string]func(*rapid.T){
			"start":   func(rt *rapid.T) { m.start(rt, w) },
			"append":  func(rt *rapid.T) { m.append(rt) },
			"put":     func(rt *rapid.T) { m.put(rt) },
			"settle":  func(rt *rapid.T) { m.settle(rt) },
			"attach":  func(rt *rapid.T) { m.attach(rt) },
			"stale":   func(rt *rapid.T) { m.stale(rt) },
			"restart": func(rt *rapid.T) { m.restart(w) },
			"":        func(rt *rapid.T) { m.check(rt, w) },
		})
	})
}

func (m *model) pick(rt *rapid.T) *modelRun {
	if len(m.order) == 0 {
		rt.Skip("there is no run yet")
	}
	return m.runs[rapid.SampledFrom(m.order).Draw(rt, "run")]
}

func (m *model) start(rt *rapid.T, w *world) {
	id := fmt.Sprintf("exec_%d", rapid.IntRange(0, 5).Draw(rt, "id"))
	st, err := w.s.Start(ctx, Caller{UID: 7}, StartRequest{ID: id, IdempotencyKey: id, Labels: Labels{"thread": id}})
	if err != nil {
		rt.Fatal(err)
	}
	a := &agent{w, id, Caller{UID: 7, Writer: st.Writer}}
	r := m.runs[id]
	switch {
	case r == nil:
		m.runs[id] = &modelRun{agent: a, phase: Running, revision: 1, epoch: 1, keys: map[string]string{}, payloads: map[string]string{}}
		m.order = append([]string{id}, m.order...)
	case r.phase == Running || r.phase == PausedInterruption:
		if st.Writer == "" {
			rt.Fatalf("a start of a run that is %s gives no token", r.phase)
		}
		r.old, r.agent = r.agent, a
		r.revision++
		r.epoch++
	case st.Writer != "":
		rt.Fatalf("a start of a run that is %s gives a token", r.phase)
	}
	if st.Replayed != (r != nil) {
		rt.Fatalf("replayed is %v", st.Replayed)
	}
}

// refused is the code that a write gets in the run's phase.
func (r *modelRun) refused() Code {
	return map[Phase]Code{PausedInterruption: AttachRequired, Terminal: Finished}[r.phase]
}

func (m *model) append(rt *rapid.T) {
	r := m.pick(rt)
	n := rapid.IntRange(1, 3).Draw(rt, "rows")
	var rows []string
	want := append([]string(nil), r.rows...)
	keys := map[string]string{}
	conflict := false
	for range n {
		k := fmt.Sprint(rapid.IntRange(0, 6).Draw(rt, "key"))
		row := fmt.Sprintf(`{"k":%s,"v":%d}`, k, rapid.IntRange(0, 1).Draw(rt, "value"))
		rows = append(rows, row)
		have, ok := r.keys[k]
		if !ok {
			have, ok = keys[k]
		}
		switch {
		case ok && have != row:
			conflict = true
		case !ok:
			keys[k] = row
			want = append(want, row)
		}
	}
	_, err := r.agent.w.s.Append(ctx, r.agent.c, r.agent.id, rowsOf(rows...), "k")
	code := r.refused()
	if code == "" && conflict {
		code = KeyConflict
	}
	if CodeOf(err) != code || (code == "") != (err == nil) {
		rt.Fatalf("append in %s: %v, want %q", r.phase, err, code)
	}
	if err == nil {
		r.rows = want
		for k, v := range keys {
			r.keys[k] = v
		}
	}
}

func (m *model) put(rt *rapid.T) {
	r := m.pick(rt)
	name := rapid.SampledFrom([]string{"a", "b"}).Draw(rt, "name")
	content := strings.Repeat(rapid.SampledFrom([]string{"x", "y"}).Draw(rt, "content"), rapid.SampledFrom([]int{1, 20 << 10}).Draw(rt, "size"))
	_, replayed, err := r.agent.put(name, content)
	have, ok := r.payloads[name]
	code := r.refused()
	if code == "" && ok && have != content {
		code = PayloadConflict
	}
	if CodeOf(err) != code || (code == "") != (err == nil) || err == nil && replayed != ok {
		rt.Fatalf("put in %s: %v, %v, want %q", r.phase, replayed, err, code)
	}
	if err == nil && !ok {
		r.payloads[name] = content
		r.names = append(r.names, name)
	}
}

func (m *model) settle(rt *rapid.T) {
	r := m.pick(rt)
	status := rapid.SampledFrom([]Status{Success, Failure}).Draw(rt, "status")
	answer := rapid.SampledFrom([]string{"", "short", strings.Repeat("long", 10<<10)}).Draw(rt, "answer")
	got, err := r.agent.settle(status, answer)
	outcome := string(status) + " " + answer
	switch {
	case r.phase == PausedInterruption:
		wantCodeIn(rt, err, AttachRequired)
	case r.phase == Terminal && r.outcome != outcome:
		wantCodeIn(rt, err, SettleConflict)
	case err != nil || got.Replayed != (r.phase == Terminal):
		rt.Fatalf("settle in %s: %+v, %v", r.phase, got, err)
	case r.phase == Running:
		r.phase, r.outcome = Terminal, outcome
		r.revision += 2
	}
}

func (m *model) attach(rt *rapid.T) {
	r := m.pick(rt)
	_, err := r.agent.w.s.Attach(ctx, r.agent.c, r.agent.id, AttachRequest{})
	switch r.phase {
	case Running:
		wantCodeIn(rt, err, WrongPhase)
	case Terminal:
		wantCodeIn(rt, err, Finished)
	default:
		if err != nil {
			rt.Fatal(err)
		}
		r.phase = Running
		r.revision++
	}
}

// stale writes with a token of an earlier epoch: nothing but late may change.
func (m *model) stale(rt *rapid.T) {
	r := m.pick(rt)
	if r.old == nil {
		rt.Skip("the run has one epoch")
	}
	_, err := r.old.append(`{"stale":true}`)
	wantCodeIn(rt, err, StaleWriter)
	r.late++
}

func (m *model) restart(w *world) {
	w.reopen()
	for _, r := range m.runs {
		if r.phase == Running {
			r.phase = PausedInterruption
			r.revision++
		}
	}
}

func wantCodeIn(rt *rapid.T, err error, code Code) {
	if CodeOf(err) != code {
		rt.Fatalf("got %v, want %s", err, code)
	}
}

// check holds all that can be seen against the model.
func (m *model) check(rt *rapid.T, w *world) {
	for id, r := range m.runs {
		rec, err := w.s.Record(w.ref(id))
		if err != nil {
			rt.Fatal(err)
		}
		if rec.Phase != r.phase.String() || rec.Revision != r.revision || rec.Epoch != r.epoch || rec.LateRows != uint64(r.late) {
			rt.Fatalf("%s is %s, revision %d, epoch %d, late %d; want %s, %d, %d, %d",
				id, rec.Phase, rec.Revision, rec.Epoch, rec.LateRows, r.phase, r.revision, r.epoch, r.late)
		}
		if got := w.agentRows(id); strings.Join(got, "\n") != strings.Join(r.rows, "\n") {
			rt.Fatalf("%s has the rows %q, want %q", id, got, r.rows)
		}
		list, err := w.s.PayloadList(w.ref(id))
		names := append([]string(nil), r.names...)
		if _, answer, _ := strings.Cut(r.outcome, " "); answer != "" {
			names = append(names, TerminalName)
			if got, err := w.payload(id, TerminalName); err != nil || got != answer {
				rt.Fatalf("the answer of %s is %.20q (%v)", id, got, err)
			}
		}
		if err != nil || len(list) != len(names) {
			rt.Fatalf("%s has the payloads %+v, want %q (%v)", id, list, names, err)
		}
		for i, p := range list {
			if p.Name != names[i] {
				rt.Fatalf("%s has the payload %s, want %s", id, p.Name, names[i])
			}
			if want, ok := r.payloads[p.Name]; ok {
				if got, err := w.payload(id, p.Name); err != nil || got != want {
					rt.Fatalf("%s of %s is %.20q (%v)", p.Name, id, got, err)
				}
			}
		}
	}
	page, err := w.s.List(Caller{Owner: true}, ListQuery{})
	if err != nil || len(page.Runs) != len(m.order) {
		rt.Fatalf("the list has %d runs, want %d (%v)", len(page.Runs), len(m.order), err)
	}
	for i, rec := range page.Runs {
		if rec.ID != m.order[i] {
			rt.Fatalf("run %d of the list is %s, want %s", i, rec.ID, m.order[i])
		}
	}
}

// checks sets how often rapid tries, unless its flag says so: one try here
// opens a store many times.
func checks(t *testing.T, n int) {
	f := flag.Lookup("rapid.checks")
	if was := f.Value.String(); was == f.DefValue {
		f.Value.Set(strconv.Itoa(n))
		t.Cleanup(func() { f.Value.Set(was) })
	}
}
