package projection

import (
	"bufio"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// foreignVector is a line of foreign.jsonl.
type foreignVector struct {
	Name string `json:"name"`
	In   pieces `json:"in"`
	Out  pieces `json:"out"`
}

func foreignVectors() []foreignVector {
	status := func(s string, parts ...any) pieces {
		return join(`{"v":1,"status":"`+s+`","parts":[`, join(parts...), `]}`)
	}
	noted := func(what string) pieces {
		return text("[image " + what + ": not shown, it was not kept by this store]")
	}
	return []foreignVector{
		{"string", of(`"hello\n\u0041 \ud800"`), doc(text(`hello\nA \ud800`))},
		{"string-empty", of(`""`), doc(text())},
		{"path-alone", of(`"/tmp/plot.png"`), doc(text("/tmp/plot.png"))},
		{"shell", of(`{"stdout":"a\n","stderr":"","exit_code":0}`), doc(text(`a\n`))},
		{"shell-failed", of(`{"exit_code":2,"stderr":"no","stdout":"a"}`), status("error", text("a"), ",", text("no"), ",", text("exit code 2"))},
		{"shell-silent", of(`{"stdout":"","stderr":"","exit_code":0}`), doc(text())},
		{"shell-and-more", of(`{"stdout":"a", "cwd":"/"}`), doc(value(`{"stdout":"a","cwd":"/"}`))},
		{"content-string", of(`{"role":"tool","content":"hi"}`), doc(text("hi"))},
		{"content-blocks", of(`{"content":[{"type":"text","text":"a"},{"type":"text","text":"b"}]}`), doc(text("a"), ",", text("b"))},
		{"content-error", of(`{"is_error":true,"content":[{"type":"text","text":"a"}]}`), status("error", text("a"))},
		{"content-error-camel", of(`{"isError":true,"content":"a"}`), status("error", text("a"))},
		{"blocks", of(`[{"type":"input_text","text":"a"},{"type":"thing","n":1.0}]`), doc(text("a"), ",", value(`{"type":"thing","n":1.0}`))},
		{"blocks-unknown", of(`[{"type":"thing"}, 1]`), doc(value(`[{"type":"thing"},1]`))},
		{"blocks-none", of(`{"content":[]}`), doc(text())},
		{"image-path", of(`{"type":"image","path":"/tmp/plot.png"}`), doc(noted("/tmp/plot.png"))},
		{"image-base64", of(`{"content":[{"type":"image","source":{"type":"base64","media_type":"image/png","data":"iVBORw0KGgo="}}]}`), doc(noted("image/png"))},
		{"image-data", of(`[{"type":"image","data":"iVBORw0KGgo=","mimeType":"image/png"}]`), doc(noted("image/png"))},
		{"image-url", of(`[{"type":"image_url","image_url":{"url":"data:image/png;base64,iVBORw0KGgo="}}]`), doc(noted("image/png"))},
		{"image-url-far", of(`[{"type":"input_image","image_url":"https://example.org/a.png"}]`), doc(noted("https://example.org/a.png"))},
		{"number", of(`9007199254740993`), doc(value("9007199254740993"))},
		{"object", of(`{"b":1e-400, "a":[]}`), doc(value(`{"b":1e-400,"a":[]}`))},
		{"null", of(`null`), doc(value("null"))},
		{"infinite", of(`{"a":1e400}`), doc(text(`{\"a\":1e400}`))},
		{"duplicate", of(`{"a":1,"a":2}`), doc(text(`{\"a\":1,\"a\":2}`))},
		{"deep", of(rep("[", 33), rep("]", 33)), doc(text(rep("[", 33), rep("]", 33)))},
		{"no-json", of("exit: 1\n"), doc(text(`exit: 1\n`))},
		{"not-utf8", of("a", hexed{"ff"}, "b"), doc(text("a\ufffdb"))},
		{"empty", of(), doc(text())},
		{"a-projection", of(doc(text("a")).join()), doc(value(doc(text("a")).join()))},
		{"reference", doc(image("image/png", ref())), doc(value(doc(image("image/png", ref())).join()))},
		{"large", of(`"`, rep("é", 200_000), `"`), doc(text(rep("é", 130_972), `\n[cut: 138056 of 400000 bytes are not shown]`))},
	}
}

func TestForeignVectors(t *testing.T) {
	writeLines(t, "foreign.jsonl", foreignVectors())
	for _, v := range foreignVectors() {
		got, err := Encode(Foreign(v.In.bytes(t)), vectorRun)
		if err != nil || string(got) != string(v.Out.bytes(t)) {
			t.Errorf("%s: %v\n%.300s…%.60s\nwant\n%.300s", v.Name, err, got, got[max(0, len(got)-60):], v.Out.bytes(t))
		}
	}
}

// Whatever another program's log holds has a form within the bounds, that
// refers to nothing.
func FuzzForeign(f *testing.F) {
	for _, v := range foreignVectors() {
		f.Add(v.In.bytes(f))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		p := Foreign(b)
		out, err := Encode(p, vectorRun)
		if err != nil || len(p.Refs()) > 0 || p.IsSentinel() {
			t.Fatalf("%v, %+v", err, p)
		}
		checkDurable(t, out, p)
	})
}

// Calls and results are found in every shape, and never in what is none.
func TestForeignCalls(t *testing.T) {
	for _, c := range []struct{ row, want string }{
		{`{"type":"message","message":{"role":"assistant","content":[{"type":"text","text":"x"},{"type":"toolCall","id":"1","name":"bash","arguments":{"a":1}}]}}`, `1 bash {"a":1}`},
		{`{"type":"message","message":{"role":"toolResult","toolCallId":"1","content":[{"type":"text","text":"x"}],"isError":true}}`, `1 = {"isError":true,"content":[{"type":"text","text":"x"}]}`},
		{`{"type":"assistant","message":{"content":[{"type":"tool_use","id":"t","name":"Read","input":{"p":"x"}}]}}`, `t Read {"p":"x"}`},
		{`{"type":"user","message":{"role":"user","content":[{"type":"tool_result","tool_use_id":"t","content":"ok"}]}}`, `t = {"type":"tool_result","tool_use_id":"t","content":"ok"}`},
		{`{"messages":[{"role":"assistant","tool_calls":[{"id":"c","function":{"name":"f","arguments":"{\"a\": 1}"}}]},{"role":"tool","tool_call_id":"c","content":"r"}]}`, `c f {"a": 1}; c = "r"`},
		{`{"type":"response_item","payload":{"type":"function_call","name":"shell","arguments":"not json","call_id":"c"}}`, `c shell "not json"`},
		{`{"type":"response_item","payload":{"type":"function_call_output","call_id":"c","output":"{\"output\":\"x\"}"}}`, `c = "{\"output\":\"x\"}"`},
		{`{"action":"ls","observation":"a b","thought":"x"}`, `step action "ls"; step = "a b"`},
		{`{"role":"tool","tool_call_id":"c","content":null}`, `c = ""`},
		{`{"type":"note","text":"tool_use"}`, ``},
		{`{"content":"toolCall","role":"assistant"}`, ``},
		{`[]`, ``},
		{`{`, ``},
		{"{\"a\":\"\xff\"}", ``},
		{`{"message":{"message":{"message":{"message":{"message":{"message":{"role":"tool","tool_call_id":"c","content":"deep"}}}}}}}`, ``},
	} {
		var got []string
		for _, call := range ForeignCalls([]byte(c.row)) {
			if call.Outcome {
				got = append(got, call.ID+" = "+string(call.Result))
			} else {
				got = append(got, call.ID+" "+call.Name+" "+string(call.Arguments))
			}
		}
		if d := cmp.Diff(c.want, strings.Join(got, "; ")); d != "" {
			t.Errorf("%s: %s", c.row, d)
		}
	}
}

func FuzzForeignCalls(f *testing.F) {
	for _, row := range sessionRows(f, "chat.jsonl") {
		f.Add(row)
	}
	f.Add([]byte(`{"role":"assistant","tool_calls":[{"id":"c","function":{"name":"f","arguments":"\ud800"}}]}`))
	f.Fuzz(func(t *testing.T, row []byte) {
		for _, c := range ForeignCalls(row) {
			p := Foreign(c.Result)
			turn := Turn{Call: 1, CallID: c.ID, Name: c.Name, Arguments: c.Arguments, Result: &p}
			if line := AppendTurn(nil, turn); !json.Valid(line) {
				t.Errorf("the line is no JSON: %s", line)
			}
		}
	})
}

func sessionRows(t testing.TB, name string) (rows [][]byte) {
	t.Helper()
	f, err := os.Open(filepath.Join("..", "testdata", "sessions", name))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, 64<<20)
	for lines.Scan() {
		rows = append(rows, []byte(lines.Text()))
	}
	if lines.Err() != nil || len(rows) == 0 {
		t.Fatalf("%s: %v", name, lines.Err())
	}
	return rows
}

// In recorded sessions every call is found, and paired with its result.
func TestSessions(t *testing.T) {
	for name, want := range map[string]int{"coding-agent.jsonl": 7, "chat.jsonl": 8} {
		type place struct{ row, n int }
		rows := sessionRows(t, name)
		pairs, err := Fold(func(yield func(Event[string, place], error) bool) {
			for i, row := range rows {
				for n, c := range ForeignCalls(row) {
					yield(Event[string, place]{c.ID, c.Outcome, place{i, n}}, nil)
				}
			}
		})
		open := 0
		for _, p := range pairs {
			if !p.Settled {
				open++
			}
		}
		if err != nil || len(pairs) != want || open > 0 {
			t.Errorf("%s: %v, %d calls (want %d), %d of them open", name, err, len(pairs), want, open)
		}
		results := 0
		for _, p := range pairs {
			c := ForeignCalls(rows[p.Outcome.row])[p.Outcome.n]
			if _, text := Foreign(c.Result).Parts[0].(Text); text {
				results++
			}
		}
		if results != len(pairs) {
			t.Errorf("%s: of %d results %d are texts", name, len(pairs), results)
		}
	}
}
