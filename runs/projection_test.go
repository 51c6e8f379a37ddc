package runs

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"durafs/cas"
	"durafs/importer"
	"durafs/projection"
)

// candidate is a projector that has its candidate already.
func candidate(text string) func(context.Context) ([]byte, error) {
	return func(context.Context) ([]byte, error) { return []byte(text), nil }
}

// hung is a projector that never comes to an end.
func hung(ctx context.Context) ([]byte, error) {
	<-ctx.Done()
	return nil, ctx.Err()
}

func textCandidate(text string) string {
	return `{"v":1, "status":"ok", "parts":[{"text":` + string(mustJSON(text)) + `,"kind":"text"}]}`
}

func textProjection(text string) string {
	return `{"v":1,"status":"ok","parts":[{"kind":"text","text":` + string(mustJSON(text)) + `}]}`
}

func (a *agent) project(call uint64, outcome string, from func(context.Context) ([]byte, error)) (Committed, error) {
	return a.w.s.Outcome(ctx, a.c, a.id, OutcomeRequest{Call: call, Outcome: []byte(outcome), Projection: from})
}

func (a *agent) mustProject(call uint64, outcome, text string) Committed {
	a.w.t.Helper()
	got, err := a.project(call, outcome, candidate(text))
	if err != nil {
		a.w.t.Fatalf("outcome of %d: %v", call, err)
	}
	return got
}

func (a *agent) history(r HistoryRequest) string {
	a.w.t.Helper()
	var b bytes.Buffer
	if err := a.w.s.History(ctx, a.w.ref(a.id), r, &b); err != nil {
		a.w.t.Fatalf("history: %v", err)
	}
	return b.String()
}

// jpeg is a JPEG of this size, of bytes that do not shrink.
func jpeg(size int, seed byte) []byte {
	b := make([]byte, size)
	for i, x := 0, uint32(seed)+1; i < size; i++ {
		x = x*1664525 + 1013904223
		b[i] = byte(x >> 24)
	}
	copy(b, "\xff\xd8\xff")
	return b
}

func imageCandidate(images ...[]byte) string {
	var parts []string
	for _, im := range images {
		parts = append(parts, `{"kind":"image","media_type":"image/jpeg","data":"`+base64.StdEncoding.EncodeToString(im)+`"}`)
	}
	return `{"v":1,"status":"ok","parts":[` + strings.Join(parts, ",") + `]}`
}

// TestProjection: an outcome and what is shown of it are one batch; they are
// there after a restart, with the images.
func TestProjection(t *testing.T) {
	w := newWorld(t)
	a := w.start(StartRequest{ID: "exec_a"})
	small, large := jpeg(1000, 1), jpeg(100_000, 2)
	if _, _, err := w.s.Put(ctx, a.c, a.id, "shot.jpg", SourceToolResult, "image/jpeg", bytes.NewReader(large)); err != nil {
		t.Fatal(err)
	}
	a.mustClaim("c1", "shot", "read-only")
	b3 := cas.Sum(large).String()
	got := a.mustProject(1, `{"status":"ok"}`, `{"v":1,"status":"ok","parts":[{"kind":"text","text":"two"},
		{"kind":"image","media_type":"image/jpeg","data":"`+base64.StdEncoding.EncodeToString(small)+`"},
		{"kind":"image","media_type":"image/jpeg","ref":{"run":"exec_a","name":"shot.jpg","b3":"`+b3+`","bytes":100000}}]}`)
	want := `{"v":1,"status":"ok","parts":[{"kind":"text","text":"two"},` +
		`{"kind":"image","media_type":"image/jpeg","ref":{"run":"exec_a","name":".projection-1-1","b3":"` + cas.Sum(small).String() + `","bytes":1000}},` +
		`{"kind":"image","media_type":"image/jpeg","ref":{"run":"exec_a","name":".projection-1-2","b3":"` + b3 + `","bytes":100000}}]}`
	if d := cmp.Diff(want, string(got.Projection)); d != "" || got.Replayed || got.Refused != "" {
		t.Errorf("%+v %s", got, d)
	}
	calls, err := w.s.Calls(w.ref(a.id), 0, 0)
	if err != nil || string(calls[0].Result.Projection) != want {
		t.Errorf("%v: %s", err, mustJSON(calls))
	}
	plain := a.history(HistoryRequest{})
	if want := `{"call":1,"call_id":"c1","name":"shot","arguments":{"of":"c1"},"result":` + want + "}\n"; plain != want {
		t.Errorf("the history is\n%s\nwant\n%s", plain, want)
	}
	shown := HistoryRequest{Materialize: true, Vision: true, ImageBudget: 101_000}
	seen := a.history(shown)
	for _, im := range [][]byte{small, large} {
		if !strings.Contains(seen, `"data":"`+base64.StdEncoding.EncodeToString(im)+`"`) {
			t.Errorf("an image of %d bytes is not in the history", len(im))
		}
	}
	if list, err := w.s.PayloadList(w.ref(a.id)); err != nil || len(list) != 1 || list[0].Name != "shot.jpg" {
		t.Errorf("the payloads that are shown: %v %s", err, mustJSON(list))
	}
	if _, err := w.s.OpenPayload(w.ref(a.id), ".projection-1-1"); CodeOf(err) != UnknownPayload {
		t.Errorf("an artifact is opened as a payload: %v", err)
	}
	w.reopen()
	if again := a.history(HistoryRequest{}); again != plain {
		t.Errorf("after a restart the history is\n%s\nwas\n%s", again, plain)
	}
	if again := a.history(shown); again != seen {
		t.Error("after a restart the images are shown differently")
	}
}

// TestProjectionIsTotal: whatever becomes of the projector, the outcome that was
// received is committed, within the time, and only once.
func TestProjectionIsTotal(t *testing.T) {
	broken := errors.New("the connection broke")
	big := strings.Repeat(" ", projection.CandidateBytesMax) + textCandidate("a")
	for name, from := range map[string]func(context.Context) ([]byte, error){
		"none":          nil,
		"says none":     func(context.Context) ([]byte, error) { return nil, nil },
		"hangs":         hung,
		"disconnects":   func(context.Context) ([]byte, error) { return nil, broken },
		"half a line":   candidate(`{"v":1,"status":"ok","par`),
		"no JSON":       candidate("\xff"),
		"empty":         candidate(""),
		"too large":     candidate(big),
		"another run's": candidate(`{"v":1,"status":"ok","parts":[{"kind":"image","media_type":"image/png","ref":{"run":"exec_b","name":"x","b3":"` + strings.Repeat("a", 64) + `","bytes":8}}]}`),
		"the request":   candidate(`{"v":1,"status":"ok","parts":[{"kind":"image","media_type":"image/png","ref":{"run":"exec_a","name":".resume-request","b3":"` + strings.Repeat("a", 64) + `","bytes":8}}]}`),
		"no such image": candidate(`{"v":1,"status":"ok","parts":[{"kind":"image","media_type":"image/png","ref":{"run":"exec_a","name":"x","b3":"` + strings.Repeat("a", 64) + `","bytes":8}}]}`),
		"svg":           candidate(`{"v":1,"status":"ok","parts":[{"kind":"image","media_type":"image/svg+xml","data":"PHN2Zz4="}]}`),
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorldAt(t, fastDir(t))
			if name == "hangs" || name == "disconnects" {
				w.projectionTimeout = 50 * time.Millisecond
			}
			w.reopen()
			defer w.close()
			a := w.start(StartRequest{ID: "exec_a"})
			a.mustClaim("c1", "t", "mutating")
			got, err := a.project(1, `{"status":"ok"}`, from)
			if err != nil || string(got.Projection) != projection.Sentinel || string(got.Outcome) != `{"status":"ok"}` {
				t.Fatalf("%v %s", err, mustJSON(got))
			}
			if refused := got.Refused != ""; refused != (name != "none" && name != "says none" && name != "hangs" && name != "disconnects") {
				t.Errorf("it is said to be refused: %q", got.Refused)
			}
			_, err = a.claim("c1", "t", "mutating")
			wantCode(t, err, CallExists)
			// What is sent later, and whatever it shows, is answered with that.
			again, err := a.project(1, `{"status":"ok"}`, candidate(textCandidate("late")))
			if err != nil || !again.Replayed || string(again.Projection) != projection.Sentinel {
				t.Errorf("again: %v %s", err, mustJSON(again))
			}
			w.reopen()
			if h := a.history(HistoryRequest{}); !strings.Contains(h, projection.Sentinel) || strings.Count(h, "\n") != 1 {
				t.Errorf("the history is %s", h)
			}
		})
	}
}

// TestProjectionOnAnotherConnection: the outcome of a broken connection gets the
// projection that a later request brings.
func TestProjectionOnAnotherConnection(t *testing.T) {
	w := newWorld(t)
	a := w.start(StartRequest{})
	a.mustClaim("c1", "t", "mutating")
	type answer struct {
		Committed
		error
	}
	first := make(chan answer, 1)
	reading := make(chan struct{})
	gone, disconnect := context.WithCancel(ctx)
	go func() {
		got, err := w.s.Outcome(gone, a.c, a.id, OutcomeRequest{Call: 1, Outcome: []byte(`{"a":1}`), Projection: func(ctx context.Context) ([]byte, error) {
			close(reading)
			return hung(ctx)
		}})
		first <- answer{got, err}
	}()
	<-reading
	for w.s.projectings.count() == 0 {
		runtime.Gosched()
	}
	disconnect()
	got, err := a.project(1, `{ "a":1}`, candidate(textCandidate("here")))
	if err != nil || string(got.Projection) != textProjection("here") {
		t.Errorf("the second: %v %s", err, mustJSON(got))
	}
	if one := <-first; one.error != nil || string(one.Projection) != textProjection("here") || one.Replayed {
		t.Errorf("the first: %v %s", one.error, mustJSON(one.Committed))
	}
	if w.s.projectings.count() != 0 {
		t.Error("something waits still")
	}
}

func (ps *projectings) count() int {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	return len(ps.waiting)
}

// TestProjectionDoesNotWait: a cancel, the end of the run, and the end of the
// store commit at once what waits.
func TestProjectionDoesNotWait(t *testing.T) {
	for name, end := range map[string]func(w *world, a *agent) error{
		"cancel": func(w *world, a *agent) error {
			_, err := w.s.Cancel(ctx, Caller{Owner: true}, a.id, CancelRequest{})
			return err
		},
		"close":     func(w *world, _ *agent) error { w.s.Hurry(); w.s.Hurry(); return nil },
		"close now": func(w *world, _ *agent) error { w.s.HurryNow(); w.s.HurryNow(); return nil },
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorldAt(t, fastDir(t))
			w.projectionTimeout = ProjectionTimeoutMax
			w.reopen()
			defer w.close()
			a := w.start(StartRequest{})
			a.mustClaim("c1", "t", "mutating")
			done := make(chan Committed, 1)
			go func() {
				got, err := a.project(1, `{}`, hung)
				if err != nil {
					t.Error(err)
				}
				done <- got
			}()
			for w.s.projectings.count() == 0 {
				runtime.Gosched()
			}
			if err := end(w, a); err != nil {
				t.Fatal(err)
			}
			if got := <-done; string(got.Projection) != projection.Sentinel {
				t.Errorf("committed is %s", mustJSON(got))
			}
		})
	}
}

// TestHurryWaitsAMoment: a projection that follows its outcome a moment after the
// store was told to close is shown.
func TestHurryWaitsAMoment(t *testing.T) {
	w := newWorldAt(t, fastDir(t))
	defer w.close()
	a := w.start(StartRequest{})
	a.mustClaim("c1", "t", "mutating")
	comes, done := make(chan struct{}), make(chan Committed, 1)
	go func() {
		got, err := a.project(1, `{}`, func(context.Context) ([]byte, error) {
			<-comes
			return []byte(`{"v":1,"status":"ok","parts":[{"kind":"json","value":7}]}`), nil
		})
		if err != nil {
			t.Error(err)
		}
		done <- got
	}()
	for w.s.projectings.count() == 0 {
		runtime.Gosched()
	}
	w.s.Hurry()
	close(comes)
	if got := <-done; string(got.Projection) == projection.Sentinel {
		t.Errorf("committed is %s", mustJSON(got))
	}
}

// TestProjectionOnce: the same outcome with what shows the same is no news, in
// whatever spelling; anything else is refused with what stands.
func TestProjectionOnce(t *testing.T) {
	w := newWorld(t)
	a := w.start(StartRequest{ID: "exec_a"})
	a.mustClaim("c1", "t", "read-only")
	im := jpeg(50, 3)
	parts := func(value string, im []byte) string {
		return `{"v":1,"status":"ok","parts":[{"kind":"json","value":` + value + `},` +
			`{"kind":"image","media_type":"image/jpeg","data":"` + base64.StdEncoding.EncodeToString(im) + `"}]}`
	}
	first := a.mustProject(1, `{"s":1}`, parts(`{"a":1,"b":"x"}`, im))
	for range 2 {
		for name, c := range map[string]struct {
			outcome, text string
			same          bool
		}{
			"itself":         {`{"s":1}`, parts(`{"a":1,"b":"x"}`, im), true},
			"spelling":       {` {"s":1} `, parts(`{"b":"\u0078", "a":1}`, im), true},
			"other outcome":  {`{"s":2}`, parts(`{"a":1,"b":"x"}`, im), false},
			"other value":    {`{"s":1}`, parts(`{"a":1.0,"b":"x"}`, im), false},
			"other image":    {`{"s":1}`, parts(`{"a":1,"b":"x"}`, jpeg(50, 4)), false},
			"no projection":  {`{"s":1}`, `no projection`, false},
			"the sentinel":   {`{"s":1}`, projection.Sentinel, false},
			"another's text": {`{"s":1}`, textCandidate("x"), false},
		} {
			got, err := a.project(1, c.outcome, candidate(c.text))
			switch {
			case c.same && (err != nil || !got.Replayed || !bytes.Equal(got.Projection, first.Projection)):
				t.Errorf("%s: %v %s", name, err, mustJSON(got))
			case !c.same:
				if r := wantCode(t, err, OutcomeConflict); r.Committed == nil || !bytes.Equal(r.Committed.Projection, first.Projection) {
					t.Errorf("%s: %+v", name, r)
				}
			}
		}
		if got, err := a.project(1, `{"s":1}`, nil); err != nil || !got.Replayed {
			t.Errorf("without a projection: %v %s", err, mustJSON(got))
		}
		w.reopen()
		a.mustAttach()
	}
}

// TestOutcomesThatDiffer: what a decoder would make equal is not the same.
func TestOutcomesThatDiffer(t *testing.T) {
	w := newWorld(t)
	a := w.start(StartRequest{})
	for i, c := range [][2]string{
		{`{"a":"\ud800"}`, `{"a":"\ud801"}`}, {`{"a":"\ud800"}`, `{"a":"\ufffd"}`}, {`{"a":1,"a":2}`, `{"a":2}`}, {`{"a":1,"a":2}`, `{"a":2,"a":1}`},
	} {
		call := a.mustClaim(fmt.Sprint(i), "t", "read-only").Call
		a.mustOutcome(call, c[0])
		_, err := a.outcome(call, c[1])
		wantCode(t, err, OutcomeConflict)
	}
}

// TestProjectionsTogether: of many requests with one outcome one commits, and
// all get the same answer.
func TestProjectionsTogether(t *testing.T) {
	w := newWorld(t)
	a := w.start(StartRequest{})
	for call := uint64(1); call <= 8; call++ {
		a.mustClaim(fmt.Sprint(call), "t", "mutating")
		got := make([]Committed, 6)
		var wg sync.WaitGroup
		for i := range got {
			wg.Go(func() {
				var err error
				if got[i], err = a.project(call, `{"a":1}`, candidate(textCandidate("same"))); err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
		fresh := 0
		for _, g := range got {
			if !g.Replayed {
				fresh++
			}
			if string(g.Projection) != textProjection("same") {
				t.Errorf("an answer is %s", mustJSON(g))
			}
		}
		if fresh != 1 {
			t.Errorf("%d of them committed", fresh)
		}
	}
}

// TestArtifactsFail: where an image cannot be stored the outcome is committed
// with the sentinel, and no artifact is the run's.
func TestArtifactsFail(t *testing.T) {
	w := newWorld(t)
	a := w.start(StartRequest{})
	a.mustClaim("c1", "t", "mutating")
	w.cas.Close() // the first image stands inline, the second has no place
	got := a.mustProject(1, `{}`, imageCandidate(jpeg(100, 1), jpeg(100_000, 2)))
	if string(got.Projection) != projection.Sentinel || got.Refused == "" {
		t.Errorf("committed is %s", mustJSON(got))
	}
	for part := range 2 {
		if f, err := w.s.findPayload(uint32(w.ref(a.id)), projection.ArtifactName(1, part)); f != nil || err != nil {
			t.Errorf("the artifact of part %d is there: %v", part, err)
		}
	}
}

// TestManyArtifacts: as many small images as a projection can have fit one
// batch of the log, those that are inline elsewhere among them.
func TestManyArtifacts(t *testing.T) {
	w := newWorld(t)
	a := w.start(StartRequest{ID: "exec_a"})
	var images [][]byte
	var refs []string
	for i := range projection.PartsMax {
		im := jpeg(cas.InlineBytesMax, byte(i))
		images = append(images, im)
		name := fmt.Sprint("p", i)
		if _, _, err := w.s.Put(ctx, a.c, a.id, name, SourceNamed, "image/jpeg", bytes.NewReader(im)); err != nil {
			t.Fatal(err)
		}
		refs = append(refs, fmt.Sprintf(`{"kind":"image","media_type":"image/jpeg","ref":{"run":"exec_a","name":"%s","b3":"%s","bytes":%d}}`, name, cas.Sum(im), len(im)))
	}
	outcome := `{"x":"` + strings.Repeat("x", OutcomeBytesMax-10) + `"}`
	for call, text := range []string{imageCandidate(images...), `{"v":1,"status":"ok","parts":[` + strings.Join(refs, ",") + `]}`} {
		a.mustClaim(fmt.Sprint(call), "t", "read-only")
		if got := a.mustProject(uint64(call+1), outcome, text); got.Refused != "" {
			t.Fatalf("call %d: %s", call+1, got.Refused)
		}
	}
	w.reopen()
	lines := strings.SplitAfter(a.history(HistoryRequest{Materialize: true, Vision: true, ImageBudget: 64 << 20}), "\n")
	for call := range 2 {
		for i, im := range images {
			if !strings.Contains(lines[call], base64.StdEncoding.EncodeToString(im)) {
				t.Errorf("image %d of call %d is not shown", i, call+1)
			}
		}
	}
}

// TestHistory: calls in the order of their claims, each with a result; up to a
// row, the same as it was then; the same after a restart.
func TestHistory(t *testing.T) {
	w := newWorld(t)
	a := w.start(StartRequest{})
	a.mustPut("args", `{"large":true}`)
	var then []string
	var rows []uint64
	note := func() {
		then = append(then, a.history(HistoryRequest{}))
		rows = append(rows, w.info(a.id).LastSeq)
	}
	a.mustClaim("c1", "first", "read-only")
	note()
	a.mustClaim("c2", "second", "read-only")
	a.mustProject(2, `{}`, textCandidate("two"))
	note()
	a.mustAppend(`{"role":"tool","tool_call_id":"x","content":"no call of the store's"}`)
	if _, err := w.s.Claim(ctx, a.c, a.id, ClaimRequest{CallID: "c3", Name: "third", ArgsPayload: "args"}); err != nil {
		t.Fatal(err)
	}
	if calls, err := w.s.Calls(w.ref(a.id), 2, 0); err != nil || calls[0].ArgsB3 != cas.Sum([]byte(`{"large":true}`)).String() {
		t.Errorf("the claim does not keep the digest of a payload of arguments: %v %s", err, mustJSON(calls))
	}
	a.mustProject(1, `{}`, textCandidate("one"))
	note()
	unknown := `"result":{"status":"unknown","synthetic":true}}` + "\n"
	want := `{"call":1,"call_id":"c1","name":"first","arguments":{"of":"c1"},"result":` + textProjection("one") + "}\n" +
		`{"call":2,"call_id":"c2","name":"second","arguments":{"of":"c2"},"result":` + textProjection("two") + "}\n" +
		`{"call":3,"call_id":"c3","name":"third","arguments_b3":"` + cas.Sum([]byte(`{"large":true}`)).String() + `",` + unknown
	if d := cmp.Diff(want, then[2]); d != "" {
		t.Error(d)
	}
	a.mustSettle("") // closes the open call, and nobody told what became of it
	if d := cmp.Diff(want, a.history(HistoryRequest{})); d != "" {
		t.Error(d)
	}
	w.reopen()
	for i, seq := range rows {
		if d := cmp.Diff(then[i], a.history(HistoryRequest{Upto: seq})); d != "" {
			t.Errorf("up to row %d: %s", seq, d)
		}
	}
	if err := w.s.History(ctx, 99, HistoryRequest{}, io.Discard); CodeOf(err) != UnknownRun {
		t.Errorf("of no run: %v", err)
	}
}

// TestHistoryOfSessions: recorded sessions of other programs have the history
// that their rows tell, the same before and after a restart, also where rows
// are too large for the log.
func TestHistoryOfSessions(t *testing.T) {
	for name, calls := range map[string]int{"coding-agent.jsonl": 7, "chat.jsonl": 8, "shell-agent.traj": 0} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			a := w.start(StartRequest{})
			f, err := os.Open(filepath.Join("..", "testdata", "sessions", name))
			if err != nil {
				t.Fatal(err)
			}
			defer f.Close()
			_, err = importer.Read(f, func(r importer.Row) error { a.mustAppend(string(r.JSON)); return nil }, func(importer.Problem) {})
			if err != nil {
				t.Fatal(err)
			}
			large := strings.Repeat("x", RowTextBytesMax)
			a.mustAppend(`{"messages":[{"role":"assistant","tool_calls":[{"id":"L","function":{"name":"large","arguments":"{}"}}]},{"role":"tool","tool_call_id":"L","content":"` + large + `"}]}`)
			got := a.history(HistoryRequest{})
			lines := strings.Split(strings.TrimSuffix(got, "\n"), "\n")
			if calls == 0 {
				calls = strings.Count(got, `"name":"action"`)
			}
			if len(lines) != calls+1 || calls == 0 || strings.Contains(got, `"synthetic"`) || !strings.Contains(lines[calls], large) {
				t.Errorf("%d calls, want %d and the large one", len(lines), calls)
			}
			seq := w.info(a.id).LastSeq
			a.mustAppend(`{"type":"note","text":"the next turn"}`)
			same := func(when string) {
				t.Helper()
				if a.history(HistoryRequest{Upto: seq}) != got || a.history(HistoryRequest{}) != got || a.lines() != got {
					t.Errorf("%s it is another", when)
				}
			}
			same("at the next turn")
			w.reopen()
			same("after a restart")
			w.replays = true
			w.reopen()
			same("with no footer used")
		})
	}
}

// TestHistoryOfLargeBatches: a stretch of the index that ends within a batch
// tells nothing twice.
func TestHistoryOfLargeBatches(t *testing.T) {
	w := newWorld(t)
	a := w.start(StartRequest{ID: "exec_a"})
	var rows []string
	const calls = 400
	for n := range calls {
		id := fmt.Sprintf("c%d", n)
		rows = append(rows,
			`{"role":"assistant","tool_calls":[{"id":"`+id+`","function":{"name":"t","arguments":"{}"}}],"text":"`+strings.Repeat("x", 300)+`"}`,
			`{"role":"tool","tool_call_id":"`+id+`","content":"`+id+strings.Repeat("y", 300)+`"}`)
	}
	a.mustAppend(rows...)
	for range 2 {
		seen := 0
		err := w.s.walkEntries(uint32(w.ref(a.id)), func(_ *batch, e entry) error {
			if e.kind == kindRow {
				seen++
			}
			return nil
		})
		if err != nil || seen != int(w.info(a.id).Rows) {
			t.Errorf("a walk tells of %d rows, %v", seen, err)
		}
		lines := strings.Split(strings.TrimSuffix(a.history(HistoryRequest{}), "\n"), "\n")
		if len(lines) != calls {
			t.Fatalf("the history has %d calls", len(lines))
		}
		for n, line := range lines {
			if !strings.Contains(line, fmt.Sprintf(`"text":"c%dy`, n)) {
				t.Errorf("call %d is %.100s", n+1, line)
			}
		}
		w.reopen()
		a.mustAttach()
	}
}
