package importer

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/google/go-cmp/cmp"
)

// got is all that Read tells, as text.
type got struct {
	rows     []string
	problems []string
	sum      Summary
}

func readAll(t testing.TB, in io.Reader) got {
	t.Helper()
	return readInput(t, newInput(in))
}

func readInput(t testing.TB, in *input) got {
	t.Helper()
	var g got
	var err error
	g.sum, err = read(in, func(r Row) error {
		g.rows = append(g.rows, string(r.JSON))
		return nil
	}, func(p Problem) { g.problems = append(g.problems, p.String()) })
	if err != nil {
		t.Fatal(err)
	}
	return g
}

func TestLines(t *testing.T) {
	first := `{"type":"session","id":"1"}` + "\n"
	for _, c := range []struct {
		name, in string
		rows     []string // after the first
		problems []string
	}{
		{
			name: "as it is", in: `{"type":"a","time":"2026-01-02T03:04:05Z","n":1.000000000000000000001}` + "\n",
			rows: []string{`{"type":"a","time":"2026-01-02T03:04:05Z","n":1.000000000000000000001}`},
		},
		{name: "no line break at the end", in: `{"type":"a"}`, rows: []string{`{"type":"a"}`}},
		{name: "empty lines", in: "\n \n\r\n" + `{"type":"a"}` + "\n\n", rows: []string{`{"type":"a"}`}},
		{name: "CRLF and blanks", in: " {\"type\":\"a\"} \r\n\t{\"type\":\"b\"}\t\r\n", rows: []string{`{"type":"a"}`, `{"type":"b"}`}},
		{name: "separators of Unicode are text", in: "{\"type\":\"a\u2028\u2029\u0085\"}\n", rows: []string{"{\"type\":\"a\u2028\u2029\u0085\"}"}},
		{name: "escapes", in: `{"type":"\ud800 \u0000 \u2028"}` + "\n", rows: []string{`{"type":"\ud800 \u0000 \u2028"}`}},
		{name: "duplicate names", in: `{"type":"a","x":1,"x":2}` + "\n", rows: []string{`{"type":"a","x":1,"x":2}`}},
		{
			name: "no type", in: `{"a":1}` + "\n" + `{}` + "\n" + `{ }` + "\n",
			rows: []string{`{"type":"entry","a":1}`, `{"type":"entry"}`, `{"type":"entry" }`},
		},
		{name: "a role", in: `{"role":"user","content":"x"}` + "\n", rows: []string{`{"type":"message","role":"user","content":"x"}`}},
		{
			name: "reserved names", in: `{"type":"a","seq":7,"by":"me"}` + "\n" + `{"type":"a","s\u0065q":1,"seq":2,"source_seq":3}` + "\n",
			rows: []string{
				`{"type":"a","source_seq":7,"source_by":"me"}`,
				`{"type":"a","source_seq_2":1,"source_seq_3":2,"source_seq":3}`,
			},
			problems: []string{
				`line 2, byte 28: the field "seq" is the log's own name; renamed to "source_seq"`,
				`line 2, byte 28: the field "by" is the log's own name; renamed to "source_by"`,
				`line 3, byte 59: the field "seq" is the log's own name; renamed to "source_seq_2"`,
				`line 3, byte 59: the field "seq" is the log's own name; renamed to "source_seq_3"`,
			},
		},
		{name: "reserved below the top is the agent's", in: `{"type":"a","x":{"seq":1}}` + "\n", rows: []string{`{"type":"a","x":{"seq":1}}`}},
		{
			name: "two objects fused", in: `{"type":"a"}{"type":"b"}` + "\n" + `{"type":"c"} {"type":"d"}{"type":"e"}` + "\n",
			rows: []string{`{"type":"a"}`, `{"type":"b"}`, `{"type":"c"}`, `{"type":"d"}`, `{"type":"e"}`},
			problems: []string{
				"line 2, byte 40: a second object on the same line; it becomes a row of its own",
				"line 3, byte 66: a second object on the same line; it becomes a row of its own",
			},
		},
		{
			name: "a whole row and a torn one", in: `{"type":"a"}{"type":"b` + "\n" + `{"type":"c"}` + "\n",
			rows: []string{`{"type":"a"}`, `{"type":"c"}`},
			problems: []string{
				"line 2, byte 40: a second object on the same line; it becomes a row of its own",
				"line 2, byte 40: the line ends in the middle of a value; passed over",
			},
		},
		{
			name: "a torn row and a whole one", in: `{"type":"a","text":"abc{"type":"b"}` + "\n" + `{"type":"c",{"type":"d"}{"type":"e"}` + "\n",
			rows: []string{`{"type":"b"}`, `{"type":"e"}`},
			problems: []string{
				"line 2, byte 28: a torn row of 23 bytes, passed over; the row behind it on the same line is read",
				"line 3, byte 64: a torn row of 24 bytes, passed over; the row behind it on the same line is read",
			},
		},
		{
			name: "a part at the end of a torn row is no row", in: `{"type":"a","x":{"type":"b"}` + "\n" + `{"type":"c"}` + "\n",
			rows:     []string{`{"type":"c"}`},
			problems: []string{"line 2, byte 28: the line ends in the middle of a value; passed over"},
		},
		{
			name: "torn end of file", in: `{"type":"a"}` + "\n" + `{"type":"b","te`,
			rows:     []string{`{"type":"a"}`},
			problems: []string{"line 3, byte 41: the file ends in the middle of a value; passed over"},
		},
		{
			name: "not JSON", in: "hello\n" + `{"type":"a",}` + "\n" + `{"type":"b"}` + "\n" + `{'type':1}` + "\n" + `{"type":"x"} tail` + "\n",
			rows: []string{`{"type":"b"}`, `{"type":"x"}`},
			problems: []string{
				"line 2, byte 28: not JSON: 'h' is unexpected; the line is passed over from byte 28 on",
				"line 3, byte 46: not JSON: '}' is unexpected; the line is passed over from byte 34 on",
				"line 5, byte 62: not JSON: '\\'' is unexpected; the line is passed over from byte 61 on",
				"line 6, byte 86: not JSON: 'a' is unexpected; the line is passed over from byte 85 on",
			},
		},
		{
			name: "not an object", in: "[1]\n17\n\"a\"\nnull\n",
			problems: []string{
				"line 2, byte 28: JSON, but not an object; passed over",
				"line 3, byte 32: JSON, but not an object; passed over",
				"line 4, byte 35: JSON, but not an object; passed over",
				"line 5, byte 39: JSON, but not an object; passed over",
			},
		},
		{
			name: "NUL bytes", in: "\x00\x00{\"type\":\"a\"}\x00\n" + "\x00\x00\x00\n" + "{\"type\":\"\x00\"}\n",
			rows: []string{`{"type":"a"}`, `{"type":"binary","b64":"eyJ0eXBlIjoiACJ9"}`},
			problems: []string{
				"line 2, byte 28: 3 NUL bytes around the row were dropped",
				"line 3, byte 44: 3 NUL bytes; passed over",
				"line 4, byte 48: 12 bytes that are not UTF-8 text, kept as base64",
			},
		},
		{
			name: "invalid UTF-8", in: "{\"type\":\"\xff\"}\n",
			rows:     []string{`{"type":"binary","b64":"eyJ0eXBlIjoi/yJ9"}`},
			problems: []string{"line 2, byte 28: 12 bytes that are not UTF-8 text, kept as base64"},
		},
		{
			name: "too deep", in: `{"type":` + strings.Repeat("[", 1001) + strings.Repeat("]", 1001) + "}\n",
			problems: []string{"line 2, byte 1036: not JSON: nested deeper than 1000; the line is passed over from byte 28 on"},
		},
		{
			name: "deep enough", in: `{"type":` + strings.Repeat("[", 1000) + strings.Repeat("]", 1000) + "}\n",
			rows: []string{`{"type":` + strings.Repeat("[", 1000) + strings.Repeat("]", 1000) + "}"},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			for name, in := range map[string]io.Reader{
				"whole":       strings.NewReader(first + c.in),
				"byte a time": iotest.OneByteReader(strings.NewReader(first + c.in)),
			} {
				g := readAll(t, in)
				if diff := cmp.Diff(append([]string{strings.TrimSpace(first)}, c.rows...), g.rows); diff != "" {
					t.Errorf("%s: rows (-want +got):\n%s", name, diff)
				}
				if diff := cmp.Diff(c.problems, g.problems); diff != "" {
					t.Errorf("%s: problems (-want +got):\n%s", name, diff)
				}
				if g.sum.Format != AgentLines || g.sum.Bytes != int64(len(first+c.in)) || g.sum.Rows != len(g.rows) {
					t.Errorf("%s: summary %+v", name, g.sum)
				}
			}
		})
	}
}

func TestByteOrderMark(t *testing.T) {
	for _, in := range []string{`{"type":"a"}` + "\n", "{\n\"trajectory\": [{\"type\":\"a\"}]}\n"} {
		g := readAll(t, strings.NewReader("\xef\xbb\xbf"+in))
		if diff := cmp.Diff([]string{`{"type":"a"}`}, g.rows); diff != "" || g.problems != nil {
			t.Errorf("rows (-want +got):\n%s problems %q", diff, g.problems)
		}
	}
}

// limited is an input with a limit that a test reaches soon.
func limited(in string, bytesMax int) *input {
	i := newInput(strings.NewReader(in))
	i.bytesMax = bytesMax
	return i
}

func TestLongLines(t *testing.T) {
	const most = 100_000 // more than the reader's buffer
	row := func(n int) string {
		const head, tail = `{"type":"a","x":"`, `"}`
		return head + strings.Repeat("x", n-len(head)-len(tail)) + tail
	}
	untyped := strings.Replace(row(most), `"type":`, `"name":`, 1)
	for _, c := range []struct{ name, in, problem string }{
		{
			"in the middle", row(most) + "\n" + row(most+1) + "\n" + row(50) + "\n",
			"line 2, byte 100001: a line of 100001 bytes, and the limit is 100000; passed over",
		},
		{
			"very long", row(most) + "\n" + row(10*most) + "\n" + row(50) + "\n",
			"line 2, byte 100001: a line of 1000000 bytes, and the limit is 100000; passed over",
		},
		{
			"the last, without a line break", row(most-1) + "\r\n" + row(50) + "\n" + row(most+1),
			"line 3, byte 100052: a line of 100001 bytes, and the limit is 100000; passed over",
		},
		{
			"with the type that is put in", row(most) + "\n" + untyped + "\n" + row(50) + "\n",
			"line 2, byte 100001: a row of 100015 bytes, and the limit is 100000; passed over",
		},
	} {
		g := readInput(t, limited(c.in, most))
		if len(g.rows) != 2 || g.sum.Lost != 1 || g.sum.Bytes != int64(len(c.in)) {
			t.Errorf("%s: %d rows, summary %+v", c.name, len(g.rows), g.sum)
		}
		if diff := cmp.Diff([]string{c.problem}, g.problems); diff != "" {
			t.Errorf("%s: problems (-want +got):\n%s", c.name, diff)
		}
	}
}

// The real limit: a row of 32 MiB comes through.
func TestLongestLine(t *testing.T) {
	row := `{"type":"a","x":"` + strings.Repeat("x", RowBytesMax-len(`{"type":"a","x":""}`)) + `"}`
	g := readAll(t, strings.NewReader(row))
	if len(g.rows) != 1 || g.rows[0] != row || g.problems != nil {
		t.Errorf("%d rows, problems %q", len(g.rows), g.problems)
	}
}

func TestTimes(t *testing.T) {
	for in, want := range map[string]string{
		`"timestamp":"2025-11-20T23:33:01.550Z"`:                      "2025-11-20T23:33:01.55Z",
		`"timestamp":"2025-11-21T01:33:01+02:00"`:                     "2025-11-20T23:33:01Z",
		`"timestamp":1763681581544`:                                   "2025-11-20T23:33:01.544Z",
		`"created":1763681581`:                                        "2025-11-20T23:33:01Z",
		`"ts":1763681581.25`:                                          "2025-11-20T23:33:01.25Z",
		`"ts":1763681581544123`:                                       "2025-11-20T23:33:01.544123Z",
		`"ts":1763681581544123456`:                                    "2025-11-20T23:33:01.544123456Z",
		`"timestamp":"yesterday","created_at":"2025-01-02T03:04:05Z"`: "2025-01-02T03:04:05Z",
		`"timestamp":17`:                                              "",
		`"timestamp":-1`:                                              "",
		`"timestamp":1e300`:                                           "",
		`"timestamp":null`:                                            "",
		`"timestamp":["x"]`:                                           "",
		`"x":{"timestamp":1763681581544}`:                             "",
	} {
		g := readAll(t, strings.NewReader(`{"type":"a",`+in+"}\n"))
		row := `{"type":"a",` + in + "}"
		if want != "" {
			row = `{"time":"` + want + `",` + row[1:]
		}
		if diff := cmp.Diff([]string{row}, g.rows); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	}
}

func TestTimesGoBack(t *testing.T) {
	g := readAll(t, strings.NewReader(`{"type":"a","time":"2026-01-01T00:10:00Z"}
{"type":"a","time":"2026-01-01T00:04:02Z"}
{"type":"a"}
{"type":"a","time":"2026-01-01T00:04:01Z"}
{"type":"a","time":"2026-01-01T00:20:00Z"}
`))
	at := func(h, m, s int) time.Time { return time.Date(2026, 1, 1, h, m, s, 0, time.UTC) }
	want := Summary{
		Format: AgentLines, Bytes: g.sum.Bytes, Lines: 5, Rows: 5, Backwards: 2,
		BackwardsMax: 358 * time.Second, First: at(0, 4, 1), Last: at(0, 20, 0),
	}
	if diff := cmp.Diff(want, g.sum); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestErrorsOfReaderAndEmit(t *testing.T) {
	broken := errors.New("broken")
	for _, in := range []string{`{"type":"a"}` + "\n", "{\n\"trajectory\": [{\"type\":\"a\"}"} {
		_, err := Read(io.MultiReader(strings.NewReader(in), iotest.ErrReader(broken)),
			func(Row) error { return nil }, func(p Problem) { t.Error(p) })
		if !errors.Is(err, broken) {
			t.Errorf("with a failing reader: %v", err)
		}
		rows := 0
		_, err = Read(strings.NewReader(strings.Repeat(in, 3)), func(Row) error { rows++; return broken }, func(Problem) {})
		if !errors.Is(err, broken) || rows != 1 {
			t.Errorf("with a failing emit: %v after %d rows", err, rows)
		}
	}
}

func TestNotASession(t *testing.T) {
	for _, in := range []string{"", "\n\n", "hello\nworld\n", "\x7fELF\x00\x01", "1\n2\n", `"x"`} {
		_, err := Read(strings.NewReader(in), func(Row) error { return nil }, func(Problem) {})
		if !errors.Is(err, ErrFormat) {
			t.Errorf("%q: %v, want ErrFormat", in, err)
		}
	}
}

// Memory does not grow with the file.
func TestConstantMemory(t *testing.T) {
	line := []byte(`{"type":"a","x":"` + strings.Repeat("x", 1000) + `"}` + "\n")
	file := io.LimitReader(&repeat{line: line}, int64(len(line))*50_000)
	r := &reader{in: newInput(file), emit: func(Row) error { return nil }, problem: func(p Problem) { t.Error(p) }}
	r.sum.Format = AgentLines
	if err := r.lines(); err != nil {
		t.Fatal(err)
	}
	if r.sum.Rows != 50_000 || cap(r.in.buf) > 1<<16 {
		t.Errorf("%d rows with a buffer of %d bytes", r.sum.Rows, cap(r.in.buf))
	}
}

type repeat struct {
	line []byte
	pos  int
}

func (r *repeat) Read(p []byte) (int, error) {
	n := copy(p, r.line[r.pos:])
	r.pos = (r.pos + n) % len(r.line)
	return n, nil
}

func TestTask(t *testing.T) {
	long := strings.Repeat("ä", TaskBytesMax)
	for in, want := range map[string]string{
		`{"type":"message","message":{"role":"user","content":[{"type":"text","text":"fix it"}]}}`:                  "fix it",
		`{"type":"user","message":{"role":"user","content":" fix it "}}`:                                            "fix it",
		`{"type":"response_item","payload":{"type":"message","role":"user","content":[{"text":"a"},{"text":"b"}]}}`: "a\nb",
		`{"messages":[{"role":"system","content":"be good"},{"role":"user","content":"fix it"}]}`:                   "fix it",
		`{"messages_display":"user: fix\nit\nassistant: None\nuser: more"}`:                                         "fix\nit",
		`{"messages_display":"assistant: hi"}`:                                                                      "",
		`{"role":"assistant","content":"no"}`:                                                                       "",
		`{"role":"user","content":17}`:                                                                              "",
		`{"role":"user","content":"` + long + `"}`:                                                                  long[:TaskBytesMax],
		`{"role":"user","content":"x` + long + `"}`:                                                                 "x" + long[:TaskBytesMax-2],
	} {
		if got := readAll(t, bytes.NewReader([]byte(in+"\n"))).sum.Task; got != want {
			t.Errorf("%.100s: task %.50q, want %.50q", in, got, want)
		}
	}
}
