package server

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"
	"unicode/utf8"

	"durafs/control"
)

type envelope struct {
	ID     string            `json:"id"`
	N      *int64            `json:"n"`
	Labels map[string]string `json:"labels"`
	Inner  *struct {
		A string `json:"a"`
	} `json:"inner"`
	List []struct {
		B bool `json:"b"`
	} `json:"list"`
	Raw    json.RawMessage `json:"raw"`
	Hidden string          `json:"-"`
}

func TestDecodeRefuses(t *testing.T) {
	deep := strings.Repeat(`[`, depthMax+2) + strings.Repeat(`]`, depthMax+2)
	for _, c := range []struct{ name, in, code, field string }{
		{"empty", ``, control.CodeBadJSON, ""},
		{"space only", " \n", control.CodeBadJSON, ""},
		{"not an object", `[]`, control.CodeBadJSON, ""},
		{"null", `null`, control.CodeBadJSON, ""},
		{"cut", `{"id":"x"`, control.CodeBadJSON, ""},
		{"comma at the end", `{"id":"x",}`, control.CodeBadJSON, ""},
		{"comment", `{/**/}`, control.CodeBadJSON, ""},
		{"single quotes", `{'id':'x'}`, control.CodeBadJSON, ""},
		{"byte order mark", "\ufeff{}", control.CodeBadJSON, ""},
		{"NUL", "{\"id\":\"\x00\"}", control.CodeBadJSON, "id"},
		{"NUL behind", "{}\x00", control.CodeTrailingBytes, ""},
		{"bad UTF-8", "{\"id\":\"\xff\"}", control.CodeBadJSON, "id"},
		{"surrogate encoded", "{\"id\":\"\xed\xa0\x80\"}", control.CodeBadJSON, "id"},
		{"lone surrogate", `{"id":"\ud800"}`, control.CodeBadJSON, "id"},
		{"surrogates reversed", `{"id":"\udc00\ud800"}`, control.CodeBadJSON, "id"},
		{"leading zero", `{"n":01}`, control.CodeBadJSON, ""},
		{"NaN", `{"n":NaN}`, control.CodeBadJSON, "n"},
		{"trailing value", `{} {}`, control.CodeTrailingBytes, ""},
		{"trailing text", `{"id":"x"}x`, control.CodeTrailingBytes, ""},
		{"unknown", `{"idd":"x"}`, control.CodeUnknownField, "idd"},
		{"unknown in spelling", `{"ID":"x"}`, control.CodeUnknownField, "ID"},
		{"unknown by fold", `{"labelſ":{}}`, control.CodeUnknownField, "labelſ"},
		{"unknown hidden", `{"Hidden":"x"}`, control.CodeUnknownField, "Hidden"},
		{"unknown dash", `{"-":"x"}`, control.CodeUnknownField, "-"},
		{"unknown empty", `{"":1}`, control.CodeUnknownField, ""},
		{"unknown inside", `{"inner":{"b":1}}`, control.CodeUnknownField, "inner.b"},
		{"unknown in a list", `{"list":[{"b":true},{"c":1}]}`, control.CodeUnknownField, "list.c"},
		{"twice", `{"id":"x","id":"x"}`, control.CodeDuplicateName, "id"},
		{"twice by escape", `{"id":"x","\u0069d":"y"}`, control.CodeDuplicateName, "id"},
		{"twice inside", `{"labels":{"a":"1","a":"2"}}`, control.CodeDuplicateName, "labels.a"},
		{"too deep", `{"raw":` + deep + `}`, control.CodeTooDeep, "raw"},
		{"kind", `{"id":1}`, control.CodeBadField, "id"},
		{"kind of number", `{"n":1.5}`, control.CodeBadField, "n"},
		{"number too large", `{"n":9223372036854775808}`, control.CodeBadField, "n"},
		{"null in a map", `{"labels":{"a":null}}`, control.CodeBadField, "labels.a"},
		{"kind inside", `{"labels":{"a":1}}`, control.CodeBadField, "labels"},
	} {
		t.Run(c.name, func(t *testing.T) {
			var v envelope
			p := decode([]byte(c.in), &v)
			if p == nil {
				t.Fatalf("decode(%q) took it as %+v", c.in, v)
			}
			if p.Code != c.code || p.Status != 400 {
				t.Errorf("decode(%q): %d %s (%s), want 400 %s", c.in, p.Status, p.Code, p.Detail, c.code)
			}
			if c.field != "" && !strings.HasPrefix(p.Field, c.field) {
				t.Errorf("decode(%q) names the field %q, want %q", c.in, p.Field, c.field)
			}
		})
	}
}

func TestDecodeTakes(t *testing.T) {
	n := int64(-7)
	for in, want := range map[string]envelope{
		`{}`:                           {},
		"\r\n\t {} \n":                 {},
		`{"id":null,"labels":null}`:    {},
		`{"n":-7,"id":"a\u00e9\/\n"}`:  {N: &n, ID: "aé/\n"},
		`{"id":"\ud83d\ude00"}`:        {ID: "😀"},
		`{"labels":{"id":"x","":"y"}}`: {Labels: map[string]string{"id": "x", "": "y"}},
		// Raw JSON is the caller's: names may repeat in it.
		`{"raw":{"a":1,"a":[{"zz":2e-9}]}}`: {Raw: json.RawMessage(`{"a":1,"a":[{"zz":2e-9}]}`)},
	} {
		var v envelope
		if p := decode([]byte(in), &v); p != nil {
			t.Errorf("decode(%q): %v", in, p)
		} else if !reflect.DeepEqual(v, want) {
			t.Errorf("decode(%q) = %+v, want %+v", in, v, want)
		}
	}
}

// FuzzScan holds scan against encoding/json: scan takes nothing that is not
// JSON, and what JSON it refuses it refuses for one of its own reasons.
func FuzzScan(f *testing.F) {
	for _, s := range []string{
		`{}`, `[1,2.5e+3,-0,"\u0041",true,false,null]`, `{"a":{"a":1},"b":[]}`, `{"a":1,"a":2}`,
		`"\ud83d\ude00"`, `"\ud800"`, "\"\xff\"", `{} {}`, `[[[[[[`, `0x1`, `-`, `1.`, `tru`, `{"a"}`,
	} {
		f.Add([]byte(s))
	}
	anything := reflect.TypeFor[map[string]any]()
	f.Fuzz(func(t *testing.T, b []byte) {
		err := scan(b, anything)
		valid := json.Valid(b)
		if err == nil && !valid {
			t.Fatalf("scan took %q, which is not JSON", b)
		}
		if err == nil && !utf8.Valid(b) {
			t.Fatalf("scan took %q, which is not UTF-8", b)
		}
		if err != nil && valid && err.kind == errTrailing {
			t.Fatalf("scan sees trailing bytes in the JSON value %q", b)
		}
		if err != nil && valid && err.kind == errSyntax && utf8.Valid(b) && !strings.Contains(string(b), `\u`) {
			t.Fatalf("scan refused %q: %v", b, err)
		}
	})
}
