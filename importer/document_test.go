package importer

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const trajectory = `{
    "environment": "main",
    "trajectory": [
        {
            "action": "ls -F",
            "observation": "a\r\nb [ ] { } \" \u2028",
            "state": { "open_file": null, "n": 1.0e+2 }
        },
        { "type": "own", "seq": 1 }
    ],
    "history": [ { "role": "user", "content": "fix it" }, "text", [ 1, 2 ] ],
    "info": { "exit_status": "submitted" },
    "by": 17
}
`

func TestDocument(t *testing.T) {
	g := readAll(t, strings.NewReader(trajectory))
	want := []string{
		`{"type":"environment","environment":"main"}`,
		`{"type":"step","action":"ls -F","observation":"a\r\nb [ ] { } \" \u2028","state":{"open_file":null,"n":1.0e+2}}`,
		`{"type":"own","source_seq":1}`,
		`{"type":"message","role":"user","content":"fix it"}`,
		`{"type":"message","value":"text"}`,
		`{"type":"message","value":[1,2]}`,
		`{"type":"info","info":{"exit_status":"submitted"}}`,
		`{"type":"by","source_by":17}`,
	}
	if diff := cmp.Diff(want, g.rows); diff != "" {
		t.Errorf("rows (-want +got):\n%s", diff)
	}
	wantProblems := []string{
		`line 9, byte 220: the field "seq" is the log's own name; renamed to "source_seq"`,
		`line 13, byte 387: the field "by" is the log's own name; renamed to "source_by"`,
	}
	if diff := cmp.Diff(wantProblems, g.problems); diff != "" {
		t.Errorf("problems (-want +got):\n%s", diff)
	}
	if s := g.sum; s.Format != Trajectory || s.Lines != 14 || s.Bytes != int64(len(trajectory)) || s.Task != "fix it" || s.Rows != 8 || s.Renamed != 2 || s.Lost != 0 {
		t.Errorf("summary %+v", s)
	}
}

func TestDocumentShapes(t *testing.T) {
	for _, c := range []struct{ name, in, rows, problems string }{
		{"on one line", `{"trajectory":[{"a":1}]}`, `{"type":"step","a":1}`, ""},
		{"an array", "[\n{\"role\":\"user\"},\n{\"type\":\"x\"}]\n", `{"type":"message","role":"user"} {"type":"x"}`, ""},
		{"empty", "{\n}\n", "", ""},
		{"type at the top", "{\n\"type\": \"x\", \"trajectory\": []}", `{"type":"x"}`, ""},
		{"two documents", "{\n\"a\":1}\n{\"b\":2}", `{"type":"a","a":1} {"type":"b","b":2}`, ""},
		{
			"torn in a step", "{\n\"trajectory\":[{\"a\":1},{\"b\":", `{"type":"step","a":1}`,
			"line 2, byte 29: the document ends in the middle of a value: what follows the last whole part is missing",
		},
		{
			"torn between", "{\n\"trajectory\":[{\"a\":1}", `{"type":"step","a":1}`,
			"line 2, byte 23: the document ends in the middle of a value: what follows the last whole part is missing",
		},
		{
			"torn in a name", "{\n\"a\":1,\"tra", `{"type":"a","a":1}`,
			"line 2, byte 12: the document ends in the middle of a value: what follows the last whole part is missing",
		},
		{
			"a step that is not JSON", "{\n\"trajectory\":[{\"a\":01},{\"b\":2},\n{\"c\":\n\"\x01\"},{\"d\":4}]}", `{"type":"step","b":2} {"type":"step","d":4}`,
			"line 2, byte 22: not JSON: '1' is unexpected; the part that begins at line 2 is passed over\n" +
				"line 4, byte 41: not JSON: '\\x01' is unexpected; the part that begins at line 3 is passed over",
		},
		{
			"a step that is not text", "{\n\"trajectory\":[{\"a\":\"\xff\"},{\"b\":\"\x00\"}]}",
			`{"type":"binary","b64":"eyJhIjoi/yJ9"} {"type":"binary","b64":"eyJiIjoiACJ9"}`,
			"line 2, byte 16: 9 bytes that are not UTF-8 text, kept as base64\n" +
				"line 2, byte 26: 9 bytes that are not UTF-8 text, kept as base64",
		},
		{
			"no comma", "{\n\"a\":1 \"b\":2}\n", `{"type":"a","a":1}`,
			"line 2, byte 8: not JSON: '\"' is unexpected; the rest of the file is passed over",
		},
		{
			"no colon", "{\n\"a\":1, \"b\" 2}\n", `{"type":"a","a":1}`,
			"line 2, byte 13: not JSON: '2' is unexpected; the rest of the file is passed over",
		},
		{
			"no name", "{\n\"a\":1, b: 2}\n", `{"type":"a","a":1}`,
			"line 2, byte 9: not a field's name; the rest of the file is passed over",
		},
		{
			"comma at the end", "{\n\"trajectory\":[{\"a\":1},]}", `{"type":"step","a":1}`,
			"line 2, byte 24: not JSON: ']' is unexpected; the rest of the file is passed over",
		},
		{
			"text behind", "{\n\"a\":1}\nbye\n", `{"type":"a","a":1}`,
			"line 3, byte 9: 'b' is unexpected behind the document; the rest of the file is passed over",
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			g := readAll(t, strings.NewReader(c.in))
			if diff := cmp.Diff(c.rows, strings.Join(g.rows, " ")); diff != "" {
				t.Errorf("rows (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(c.problems, strings.Join(g.problems, "\n")); diff != "" {
				t.Errorf("problems (-want +got):\n%s", diff)
			}
			if g.sum.Bytes != int64(len(c.in)) {
				t.Errorf("%d bytes read, want %d", g.sum.Bytes, len(c.in))
			}
		})
	}
}

func TestLongElement(t *testing.T) {
	g := readInput(t, limited("{\n\"trajectory\":[\""+strings.Repeat("x", 100_000)+"\",{\"a\":1}]}", 100_001))
	if len(g.rows) != 1 || len(g.problems) != 1 || !strings.Contains(g.problems[0], "a part of 100002 bytes") {
		t.Errorf("%d rows, problems %q", len(g.rows), g.problems)
	}
}

func TestDetect(t *testing.T) {
	for in, want := range map[string]Format{
		`{"type":"session","timestamp":"2026-01-01T00:00:00Z"}` + "\n":    AgentLines,
		`{"timestamp":"2026","type":"response_item","payload":{}}` + "\n": AgentLines,
		`{"type":"x","history":[]}` + "\n" + `{"type":"x"}` + "\n":        AgentLines,
		`{"type":"x","messages":[` + strings.Repeat("1,", HeadBytesMax):   AgentLines,
		`{"messages":[` + strings.Repeat("1,", HeadBytesMax):              ChatLines,
		`{"messages":[{"role":"user"}]}` + "\n":                           ChatLines,
		`{"messages_display":"user: hi"}` + "\n":                          ChatLines,
		`{"role":"user","content":"x"}` + "\n":                            ChatLines,
		`{"trajectory":[]}` + "\n" + `{"trajectory":[]}` + "\n":           AgentLines,
		`{"trajectory":[` + strings.Repeat("1,", HeadBytesMax):            Trajectory,
		"{\n  \"environment\": \"x\"":                                     Trajectory,
		"{\n":                                                             Trajectory,
		"[]":                                                              Trajectory,
		"\xef\xbb\xbf{\n\"a\":1}":                                         Trajectory,
		`{"type":"torn` + "\n" + `{"type":"x"}`:                           AgentLines,
		`{"type":"torn` + "\n" + `{"role":"x"}`:                           ChatLines,
		"# comment\n\n" + `{"type":"x"}` + "\n":                           AgentLines,
		`{"type":"torn`:                                                   AgentLines,
		`{"a" "b"}`:                                                       AgentLines,
		"\x00\x00\n" + `{"type":"x"}` + "\n":                              AgentLines,
		"text":                                                            Unknown,
		"":                                                                Unknown,
	} {
		if got := Detect([]byte(in[:min(len(in), HeadBytesMax)])); got != want {
			t.Errorf("%.60q: %v, want %v", in, got, want)
		}
	}
}
