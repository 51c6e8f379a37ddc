package importer

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"pgregory.net/rapid"
)

// checkRow is what holds for every row, whatever the file.
func checkRow(t testing.TB, row Row, file []byte) {
	t.Helper()
	switch {
	case !json.Valid(row.JSON) || row.JSON[0] != '{':
		t.Errorf("not a JSON object: %.200q", row.JSON)
	case !utf8.Valid(row.JSON):
		t.Errorf("not UTF-8: %.200q", row.JSON)
	case bytes.ContainsAny(row.JSON, "\n\x00"):
		t.Errorf("not one line: %.200q", row.JSON)
	case len(row.JSON) > RowBytesMax:
		t.Errorf("%d bytes", len(row.JSON))
	case row.Offset < 0 || row.Offset >= int64(len(file)):
		t.Errorf("at byte %d of %d", row.Offset, len(file))
	case row.Line != 1+bytes.Count(file[:row.Offset], []byte("\n")):
		t.Errorf("byte %d is on line %d, told %d", row.Offset, 1+bytes.Count(file[:row.Offset], []byte("\n")), row.Line)
	}
	var names map[string]json.RawMessage
	if err := json.Unmarshal(row.JSON, &names); err != nil {
		return // deeper than that package goes
	}
	if _, ok := names["type"]; !ok {
		t.Errorf("no type: %.200q", row.JSON)
	}
	for _, name := range reserved {
		if _, ok := names[name]; ok {
			t.Errorf("the reserved name %q is in %.200q", name, row.JSON)
		}
	}
}

// FuzzRead: any file is read to its end, every row is one, and what is said of
// places is so. The rows of lines are the file's own bytes.
func FuzzRead(f *testing.F) {
	for _, seed := range []string{
		`{"type":"a","time":"2026-01-02T03:04:05Z"}` + "\n" + `{"type":"b"}{"type":"c"}` + "\r\n",
		`{"role":"user","content":"x","seq":1,"by":2}` + "\n\x00\x00" + `{"type":"a","t":"b{"role":1}` + "\n\xff\n[1]\n",
		"\xef\xbb\xbf" + `{"messages":[{"role":"user","content":"\ud800"}]}` + "\u2028\n{",
		trajectory, "[{\"a\":1},2,\"x\",{\n}]{\"trajectory\":[{\"a\":tru}]}", "{\n\"a\":1,\"b\":[", "hello\n",
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, file []byte) {
		var rows []Row
		problems, lost := 0, 0
		sum, err := Read(bytes.NewReader(file), func(row Row) error {
			checkRow(t, row, file)
			if n := len(rows); n > 0 && row.Offset < rows[n-1].Offset {
				t.Errorf("a row at byte %d after one at byte %d", row.Offset, rows[n-1].Offset)
			}
			rows = append(rows, row)
			return nil
		}, func(p Problem) {
			problems++
			if p.Lost {
				lost++
			}
			if p.Offset < 0 || p.Offset > int64(len(file)) || p.Line < 1 || p.What == "" {
				t.Errorf("problem %v in a file of %d bytes", p, len(file))
			}
		})
		if err != nil {
			return
		}
		if sum.Rows != len(rows) || sum.Lost != lost || sum.Bytes != int64(len(file)) {
			t.Errorf("%d rows, %d losses, %d bytes; summary %+v", len(rows), lost, len(file), sum)
		}
		if sum.Format != Trajectory {
			checkLines(t, file, rows, problems, sum)
		}
	})
}

// checkLines is what holds for a file of lines besides: rows are its bytes, and
// a line that has any became a row or a problem.
func checkLines(t *testing.T, file []byte, rows []Row, problems int, sum Summary) {
	if len(rows) == 0 && problems == 0 && len(bytes.Trim(bytes.TrimPrefix(file, bom), " \t\r\n")) > 0 {
		t.Errorf("%q became no row and no problem", file)
	}
	if sum.Renamed > 0 || sum.Binary > 0 {
		return
	}
	for _, row := range rows {
		line := slices.Concat(row.JSON[:1], row.JSON[1+row.Added:])
		if !bytes.HasPrefix(file[row.Offset:], line) {
			t.Errorf("the row %q is not what stands at byte %d", row.JSON, row.Offset)
		}
	}
}

// FuzzScanner: the scanner takes what encoding/json takes, and nothing else.
func FuzzScanner(f *testing.F) {
	for _, seed := range []string{
		`{"a":[1,-0.5e+3,true,false,null,"\u00e4\n"]}`, `[]`, `01`, `1.`, `-`, `"\x"`, "\"\x01\"", `{"a":1,}`, `[1 2]`, ` 1 `, `nul`, `1e5e`, `"\ud8`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		s := scanner{src: text}
		err := s.value(0)
		s.blank()
		if valid := err == nil && s.pos == len(text); valid != json.Valid(text) && err != errDeep {
			t.Errorf("%q: valid %v at byte %d (%v), encoding/json says %v", text, valid, s.pos, err, !valid)
		}
		if err == errTorn && s.pos != len(text) {
			t.Errorf("%q: torn at byte %d of %d", text, s.pos, len(text))
		}
	})
}

// jsonText draws an object's text as programs write them: blanks, escapes and
// numbers in forms that a decoder would not give back.
func jsonText(names []string) *rapid.Generator[string] {
	blank := rapid.SampledFrom([]string{"", "", " ", "\t", "  "})
	scalar := rapid.OneOf(
		rapid.SampledFrom([]string{
			`1`, `-0`, `1.50`, `1E+2`, `123456789012345678901234567890`, `0.1e-7`, `true`, `false`, `null`,
			`""`, `"\ud800"`, `"\u0000"`, `"\u2028"`, "\"\u2028\"", `"\/"`, `"é"`, `"{\"type\":1}"`, `"2026-01-01T00:00:00Z"`, `1763681581544`,
		}),
		rapid.Custom(func(t *rapid.T) string {
			text, _ := json.Marshal(rapid.String().Draw(t, "text"))
			return string(text)
		}),
	)
	var value func(depth int) *rapid.Generator[string]
	object := func(names *rapid.Generator[string], depth int) *rapid.Generator[string] {
		return rapid.Custom(func(t *rapid.T) string {
			var parts []string
			for range rapid.IntRange(0, 4).Draw(t, "fields") {
				parts = append(parts, blank.Draw(t, "")+names.Draw(t, "name")+blank.Draw(t, "")+":"+blank.Draw(t, "")+value(depth+1).Draw(t, "value")+blank.Draw(t, ""))
			}
			return "{" + strings.Join(parts, ",") + blank.Draw(t, "") + "}"
		})
	}
	value = func(depth int) *rapid.Generator[string] {
		if depth > 3 {
			return scalar
		}
		array := rapid.Custom(func(t *rapid.T) string {
			return "[" + strings.Join(rapid.SliceOfN(value(depth+1), 0, 3).Draw(t, "elements"), ",") + "]"
		})
		return rapid.OneOf(scalar, scalar, array, object(rapid.SampledFrom([]string{`"seq"`, `"a"`, `"\u0062"`}), depth))
	}
	return object(rapid.SampledFrom(names), 0)
}

var fieldNames = []string{`"type"`, `"t\u0079pe"`, `"time"`, `"timestamp"`, `"role"`, `"message"`, `"a"`, `"a"`, `""`}

// A line that is a valid object comes through byte for byte: what was put in
// taken out again, the row is the line. So it does with others around it that
// are damaged.
func TestLinesComeThroughByteForByte(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		lines := rapid.SliceOfN(jsonText(fieldNames), 1, 8).Draw(t, "lines")
		damage := rapid.SampledFrom([]string{"", `{"torn":`, "text", "\xff\xfe", "[1]", "\x00\x00", "{}}"})
		end := rapid.SampledFrom([]string{"\n", "\r\n", " \n", "\n\n"})
		file := `{"type":"first"}` + "\n"
		for _, line := range lines {
			file += line + end.Draw(t, "end")
			if d := damage.Draw(t, "damage"); d != "" {
				file += d + "\n"
			}
		}
		var got []string
		_, err := Read(strings.NewReader(file), func(row Row) error {
			got = append(got, string(row.JSON[:1])+string(row.JSON[1+row.Added:]))
			return nil
		}, func(Problem) {})
		if err != nil {
			t.Fatal(err)
		}
		for i, line := range lines {
			at := indexFrom(got, line)
			if at < 0 {
				t.Fatalf("line %d, %q, is not among the rows left:\n%s", i+1, line, strings.Join(got, "\n"))
			}
			got = got[at+1:]
		}
	})
}

func indexFrom(list []string, s string) int {
	for i, x := range list {
		if x == s {
			return i
		}
	}
	return -1
}

// Steps of a document come through byte for byte but for the blanks between
// their tokens.
func TestStepsComeThrough(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		steps := rapid.SliceOfN(jsonText(fieldNames), 0, 8).Draw(t, "steps")
		gap := rapid.SampledFrom([]string{"", "\n", "\r\n\t ", "  "})
		file := "{\n\"trajectory\":["
		for i, s := range steps {
			if i > 0 {
				file += ","
			}
			file += gap.Draw(t, "before") + s + gap.Draw(t, "after")
		}
		file += "]}"
		var want, got []string
		for _, s := range steps {
			var b bytes.Buffer
			if err := json.Compact(&b, []byte(s)); err != nil {
				t.Fatalf("%q: %v", s, err)
			}
			want = append(want, b.String())
		}
		_, err := Read(strings.NewReader(file), func(row Row) error {
			got = append(got, string(row.JSON[:1])+string(row.JSON[1+row.Added:]))
			return nil
		}, func(p Problem) { t.Errorf("problem: %v", p) })
		if err != nil {
			t.Fatal(err)
		}
		if fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("rows %q, want %q", got, want)
		}
	})
}

func BenchmarkLines(b *testing.B) {
	line := `{"type":"message","timestamp":"2025-11-20T23:33:01.550Z","message":{"role":"user","content":[{"type":"text","text":"` +
		strings.Repeat("words and more ", 60) + `"}]}}` + "\n"
	file := strings.Repeat(line, 1000)
	b.SetBytes(int64(len(file)))
	for b.Loop() {
		if _, err := Read(strings.NewReader(file), func(Row) error { return nil }, func(Problem) {}); err != nil {
			b.Fatal(err)
		}
	}
}
