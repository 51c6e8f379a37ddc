package view

import (
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"pgregory.net/rapid"

	"durafs/runs"
)

func TestEscapeName(t *testing.T) {
	for name, want := range map[string]string{
		"report.pdf":   "report.pdf",
		"naïve 日本":     "naïve 日本",
		"100 %":        "100 %25",
		".":            "%2E",
		"..":           "%2E%2E",
		"...":          "...",
		"a/b":          "a%2Fb",
		"a\x00\x1b[2J": "a%00%1B[2J",
		"x\u202ey":     "x%E2%80%AEy",
		"\xff":         "%FF",
		"\ufffd":       "\ufffd",
	} {
		if got := EscapeName(name); got != want {
			t.Errorf("%q: %q, want %q", name, got, want)
		}
		if back, ok := UnescapeName(want); !ok || back != name {
			t.Errorf("%q: back to %q, %v", want, back, ok)
		}
	}
	for _, s := range []string{"", "%", "%2", "%zz", "%+1", "%41", "%2e", "a%2", "%E2%80", "\u202e", "/", ".."} {
		if name, ok := UnescapeName(s); ok && s != "%E2%80" {
			t.Errorf("%q was taken for the name %q", s, name)
		}
	}
}

func TestEscapeNameIsReversible(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		name := string(rapid.SliceOfN(rapid.Byte(), 1, 40).Draw(t, "name"))
		if rapid.Bool().Draw(t, "text") {
			name = rapid.StringN(1, 40, 200).Draw(t, "text name")
		}
		s := EscapeName(name)
		if !utf8.ValidString(s) || strings.ContainsAny(s, "/\x00\n\x1b") || s == "." || s == ".." {
			t.Fatalf("%q is no name for a path", s)
		}
		if back, ok := UnescapeName(s); !ok || back != name {
			t.Fatalf("%q became %q and then %q, %v", name, s, back, ok)
		}
	})
}

func FuzzUnescapeName(f *testing.F) {
	for _, s := range []string{"a", "100 %25", "%2E%2E", "%payload-1", "%e2", "%FF", "\u202e"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		if name, ok := UnescapeName(s); ok && EscapeName(name) != s {
			t.Errorf("%q is the name %q, which is written %q", s, name, EscapeName(name))
		}
	})
}

func TestPayloadNameByOrdinal(t *testing.T) {
	long := strings.Repeat("%", 86) // 258 bytes when escaped
	if got := payloadName(long, 17); got != "%payload-17" {
		t.Errorf("%q", got)
	}
	if got := payloadName(long[1:], 17); len(got) != NameBytesMax {
		t.Errorf("%d bytes", len(got))
	}
	if n, ok := parseOrdinal("%payload-17"); !ok || n != 17 {
		t.Error(n, ok)
	}
	for _, s := range []string{"%payload-", "%payload-017", "%payload-x", "%payload-+1", "payload-1", "%payload-4294967296"} {
		if n, ok := parseOrdinal(s); ok {
			t.Errorf("%q is %d", s, n)
		}
	}
	if _, ok := UnescapeName("%payload-17"); ok {
		t.Error("a name by ordinal is an escaped name too")
	}
}

func TestDayNames(t *testing.T) {
	for _, c := range []struct {
		at   time.Time
		name string
	}{
		{time.Unix(0, 0), "1970-01-01"},
		{time.Unix(-99, 0), "1970-01-01"},
		{time.Date(2026, 3, 1, 23, 59, 59, 999, time.UTC), "2026-03-01"},
		{time.Date(2026, 3, 2, 0, 0, 0, 0, time.UTC), "2026-03-02"},
		{time.Date(2026, 3, 2, 0, 30, 0, 0, time.FixedZone("", 3600)), "2026-03-01"},
		{time.Date(99999, 1, 1, 0, 0, 0, 0, time.UTC), "9999-12-31"},
		{time.Time{}, "1970-01-01"},
	} {
		day := dayNumber(c.at)
		if got := dayName(day); got != c.name {
			t.Errorf("%v: %s, want %s", c.at, got, c.name)
		}
		if back, ok := parseDay(c.name); !ok || back != day {
			t.Errorf("%s: %d, %v; want %d", c.name, back, ok, day)
		}
	}
	for _, s := range []string{"", "1969-12-31", "2026-02-30", "2026-3-1", "20260301", "2026-03-01 "} {
		if d, ok := parseDay(s); ok {
			t.Errorf("%q is day %d", s, d)
		}
	}
}

// TestPayloadListsAreBounded: runs with very many payloads do not fill the
// memory one after the other, and the one that is walked is kept.
func TestPayloadListsAreBounded(t *testing.T) {
	var l payloadLists
	for ref := runs.Ref(1); ref <= payloadListsMax; ref++ {
		key := listKey{ref: ref}
		l.keep(key, make([]runs.PayloadInfo, payloadsKeptMax/2))
		if n := l.kept(); n > payloadsKeptMax {
			t.Fatalf("%d payloads are kept", n)
		}
		if _, ok := l.cached(key); !ok {
			t.Fatal("the list that was asked for last is not kept")
		}
	}
	l.keep(listKey{ref: 99}, make([]runs.PayloadInfo, 2*payloadsKeptMax))
	if _, ok := l.cached(listKey{ref: 99}); !ok || l.kept() != 2*payloadsKeptMax {
		t.Errorf("%d payloads are kept", l.kept())
	}
}
