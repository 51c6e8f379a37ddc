package runs

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"

	"pgregory.net/rapid"
)

func TestLine(t *testing.T) {
	for _, tt := range []struct{ row, line string }{
		{`{}`, `{"seq":7}`},
		{`{ }`, `{"seq":7 }`},
		{`{"a":1}`, `{"seq":7,"a":1}`},
		{"  {\t\"a\" : 1 } ", "  {\"seq\":7,\t\"a\" : 1 } "},
		{"{\n  \"a\": [1,\r\n 2]\n}\n", `{"seq":7,  "a": [1, 2]}`},
		{`{"a":123456789012345678901234567890.0e-9}`, `{"seq":7,"a":123456789012345678901234567890.0e-9}`},
		{`{"a":"\u0000\ud800\uDC00x"}`, `{"seq":7,"a":"\u0000\ud800\uDC00x"}`},
		{"{\"a\":\"\u2028\u2029\u007f\"}", "{\"seq\":7,\"a\":\"\u2028\u2029\u007f\"}"},
		{`{"a":1,"a":2,"b":{"seq":1,"by":"x"}}`, `{"seq":7,"a":1,"a":2,"b":{"seq":1,"by":"x"}}`},
		{`{"":""}`, `{"seq":7,"":""}`},
		{`{"Seq":1,"BY":2}`, `{"seq":7,"Seq":1,"BY":2}`},
	} {
		sc, r := scanRow([]byte(tt.row), "")
		if r != nil {
			t.Errorf("%q: %v", tt.row, r)
			continue
		}
		line := string(appendLine(nil, sc.text, 0, 7, 0))
		if line != tt.line+"\n" {
			t.Errorf("%q is stored as %q, want %q", tt.row, line, tt.line)
		}
		if n := lineBytes(sc.text, 0, 7); n != len(line) {
			t.Errorf("%q: lineBytes is %d, the line has %d", tt.row, n, len(line))
		}
	}
}

func TestRowRefused(t *testing.T) {
	for _, tt := range []struct {
		row  string
		key  string
		code Code
	}{
		{``, "", RowInvalid},
		{` `, "", RowInvalid},
		{`null`, "", RowNotObject},
		{`[{}]`, "", RowNotObject},
		{`"x"`, "", RowNotObject},
		{`12.5e3`, "", RowNotObject},
		{`nul`, "", RowInvalid},
		{`{"a":1}{"b":2}`, "", RowInvalid},
		{`{"a":1} x`, "", RowInvalid},
		{`{"a":1,}`, "", RowInvalid},
		{`{"a":01}`, "", RowInvalid},
		{`{"a":+1}`, "", RowInvalid},
		{`{"a":1.}`, "", RowInvalid},
		{`{"a":.5}`, "", RowInvalid},
		{`{"a":1e}`, "", RowInvalid},
		{`{"a":-}`, "", RowInvalid},
		{`{"a":NaN}`, "", RowInvalid},
		{`{'a':1}`, "", RowInvalid},
		{`{a:1}`, "", RowInvalid},
		{`{"a":"` + "\x00" + `"}`, "", RowInvalid},
		{"{\"a\":\"line\nbreak\"}", "", RowInvalid},
		{"{\"a\":\"\xff\"}", "", RowInvalid},
		{"{\"a\":\"\xed\xa0\x80\"}", "", RowInvalid}, // a surrogate in UTF-8
		{"\ufeff{}", "", RowInvalid},
		{`{"a":"\x41"}`, "", RowInvalid},
		{`{"a":"\u12"}`, "", RowInvalid},
		{`{"a":"\u12g4"}`, "", RowInvalid},
		{`{"a":"x`, "", RowInvalid},
		{`{"a":"x\`, "", RowInvalid},
		{`{"a"`, "", RowInvalid},
		{`{`, "", RowInvalid},
		{strings.Repeat(`{"a":`, RowDepthMax+1) + "1" + strings.Repeat(`}`, RowDepthMax+1), "", RowInvalid},
		{`{"a":` + strings.Repeat(`[`, 100000), "", RowInvalid},
		{`{"seq":1}`, "", ReservedName},
		{`{"a":1,"by":null}`, "", ReservedName},
		{`{"s\u0065q":1}`, "", ReservedName},
		{`{"\u0062y":1}`, "", ReservedName},
		{`{"a":1}`, "k", KeyMissing},
		{`{"k":""}`, "k", KeyMissing},
		{`{"k":null}`, "k", KeyMissing},
		{`{"k":{}}`, "k", KeyMissing},
		{`{"k":1,"k":2}`, "k", KeyMissing},
		{`{"b":{"k":"x"}}`, "k", KeyMissing},
		{`{"a":"` + strings.Repeat("x", RowBytesMax) + `"}`, "", RowTooLarge},
	} {
		if _, r := scanRow([]byte(tt.row), tt.key); r == nil || r.Code != tt.code {
			t.Errorf("%.60q gives %v, want %s", tt.row, r, tt.code)
		}
	}
}

func TestRowKey(t *testing.T) {
	key := func(row string) string {
		t.Helper()
		sc, r := scanRow([]byte(row), "k")
		if r != nil {
			t.Fatalf("%s: %v", row, r)
		}
		return string(sc.key)
	}
	if key(`{"k":"a\u0062"}`) != key(`{"k":"ab","x":1}`) {
		t.Error("one string in two spellings is two keys")
	}
	if key(`{"k":"1"}`) == key(`{"k":1}`) {
		t.Error("a string and a number are one key")
	}
	if key(`{"k":"\ud800"}`) == "" {
		t.Error("a lone surrogate is no key")
	}
}

// TestPreview: the preview of any row too large for the log fits into it and
// is a row by the same rules.
func TestPreview(t *testing.T) {
	for name, fill := range map[string]string{"text": "x", "controls": `\u0000`, "wide": "\u2028", "emoji": "😀", "quotes": `\"`} {
		src := `{"type":"message","time":"2026-01-01T00:00:00Z","a":"` + strings.Repeat(fill, RowTextBytesMax) + `"}`
		sc, r := scanRow([]byte(src), "")
		if r != nil {
			t.Fatalf("%s: %v", name, r)
		}
		text := preview(sc, ".row-x", strings.Repeat("0", 64))
		if len(text) > RowTextBytesMax {
			t.Errorf("%s: the preview has %d bytes", name, len(text))
		}
		var got struct{ Type, Time string }
		if err := json.Unmarshal(text, &got); err != nil || got.Type != "message" || got.Time == "" {
			t.Errorf("%s: the preview is %.100s (%v)", name, text, err)
		}
		if _, r := scanRow(text, ""); r != nil {
			t.Errorf("%s: the preview is no row: %v", name, r)
		}
	}
}

func TestLineBytes(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.SampledFrom([]string{`{}`, `{ }`, ` {"a":1}`, `{"a":{}}`}).Draw(t, "text")
		flags := rapid.SampledFrom([]uint8{0, rowByStore, rowPreview}).Draw(t, "flags")
		seq := rapid.Uint64().Draw(t, "seq")
		at := rapid.Int64Range(0, 1<<61).Draw(t, "at")
		line := appendLine(nil, []byte(text), flags, seq, at)
		if n := lineBytes([]byte(text), flags, seq); n != len(line) {
			t.Fatalf("lineBytes is %d for %q", n, line)
		}
	})
}

// FuzzScanRow holds the scanner against encoding/json, and takes out of the
// line what was put in.
func FuzzScanRow(f *testing.F) {
	for _, s := range []string{
		`{}`, `{"a":1}`, "{\n\"a\":\"\\ud800\"\r\n}", `{"seq":1}`, `[1]`, `{"a":[{"b":null},true,-0.1e+7]}`,
		`{"a":"\u0000"}`, "\xff", `{"a":1}{}`, " {\t } ", `{"a":-}`, `{"k":"x","k":"y"}`,
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, src []byte) {
		sc, r := scanRow(src, "")
		valid := utf8.Valid(src) && json.Valid(src)
		object := valid && bytes.TrimLeft(src, " \t\r\n")[0] == '{'
		switch {
		case r == nil && !object:
			t.Fatalf("%q is taken", src)
		case r != nil && object && r.Code != ReservedName && !deep(src):
			t.Fatalf("%q is refused: %v", src, r)
		case r != nil:
			return
		}
		line := appendLine(nil, sc.text, 0, 12345, 0)
		if !json.Valid(line) || bytes.Count(line, []byte("\n")) != 1 || bytes.ContainsRune(line, '\r') {
			t.Fatalf("%q is stored as %q", src, line)
		}
		back, err := takeOut(line, 12345)
		want := bytes.ReplaceAll(bytes.ReplaceAll(src, []byte("\n"), nil), []byte("\r"), nil)
		if err != nil || !bytes.Equal(back, want) {
			t.Fatalf("%q comes back as %q (%v)", src, back, err)
		}
		if lineBytes(sc.text, 0, 12345) != len(line) {
			t.Fatalf("%q: wrong length", src)
		}
	})
}

func deep(src []byte) bool {
	return bytes.Count(src, []byte("{"))+bytes.Count(src, []byte("[")) >= RowDepthMax
}

// takeOut is the inverse of appendLine for an agent's row.
func takeOut(line []byte, seq uint64) ([]byte, error) {
	line = bytes.TrimSuffix(line, []byte("\n"))
	put := fmt.Appendf(nil, `"seq":%d`, seq)
	i := bytes.Index(line, put)
	if i < 0 {
		return nil, errors.New("no seq")
	}
	rest := line[i+len(put):]
	if !emptyObject(rest) {
		rest = rest[1:]
	}
	return append(append([]byte(nil), line[:i]...), rest...), nil
}

// TestKeysOfSurrogates: keys that are no text are different keys where their
// bytes differ.
func TestKeysOfSurrogates(t *testing.T) {
	seen := map[string]string{}
	for _, key := range []string{`"\ud800"`, `"\udfff"`, `"\ufffd"`, `"\"\ud800\""`, `"s"`, `"#1"`, `1`} {
		sc, r := scanRow([]byte(`{"k":`+key+`}`), "k")
		if r != nil {
			t.Fatalf("%s: %v", key, r)
		}
		if other := seen[string(sc.key)]; other != "" {
			t.Errorf("%s is the key %s", key, other)
		}
		seen[string(sc.key)] = key
	}
}
