package projection

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"runtime"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/zeebo/blake3"
	"pgregory.net/rapid"
)

func events(list ...Event[string, int]) iter.Seq2[Event[string, int], error] {
	return func(yield func(Event[string, int], error) bool) {
		for _, e := range list {
			if !yield(e, nil) {
				return
			}
		}
	}
}

func TestFold(t *testing.T) {
	claim := func(call string, at int) Event[string, int] { return Event[string, int]{call, false, at} }
	done := func(call string, at int) Event[string, int] { return Event[string, int]{call, true, at} }
	pairs, err := Fold(events(
		done("z", 0), // of no call
		claim("a", 1), claim("b", 2), done("b", 3), claim("a", 4) /* again */, done("b", 5), claim("c", 6), done("a", 7),
		claim("b", 8), done("b", 9),
	))
	want := []Pair[int]{{1, 7, true}, {2, 3, true}, {6, 0, false}, {8, 9, true}}
	if d := cmp.Diff(want, pairs); d != "" || err != nil {
		t.Errorf("%v %s", err, d)
	}
	stop := errors.New("stop")
	_, err = Fold(func(yield func(Event[string, int], error) bool) { yield(Event[string, int]{}, stop) })
	if err != stop {
		t.Errorf("an error of the log became %v", err)
	}
}

// A history only grows with its log: what was shown of a call that had ended
// stays, and calls keep their order.
func TestFoldOfPrefixes(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		log := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) Event[string, int] {
			return Event[string, int]{rapid.SampledFrom([]string{"a", "b", "c", "d"}).Draw(t, "call"), rapid.Bool().Draw(t, "outcome"), rapid.Int().Draw(t, "at")}
		}), 0, 40).Draw(t, "log")
		var before []Pair[int]
		for n := range len(log) + 1 {
			pairs, _ := Fold(events(log[:n]...))
			if len(pairs) < len(before) {
				t.Fatalf("after %d entries there are %d calls, before %d", n, len(pairs), len(before))
			}
			for i, p := range before {
				if p.Claim != pairs[i].Claim || p.Settled && p != pairs[i] {
					t.Fatalf("call %d was %+v and is %+v", i, p, pairs[i])
				}
			}
			before = pairs
		}
	})
}

func TestTurns(t *testing.T) {
	decoded, err := Decode(doc(text("a"), ",", value("[1e-400]"), ",", image("image/png", ref())).bytes(t), vectorRun)
	if err != nil {
		t.Fatal(err)
	}
	sentinel := failed()
	for name, c := range map[string]struct {
		turn Turn
		want string
	}{
		"plain": {
			Turn{Call: 1, CallID: "c1", Name: "bash", Arguments: []byte(" {\"a\": [1 ,2]} "), Result: &decoded},
			`{"call":1,"call_id":"c1","name":"bash","arguments":{"a":[1,2]},"result":` + string(doc(text("a"), ",", value("[1e-400]"), ",", image("image/png", ref())).bytes(t)) + "}\n",
		},
		"open": {
			Turn{Call: 18446744073709551615, CallID: "a\"b", Name: "x", ArgumentsB3: "af"},
			`{"call":18446744073709551615,"call_id":"a\"b","name":"x","arguments_b3":"af","result":{"status":"unknown","synthetic":true}}` + "\n",
		},
		"sentinel":          {Turn{Call: 2, Result: &sentinel}, `{"call":2,"call_id":"","name":"","result":` + Sentinel + "}\n"},
		"arguments no JSON": {Turn{Call: 3, Arguments: []byte("ls \xff\n")}, `{"call":3,"call_id":"","name":"","arguments":"ls ` + "\ufffd" + `\n","result":{"status":"unknown","synthetic":true}}` + "\n"},
	} {
		if got := string(AppendTurn(nil, c.turn)); got != c.want {
			t.Errorf("%s:\n%s\nwant\n%s", name, got, c.want)
		}
	}
	if got, want := string(AppendDropped(nil, Dropped{7, "2026-01-02T03:04:05Z", "run-retention-v2"})),
		`{"compacted":true,"calls_dropped":7,"at":"2026-01-02T03:04:05Z","policy":"run-retention-v2"}`+"\n"; got != want {
		t.Errorf("%s", got)
	}
}

// gallery is a run's artifacts: pictures of these sizes.
func gallery(sizes ...int) (Projection, func(Ref) ([]byte, bool, error)) {
	files := map[string][]byte{}
	p := Projection{Status: OK}
	for i, n := range sizes {
		b := append([]byte("\xff\xd8\xff"), bytes.Repeat([]byte{byte(i)}, n-3)...)
		name := fmt.Sprint("p", i)
		files[name] = b
		p.Parts = append(p.Parts, Image{JPEG, Ref{vectorRun, name, blake3.Sum256(b), int64(n)}})
	}
	return p, func(r Ref) ([]byte, bool, error) { b, ok := files[r.Name]; return b, ok, nil }
}

func TestMaterialize(t *testing.T) {
	p, artifact := gallery(100, 300, 50, 60)
	lost := func(name string) func(Ref) ([]byte, bool, error) {
		return func(r Ref) ([]byte, bool, error) {
			b, ok, err := artifact(r)
			return b, ok && r.Name != name, err
		}
	}
	changed := func(change func([]byte) []byte) func(Ref) ([]byte, bool, error) {
		return func(r Ref) ([]byte, bool, error) {
			b, ok, err := artifact(r)
			return change(bytes.Clone(b)), ok, err
		}
	}
	for name, c := range map[string]struct {
		m    Materializer
		want string
	}{
		"all":         {Materializer{Vision: true, Budget: 510, Artifact: artifact}, "inline inline inline inline"},
		"none":        {Materializer{Vision: true, Artifact: artifact}, "over-budget over-budget over-budget over-budget"},
		"one over":    {Materializer{Vision: true, Budget: 509, Artifact: artifact}, "inline inline inline over-budget"},
		"no vision":   {Materializer{Budget: 1000}, "no-vision no-vision no-vision no-vision"},
		"large ones":  {Materializer{Vision: true, Budget: 160, Artifact: artifact}, "inline over-budget inline over-budget"},
		"lost":        {Materializer{Vision: true, Budget: 410, Artifact: lost("p0")}, "gone inline inline inline"},
		"other bytes": {Materializer{Vision: true, Budget: 999, Artifact: changed(func(b []byte) []byte { b[20]++; return b })}, "gone gone gone gone"},
		"longer":      {Materializer{Vision: true, Budget: 999, Artifact: changed(func(b []byte) []byte { return append(b, 0) })}, "gone gone gone gone"},
		"other type":  {Materializer{Vision: true, Budget: 999, Artifact: changed(func(b []byte) []byte { b[0] = 'G'; return b })}, "gone gone gone gone"},
	} {
		c.m.Run = vectorRun
		var first string
		for range 2 { // doing it again decides the same
			m := c.m
			var out bytes.Buffer
			for call := range 2 {
				if err := m.WriteTurn(&out, Turn{Call: uint64(call + 1), CallID: "c", Name: "n", Result: &p}); err != nil {
					t.Fatal(err)
				}
				m.Budget = c.m.Budget // each call with its own, to keep the table short
			}
			lines := strings.Split(strings.TrimSuffix(out.String(), "\n"), "\n")
			if len(lines) != 2 {
				t.Fatalf("%s: %d lines", name, len(lines))
			}
			if got := decisions(t, lines[1], 2); got != c.want {
				t.Errorf("%s: %s, want %s\n%s", name, got, c.want, lines[0])
			}
			if first != "" && first != out.String() {
				t.Errorf("%s: the second time it is different", name)
			}
			first = out.String()
		}
	}
	failure := Materializer{Run: vectorRun, Vision: true, Budget: 999, Artifact: func(Ref) ([]byte, bool, error) { return nil, false, io.ErrUnexpectedEOF }}
	if err := failure.WriteTurn(io.Discard, Turn{Result: &p}); err != io.ErrUnexpectedEOF {
		t.Errorf("an error of the store became %v", err)
	}
}

// decisions are those of a line, which has to be what a provider can be shown.
func decisions(t *testing.T, line string, call int) string {
	t.Helper()
	var v struct {
		Result struct {
			Parts []struct {
				Kind, Text string
				MediaType  string `json:"media_type"`
				Data       []byte
			}
		}
		Images []struct {
			Key      string
			Decision Decision
			Bytes    int64
		}
	}
	if err := json.Unmarshal([]byte(line), &v); err != nil {
		t.Fatalf("%v in %s", err, line)
	}
	var all []string
	for i, im := range v.Images {
		all = append(all, string(im.Decision))
		part := v.Result.Parts[i]
		if im.Key != fmt.Sprintf("%s/%d/%d", vectorRun, call, i) {
			t.Errorf("the key is %s", im.Key)
		}
		switch {
		case im.Decision == Inline && (part.Kind != "image" || int64(len(part.Data)) != im.Bytes || part.MediaType != "image/jpeg"):
			t.Errorf("the image is %+v", part)
		case im.Decision != Inline && part.Text != note("image/jpeg", im.Bytes, im.Decision):
			t.Errorf("the note is %+v", part)
		}
	}
	return strings.Join(all, " ")
}

// The budget is spent over all turns, in order.
func TestBudgetSpansTurns(t *testing.T) {
	p, artifact := gallery(100, 100)
	m := Materializer{Run: vectorRun, Vision: true, Budget: 350, Artifact: artifact}
	var got []string
	for call := 1; call <= 3; call++ {
		var out bytes.Buffer
		if err := m.WriteTurn(&out, Turn{Call: uint64(call), Result: &p}); err != nil {
			t.Fatal(err)
		}
		got = append(got, decisions(t, out.String(), call))
	}
	if d := cmp.Diff([]string{"inline inline", "inline over-budget", "over-budget over-budget"}, got); d != "" {
		t.Error(d)
	}
}

// What a history inlines is taken as a candidate again.
func TestMaterializedIsACandidate(t *testing.T) {
	p, artifact := gallery(100, 3000)
	m := Materializer{Run: vectorRun, Vision: true, Budget: 1 << 20, Artifact: artifact}
	var out bytes.Buffer
	if err := m.WriteTurn(&out, Turn{Call: 1, Result: &p}); err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(out.String(), `"result":`)
	result, _, _ := strings.Cut(rest, `,"images"`)
	adm, err := Admit([]byte(result), Call{vectorRun, 2}, unreachable(t))
	if err != nil || len(adm.Artifacts) != 2 || adm.Artifacts[1].B3 != p.Parts[1].(Image).Ref.B3 {
		t.Errorf("%v %.300s", err, result)
	}
}

// A history of ten thousand calls streams: memory holds where they stand, and
// one of them.
func TestHistoryStreams(t *testing.T) {
	const size = 20 << 10
	calls := uint64(10_000)
	if testing.Short() {
		calls = 1000
	}
	encoded, err := Encode(Projection{Status: OK, Parts: []Part{Text(strings.Repeat("x", size)), JSON(`{"a":1}`)}}, vectorRun)
	if err != nil {
		t.Fatal(err)
	}
	var before, now runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	pairs, err := Fold(func(yield func(Event[uint64, uint64], error) bool) {
		for i := range calls { // the first call ends last
			yield(Event[uint64, uint64]{i, false, i}, nil)
		}
		for i := range calls {
			yield(Event[uint64, uint64]{calls - 1 - i, true, calls + i}, nil)
		}
	})
	if err != nil || uint64(len(pairs)) != calls || pairs[0].Outcome != 2*calls-1 {
		t.Fatalf("%v, %d calls", err, len(pairs))
	}
	m := Materializer{Run: vectorRun}
	written, most := int64(0), uint64(0)
	for i, p := range pairs {
		result, err := Decode(encoded, vectorRun)
		if err != nil {
			t.Fatal(err)
		}
		if err := m.WriteTurn(writerFunc(func(b []byte) { written += int64(len(b)) }), Turn{Call: p.Claim, Name: "n", Result: &result}); err != nil {
			t.Fatal(err)
		}
		if i%500 == 499 {
			runtime.GC()
			runtime.ReadMemStats(&now)
			most = max(most, now.HeapAlloc)
		}
	}
	if grown := int64(most) - int64(before.HeapAlloc); grown > 2<<20 || written < int64(calls)*size {
		t.Errorf("%d bytes of history, and the heap grew by %d", written, grown)
	}
	runtime.KeepAlive(pairs)
}

type writerFunc func([]byte)

func (f writerFunc) Write(b []byte) (int, error) { f(b); return len(b), nil }

func BenchmarkHistory(b *testing.B) {
	encoded := doc(text(rep("a line of output ", 1000)), ",", value("[", rep(`{"a":1,"b":"c"},`, 500), "0]")).bytes(b)
	b.SetBytes(int64(len(encoded)))
	m := Materializer{Run: vectorRun}
	for b.Loop() {
		p, err := Decode(encoded, vectorRun)
		if err != nil {
			b.Fatal(err)
		}
		if err := m.WriteTurn(io.Discard, Turn{Call: 1, Result: &p}); err != nil {
			b.Fatal(err)
		}
	}
}
