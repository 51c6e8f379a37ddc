package runs

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"durafs/cas"
	"durafs/importer"
	"durafs/projection"
)

// copy makes a copy of a run, as its owner.
func (w *world) copy(id string, kind projection.CopyKind, call uint64, q StartRequest) (*agent, Started, error) {
	if kind == projection.CopyRevise && q.Message == nil {
		q.Message = []byte(`"instead"`)
	}
	st, err := w.s.Copy(ctx, owner, id, CopyRequest{StartRequest: q, Kind: kind, Call: call})
	if err != nil {
		return nil, st, err
	}
	return &agent{w, st.Record.ID, Caller{UID: owner.UID, Writer: st.Writer}}, st, nil
}

func (w *world) mustCopy(id string, kind projection.CopyKind, call uint64, q StartRequest) *agent {
	w.t.Helper()
	a, _, err := w.copy(id, kind, call, q)
	if err != nil {
		w.t.Fatalf("copy of %s, %s %d: %v", id, kind, call, err)
	}
	return a
}

var projectionB3 = regexp.MustCompile(`"projection_b3":"[0-9a-f]{64}"`)

// checkCopy holds a copy, of which nothing was made yet, against its source: the
// history of the prefix is the same under the other id, its rows are, but for
// the digests of projections, and its payloads, and what it shows of them.
func (w *world) checkCopy(from, to *agent) {
	w.t.Helper()
	rows := w.rows(to.id)
	upto := 0
	for i, r := range rows {
		if r.By == "store" && r.Type == "copied" {
			upto = i
		}
	}
	for i, source := range w.rows(from.id)[:upto] {
		line, want := projectionB3.ReplaceAllString(rows[i].raw, ""), projectionB3.ReplaceAllString(source.raw, "")
		if line != want {
			w.t.Fatalf("row %d is\n%.300s\nand of the source\n%.300s", i+1, line, want)
		}
	}
	for _, r := range []HistoryRequest{{}, {Materialize: true, Vision: true, ImageBudget: 100 << 10}, {Materialize: true}} {
		r.Upto = uint64(upto)
		want := exchanged(from.history(r), from.id, to.id)
		if d := cmp.Diff(want, to.history(r)); d != "" {
			w.t.Fatalf("the history of the prefix is another: %s", d)
		}
		r.Upto = 0
		if d := cmp.Diff(want, to.history(r)); d != "" {
			w.t.Fatalf("the history of the copy is another: %s", d)
		}
	}
	w.checkDigests(to.id)
	have, err := w.s.PayloadList(w.ref(to.id))
	if err != nil {
		w.t.Fatal(err)
	}
	for _, info := range have {
		source, err := w.s.PayloadInfo(w.ref(from.id), info.Name)
		own := strings.HasPrefix(info.Name, rowBodyPrefix) // of the row that says so
		if info.Ordinal, source.Ordinal = 0, 0; !own && (err != nil || info != source) {
			w.t.Fatalf("the payload %+v is %+v of the source (%v)", info, source, err)
		}
		if got, err := w.payload(to.id, info.Name); err != nil || cas.Sum([]byte(got)) != info.B3 {
			w.t.Fatalf("the payload %s has %d bytes (%v)", info.Name, len(got), err)
		}
	}
}

// exchanged is a history under another id; what an agent has said stays.
func exchanged(history, from, to string) string {
	for _, place := range []string{`"run":"%s"`, `"key":"%s/`} {
		history = strings.ReplaceAll(history, fmt.Sprintf(place, from), fmt.Sprintf(place, to))
	}
	return history
}

// checkDigests: the rows of outcomes have the digests of the projections that
// stand beside them.
func (w *world) checkDigests(id string) {
	w.t.Helper()
	told := ""
	err := w.s.walkEntries(uint32(w.ref(id)), func(_ *batch, e entry) error {
		switch e.kind {
		case kindOutcome:
			o, err := parseOutcome(e)
			if told = ""; err == nil && o.projection != nil {
				told = hexB3(o.projection)
			}
			return err
		case kindRow:
			if said := projectionB3.Find(e.body); e.flags&rowByStore != 0 && said != nil && !bytes.Contains(said, []byte(told)) {
				return fmt.Errorf("a row says %s of a projection with %s", said, told)
			}
		}
		return nil
	})
	if err != nil {
		w.t.Fatal(err)
	}
}

// copySource is a run with a bit of everything; its call 4 is open, and call 3
// was while calls 4 and 5 began.
func (w *world) copySource(id string) *agent {
	w.t.Helper()
	a := w.start(StartRequest{
		ID: id, Labels: Labels{"thread": "T", "task_id": "7"}, Message: []byte(`"first"`), Task: "to do it",
		Binding: &Binding{Provider: "p", Scope: "s"}, ResumeRequest: []byte(strings.Repeat("r", 20<<10)),
	})
	must := func(err error) {
		w.t.Helper()
		if err != nil {
			w.t.Fatal(err)
		}
	}
	_, err := w.s.Append(ctx, a.c, a.id, rowsOf(`{"k":"one","n":1.0e+400}`), "k")
	must(err)
	a.mustAppend(`{"type":"large","text":"`+strings.Repeat("l", 100<<10)+`"}`, "{\"a\":\"\\ud800\u2028\"}")
	a.mustPut("args", `{"in":"a payload"}`)
	_, err = w.s.Claim(ctx, a.c, a.id, ClaimRequest{CallID: "c1", Name: "bash", Safety: []byte(`"mutating"`), ArgsPayload: "args"})
	must(err)
	a.mustOutcome(1, `{"status":"ok","out":"1"}`)
	a.mustPut("report", strings.Repeat("report", 20<<10))
	a.mustClaim("c2", "shot", "read-only")
	_, err = a.project(2, `{"n":2}`, candidate(imageCandidate(jpeg(900, 1), jpeg(40_000, 2), jpeg(150_000, 3))))
	must(err)
	a.mustClaim("c3", "bash", "mutating")
	a.mustClaim("c4", "bash", "idempotent")
	a.mustClaim("c5", "shot", "read-only")
	_, err = a.project(5, `{"n":5}`, candidate(imageCandidate(jpeg(900, 5))))
	must(err)
	a.mustProject(3, `{"n":3}`, textCandidate("of "+id))
	a.mustAppend(`{"after":"all"}`)
	return a
}

// TestCopy: a copy has what its source had, under its own id, and goes on by
// itself; what becomes of either harms neither, also over restarts.
func TestCopy(t *testing.T) {
	w := newWorld(t)
	a := w.copySource("exec_source")
	before := w.logText(a.id)
	b, st, err := w.copy(a.id, projection.CopyBranch, 5, StartRequest{ID: "exec_c"})
	if err != nil {
		t.Fatal(err)
	}
	rec := st.Record
	if rec.CopiedFrom != a.id || rec.Phase != "running" || rec.Revision != 1 || st.Epoch != 1 || rec.ProgressCount != 0 ||
		rec.Class != classNone || len(rec.OpenCalls) != 0 || rec.Preview != "to do it" || rec.Binding.Scope != "s" || rec.Resume.Available || st.Writer == "" {
		t.Errorf("the record is %s", mustJSON(rec))
	}
	if d := cmp.Diff(Labels{"thread": "T", "task_id": "7"}, rec.Labels); d != "" {
		t.Error(d)
	}
	w.checkCopy(a, b)
	if got := w.ownTypes(b.id); got != "accepted tool-call tool-result tool-call tool-result tool-call tool-call tool-call tool-result copied tool-result tool-result" {
		t.Errorf("the store's rows are %s", got)
	}
	if got := w.logText(a.id); got != before {
		t.Error("the source has changed")
	}
	if f, err := w.s.findPayload(uint32(w.ref(b.id)), resumeRequestName); f != nil || err != nil {
		t.Errorf("the copy has the resume request: %v, %v", f, err)
	}
	for _, name := range []string{"report", "args"} {
		from, _ := w.s.findPayload(uint32(w.ref(a.id)), name)
		to, err := w.s.findPayload(uint32(w.ref(b.id)), name)
		if err != nil || from.ref.ID != to.ref.ID || from.ref.Hint != to.ref.Hint {
			t.Errorf("%s is not shared: %+v, %+v, %v", name, from, to, err)
		}
	}
	// It goes on: with the next numbers, and keys of its own.
	claimed := b.mustClaim("c6", "bash", "read-only")
	if d := cmp.Diff(Claimed{Call: 6, Index: 3, Key: "exec_c:bash:3", Attempt: 1, Safety: ReadOnly}, claimed); d != "" {
		t.Error(d)
	}
	_, err = b.claim("c1", "bash", "read-only")
	wantCode(t, err, CallExists)
	_, err = b.outcome(4, `{"late":1}`)
	wantCode(t, err, OutcomeConflict)
	if got, err := w.s.Append(ctx, b.c, b.id, rowsOf(`{"k":"one","of":"the copy"}`), "k"); err != nil || got.Replayed {
		t.Errorf("a key of the source's: %+v, %v", got, err)
	}
	if _, err := b.project(6, `{}`, candidate(imageCandidate(jpeg(900, 6)))); err != nil {
		t.Error(err)
	}
	both := func() string {
		shown := HistoryRequest{Materialize: true, Vision: true, ImageBudget: 1 << 20}
		return a.history(shown) + b.history(shown) + w.logText(a.id) + w.logText(b.id)
	}
	a.mustAppend(`{"only":"the source"}`)
	was := both()
	if strings.Count(was, `only":"the source`) != 1 || strings.Count(was, `of":"the copy`) != 1 {
		t.Error("rows of one are rows of both")
	}
	w.reopen() // which pauses both
	seen := both()
	if !strings.HasPrefix(seen, was[:strings.Index(was, "\n")]) || strings.Count(seen, `"type":"paused"`) != 2 {
		t.Error("after a restart they are others")
	}
	if got := w.s.index.newest; got != 2 {
		t.Errorf("there are %d runs", got)
	}
	page, err := w.s.List(owner, ListQuery{Thread: "T"})
	if err != nil || len(page.Runs) != 2 || page.Runs[0].ID != b.id || page.Runs[0].CopiedFrom != a.id {
		t.Errorf("the list has %s, %v", mustJSON(page), err)
	}
	if rows := w.journal("master"); len(rows) < 2 || !strings.Contains(strings.Join(rows, ""), `"run":"exec_c","copied_from":"exec_source"`) {
		t.Errorf("the journal has %s", rows)
	}
	a.attachEnded()
	a.mustSettle("the source's")
	w.reopen()
	b.attachEnded()
	b.mustSettle("the copy's")
	w.reopen()
	if got, _ := w.payload(a.id, TerminalName); got != "the source's" {
		t.Errorf("the source's answer is %q", got)
	}
	c := w.mustCopy(b.id, projection.CopyBranch, 6, StartRequest{})
	w.checkCopy(b, c)
	if got := strings.Count(w.ownTypes(c.id), "copied"); got != 2 {
		t.Errorf("a copy of a copy has %d rows that say so", got)
	}
}

// TestCopyKinds: before and revise end before a call, with what was put for it;
// a revise has another last message.
func TestCopyKinds(t *testing.T) {
	w := newWorld(t)
	a := w.copySource("exec_source")
	before := w.mustCopy(a.id, projection.CopyBefore, 2, StartRequest{ID: "exec_before", Labels: Labels{"own": "1"}})
	w.checkCopy(a, before)
	if got := strings.Count(before.history(HistoryRequest{}), "\n"); got != 1 {
		t.Errorf("before call 2 there are %d calls", got)
	}
	if _, err := w.payload(before.id, "report"); err != nil {
		t.Error("what was put before the call is not there:", err)
	}
	if strings.Contains(w.thread("T"), before.id) || len(w.record(before.id).Labels) != 1 {
		t.Error("it is in a thread that it was to leave")
	}
	first := w.mustCopy(a.id, projection.CopyBefore, 1, StartRequest{ID: "exec_first"})
	w.checkCopy(a, first)
	if first.mustClaim("c1", "bash", "read-only").Key != "exec_first:bash:0" {
		t.Error("the numbers of its calls do not begin anew")
	}
	for name, message := range map[string]string{"exec_short": `{"say":"another"}`, "exec_long": `"` + strings.Repeat("m", 200<<10) + `"`} {
		b := w.mustCopy(a.id, projection.CopyRevise, 3, StartRequest{ID: name, Message: []byte(message)})
		w.checkCopy(a, b)
		if got := w.thread("T"); !strings.Contains(got, `"run":"`+name+`","message":`+message) {
			t.Errorf("the thread has not the message of %s", name)
		}
		rows := w.rows(b.id)
		last := rows[len(rows)-1].raw
		if len(message) < RowTextBytesMax != strings.HasSuffix(last, `,"message":`+message+"}") {
			t.Errorf("the row is %.300s", last)
		}
		if len(message) > RowTextBytesMax {
			_, body, _ := strings.Cut(last, `"payload":"`)
			body, _, _ = strings.Cut(body, `"`)
			if text, err := w.payload(b.id, body); err != nil || !strings.HasSuffix(text, `,"message":`+message+"}") {
				t.Errorf("its body has %d bytes, %v", len(text), err)
			}
			w.reopen()
			w.checkCopy(a, w.mustCopy(b.id, projection.CopyBranch, 2, StartRequest{}))
		}
	}
}

// TestCopyRefused: what cannot be copied is refused, and leaves nothing.
func TestCopyRefused(t *testing.T) {
	w := newWorld(t)
	a := w.copySource("exec_source")
	other := w.start(StartRequest{ID: "exec_other"})
	was := w.picture() + fmt.Sprint(w.journal("master")) + w.thread("T")
	agentOnly := Caller{UID: 7}
	for _, c := range []struct {
		by   Caller
		id   string
		kind projection.CopyKind
		call uint64
		q    StartRequest
		code Code
	}{
		{owner, "exec_source", "all", 1, StartRequest{}, BadCopy},
		{owner, "exec_source", "branch", 0, StartRequest{}, BadCopy},
		{owner, "exec_source", "branch", 1, StartRequest{Message: []byte(`1`)}, BadCopy},
		{owner, "exec_source", "revise", 1, StartRequest{}, BadCopy},
		{owner, "exec_source", "branch", 4, StartRequest{}, CallOpen},
		{owner, "exec_source", "branch", 6, StartRequest{}, UnknownCall},
		{owner, "exec_source", "before", 6, StartRequest{}, UnknownCall},
		{owner, "exec_none", "branch", 1, StartRequest{}, UnknownRun},
		{owner, "none", "branch", 1, StartRequest{}, BadID},
		{owner, "exec_source", "branch", 1, StartRequest{ID: "exec_other"}, RunExists},
		{owner, "exec_source", "branch", 1, StartRequest{ID: "exec_source"}, RunExists},
		{owner, "exec_source", "branch", 1, StartRequest{Target: "agent:none"}, TargetNotEnrolled},
		{agentOnly, "exec_source", "branch", 1, StartRequest{}, NotOwner},
		{other.c, "exec_source", "branch", 1, StartRequest{}, WrongToken},
	} {
		_, err := w.s.Copy(ctx, c.by, c.id, CopyRequest{StartRequest: c.q, Kind: c.kind, Call: c.call})
		if CodeOf(err) != c.code {
			t.Errorf("%s %d of %s: %v, want %s", c.kind, c.call, c.id, err, c.code)
		}
	}
	stopped, stop := context.WithCancel(ctx)
	stop()
	if _, err := w.s.Copy(stopped, owner, a.id, CopyRequest{Kind: "branch", Call: 1}); err != context.Canceled {
		t.Errorf("a copy that nobody waits for: %v", err)
	}
	if now := w.picture() + fmt.Sprint(w.journal("master")) + w.thread("T"); now != was {
		t.Error("something of a refused copy is left")
	}
	if len(w.s.index.staged) != 0 || len(w.s.acc.runs) != 2 {
		t.Errorf("in memory there is left %v, %v", w.s.index.staged, w.s.acc.runs)
	}
	b := w.mustCopy(a.id, projection.CopyBranch, 1, StartRequest{})
	if w.ref(b.id) <= 2 {
		t.Error("its number was another run's")
	}
	r := wantCode(t, w.s.Rollback(ctx, b.c, b.id), RollbackRefused)
	if !strings.Contains(r.Detail, "it is a copy") {
		t.Error(r)
	}
	mine, err := w.s.Copy(ctx, a.c, a.id, CopyRequest{Kind: "branch", Call: 1})
	if err != nil || mine.Record.UID != a.c.UID || mine.Writer == "" {
		t.Errorf("an agent's copy of its own run: %+v, %v", mine, err)
	}
}

// TestCopyAgain: a copy with an idempotency key is one copy, also over restarts.
func TestCopyAgain(t *testing.T) {
	w := newWorld(t)
	a, other := w.copySource("exec_source"), w.copySource("exec_other")
	keyed := StartRequest{IdempotencyKey: "k", BodyHash: [32]byte{1}}
	b, first, err := w.copy(a.id, projection.CopyBranch, 2, keyed)
	if err != nil {
		t.Fatal(err)
	}
	again, st, err := w.copy(a.id, projection.CopyBranch, 2, keyed)
	if err != nil || again.id != b.id || !st.Replayed || st.Epoch != 2 || st.Writer == first.Writer {
		t.Errorf("again: %+v, %v", st, err)
	}
	_, err = b.append(`{}`)
	wantCode(t, err, StaleWriter)
	w.reopen()
	again, st, err = w.copy(a.id, projection.CopyBranch, 2, keyed)
	if err != nil || again.id != b.id || st.Epoch != 3 {
		t.Errorf("after a restart: %+v, %v", st, err)
	}
	again.mustAttach()
	again.mustClaim("x", "bash", "read-only")
	_, st, err = w.copy(a.id, projection.CopyBranch, 2, keyed)
	if err != nil || st.Record.ID != b.id || st.Writer != "" || !st.Replayed {
		t.Errorf("with progress: %+v, %v", st, err)
	}
	changed := keyed
	changed.BodyHash[0]++
	_, _, err = w.copy(a.id, projection.CopyBranch, 3, changed)
	wantCode(t, err, IdempotencyMismatch)
	elsewhere := w.mustCopy(other.id, projection.CopyBranch, 2, keyed)
	own := w.start(keyed)
	if elsewhere.id == b.id || own.id == b.id || own.id == elsewhere.id {
		t.Error("a key of another source, or of a start, is the same")
	}
}

// TestCopyOfSessions: of recorded sessions, each prefix has the same history
// from a copy.
func TestCopyOfSessions(t *testing.T) {
	for _, name := range []string{"coding-agent.jsonl", "chat.jsonl", "shell-agent.traj"} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			a := w.start(StartRequest{ID: "exec_source"})
			f, err := os.Open(filepath.Join("..", "testdata", "sessions", name))
			if err != nil {
				t.Fatal(err)
			}
			defer f.Close()
			_, err = importer.Read(f, func(r importer.Row) error { a.mustAppend(string(r.JSON)); return nil }, func(importer.Problem) {})
			if err != nil {
				t.Fatal(err)
			}
			calls := strings.Count(a.history(HistoryRequest{}), "\n")
			whole := ""
			for call := uint64(1); call <= uint64(calls); call++ {
				for _, kind := range []projection.CopyKind{projection.CopyBranch, projection.CopyBefore} {
					b, _, err := w.copy(a.id, kind, call, StartRequest{})
					if err != nil {
						t.Fatalf("%s %d: %v", kind, call, err)
					}
					w.checkCopy(a, b)
					whole = b.history(HistoryRequest{})
					if n := strings.Count(whole, "\n"); kind == projection.CopyBranch && n < int(call) || kind != projection.CopyBranch && n >= int(call) {
						t.Errorf("%s %d has %d calls", kind, call, n)
					}
				}
			}
			if calls == 0 || whole == "" && calls > 1 {
				t.Errorf("there are %d calls", calls)
			}
			_, _, err = w.copy(a.id, projection.CopyBranch, uint64(calls)+1, StartRequest{})
			wantCode(t, err, UnknownCall)
		})
	}
}

// TestCopyRandom: of a random run, and of copies of it, each prefix has the same
// rows and history from a copy; so has a store that was opened again.
func TestCopyRandom(t *testing.T) {
	base := fastDir(t)
	tries := 20
	if testing.Short() {
		tries = 5
	}
	checks(t, tries)
	rapid.Check(t, func(rt *rapid.T) {
		dir, err := os.MkdirTemp(base, "copies")
		if err != nil {
			rt.Fatal(err)
		}
		defer os.RemoveAll(dir)
		w := newWorldAt(t, dir)
		defer w.close()
		a := w.start(StartRequest{ID: "exec_s"})
		calls, open := a.live(rt, 0, nil, rapid.IntRange(5, 40).Draw(rt, "steps"))
		for round := range 4 {
			if calls == 0 {
				return
			}
			kind := rapid.SampledFrom([]projection.CopyKind{projection.CopyBranch, projection.CopyBefore, projection.CopyRevise}).Draw(rt, "kind")
			call := rapid.Uint64Range(1, calls).Draw(rt, "call")
			b, _, err := w.copy(a.id, kind, call, StartRequest{ID: fmt.Sprint("exec_", round)})
			if CodeOf(err) == CallOpen && kind == projection.CopyBranch {
				if !open[call] {
					rt.Fatal(err)
				}
				continue
			}
			if err != nil {
				rt.Fatalf("%s %d of %d: %v", kind, call, calls, err)
			}
			w.checkCopy(a, b)
			if rapid.Bool().Draw(rt, "restart") {
				w.reopen()
				b.attachEnded()
				b.mustAppend(`{"after":"a restart"}`)
			}
			a, open = b, map[uint64]bool{}
			list, err := w.s.Calls(w.ref(a.id), 0, 0)
			if err != nil {
				rt.Fatal(err)
			}
			calls, open = a.live(rt, uint64(len(list)), open, rapid.IntRange(0, 10).Draw(rt, "more steps"))
		}
	})
}

// live makes some steps of an agent with so many calls, and returns how many
// there are now and which of them are open.
func (a *agent) live(rt *rapid.T, calls uint64, open map[uint64]bool, steps int) (uint64, map[uint64]bool) {
	if open == nil {
		open = map[uint64]bool{}
	}
	check := func(err error) {
		if err != nil {
			rt.Fatal(err)
		}
	}
	for range steps {
		switch rapid.IntRange(0, 4).Draw(rt, "step") {
		case 0:
			size := rapid.SampledFrom([]int{1, 500, 70 << 10}).Draw(rt, "size")
			_, err := a.append(`{"text":"`+strings.Repeat("t", size)+`"}`, `{"r":"`+a.id+`"}`)
			check(err)
		case 1:
			name := fmt.Sprint("p", rapid.IntRange(0, 99).Draw(rt, "name"))
			_, _, err := a.put(name, strings.Repeat(name, rapid.SampledFrom([]int{1, 9 << 10}).Draw(rt, "size")))
			if CodeOf(err) != PayloadConflict {
				check(err)
			}
		case 2:
			calls++
			_, err := a.claim(fmt.Sprint("call ", calls), fmt.Sprint("tool", calls%3), "mutating")
			check(err)
			open[calls] = true
		default:
			for call := range open {
				shown := textCandidate("of " + a.id)
				if n := rapid.IntRange(0, 3).Draw(rt, "images"); n > 0 {
					var images [][]byte
					for i := range n {
						images = append(images, jpeg(rapid.SampledFrom([]int{700, 30_000}).Draw(rt, "bytes"), byte(i)))
					}
					shown = imageCandidate(images...)
				}
				_, err := a.project(call, fmt.Sprintf(`{"of":%d}`, call), candidate(shown))
				check(err)
				delete(open, call)
				break
			}
		}
	}
	return calls, open
}
