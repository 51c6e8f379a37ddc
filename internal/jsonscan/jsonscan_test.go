package jsonscan

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
	"unicode/utf8"
)

const deep = 200

var seeds = []string{
	`{"a":[1,-0.5e+10,true,null],"b\u00e9\"":"\ud83d\ude00\ud800"}`, `[]`, `{}`, `""`, `0`, `-`, `1.`, `1e`, `01`, `[1,]`, `{"a" :1 , "b":2}`, `{,}`, `"\x"`, `"\u12g4"`,
	"\"\x1f\"", `tru`, ` [ ] `, `[[[[]]]]`, `"` + strings.Repeat("a", 9) + `"`, `{"a":1}x`, "\"\x7f\u2028\"",
}

// Valid agrees with the standard library, wherever it stops.
func FuzzValid(f *testing.F) {
	for _, s := range seeds {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		if got, want := Valid(b, deep), json.Valid(b); got != want && bytes.Count(b, []byte("["))+bytes.Count(b, []byte("{")) < deep {
			t.Fatalf("Valid(%q) = %v", b, got)
		}
		if !json.Valid(b) || !Valid(b, deep) {
			return
		}
		var want bytes.Buffer
		if err := json.Compact(&want, b); err != nil {
			t.Fatal(err)
		}
		if got := AppendCompact(nil, bytes.Trim(b, " \t\r\n")); !bytes.Equal(got, want.Bytes()) {
			t.Errorf("%q is compacted to %q", b, got)
		}
	})
}

// A string is said, spelled and said again; and as the standard library reads
// it, where that can.
func FuzzText(f *testing.F) {
	for _, s := range []string{`"a\/\u0041\n\u000a"`, `"\ud83d\ude00"`, `"\ud800\udc00\udc00\ud800"`, `"\ud800x\uDFFF"`, `"\u0000\u001F\u007f\u2028"`, "\"\u00ed\ud7ff\ue000\""} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		if len(b) == 0 || b[0] != '"' || !utf8.Valid(b) {
			return
		}
		if end, _ := String(b, 0); end != len(b) {
			return
		}
		says := string(AppendSaid(nil, b))
		canonical := AppendCanonical(nil, b)
		if got := AppendLiteral(nil, says); !bytes.Equal(got, canonical) {
			t.Errorf("%s says %q, spelled %s, not %s", b, says, got, canonical)
		}
		if size, same := Canonical(b); size != len(canonical) || same != bytes.Equal(b, canonical) {
			t.Errorf("%s: %d bytes, same %v; want %d", b, size, same, len(canonical))
		}
		if size, same := Canonical(canonical); size != len(canonical) || !same || string(AppendSaid(nil, canonical)) != says {
			t.Errorf("%s is no fixed point", canonical)
		}
		var want string
		if err := json.Unmarshal(b, &want); err != nil {
			t.Fatal(err)
		}
		if utf8.ValidString(says) && says != want {
			t.Errorf("%s says %q, want %q", b, says, want)
		}
	})
}

// What JSON.stringify prints.
func TestLiteral(t *testing.T) {
	for says, want := range map[string]string{
		"":                 `""`,
		"a\"b\\c/":         `"a\"b\\c/"`,
		"\b\f\n\r\t\v\x00": `"\b\f\n\r\t\u000b\u0000"`,
		"\x7f\u0085\u2028": "\"\x7f\u0085\u2028\"",
		"😀<>&":             `"😀<>&"`,
		"\xed\xa0\x80":     `"\ud800"`,
		"\xed\xbf\xbfx":    `"\udfffx"`,
		"\ud7ff\ue000":     "\"\ud7ff\ue000\"",
	} {
		if got := AppendLiteral(nil, says); string(got) != want {
			t.Errorf("%q is spelled %s, want %s", says, got, want)
		}
	}
}

// TestPlain: looking at eight bytes at a time finds what looking at one finds,
// whatever stands before it.
func TestPlain(t *testing.T) {
	for first := range 256 {
		for second := range 256 {
			src := []byte("0123456789abcdef0123")
			src[first%13], src[13] = byte(first), byte(second)
			want := 0
			for want < len(src) && plain[src[want]] {
				want++
			}
			if got := Plain(src, 0); got != want {
				t.Fatalf("%q: %d, want %d", src, got, want)
			}
		}
	}
}

func TestDepth(t *testing.T) {
	for _, c := range []struct {
		s    string
		most int
	}{{`1`, 1}, {`[]`, 1}, {`[1]`, 2}, {`{"a":{}}`, 2}, {`[[[]]]`, 3}, {`{"a":[{"b":1}]}`, 4}} {
		if !Valid([]byte(c.s), c.most) || Valid([]byte(c.s), c.most-1) {
			t.Errorf("%s does not nest %d deep", c.s, c.most)
		}
	}
}
