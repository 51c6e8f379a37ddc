package runs

import (
	"strings"
	"testing"

	"durafs/internal/clock"
)

func TestParseID(t *testing.T) {
	for _, id := range []string{
		"01890a5d-ac96-774b-bcce-b302099a8057", "ffffffff-ffff-ffff-ffff-ffffffffffff", "exec_a", "exec__-Z9",
		"exec_" + strings.Repeat("x", 64), newID(clock.System), newBootID(),
	} {
		if got, err := ParseID(id); err != nil || got != id {
			t.Errorf("%q: %v", id, err)
		}
	}
	for _, id := range []string{
		"", ".", "..", "/", "a/b", "\x00", "__proto__", "exec_", "exec_" + strings.Repeat("x", 65), "exec_a.b", "exec_ä",
		"Exec_a", "00000000-0000-0000-0000-000000000000", "01890A5D-AC96-774B-BCCE-B302099A8057",
		"01890a5dac96774bbcceb302099a8057", "{01890a5d-ac96-774b-bcce-b302099a8057}", " 01890a5d-ac96-774b-bcce-b302099a8057",
		"01890a5d-ac96-774b-bcce-b302099a805g", "01890a5d-ac96-774b-bcce-b302099a805", strings.Repeat("x", 10<<10),
		"exec_a\n", "exec_a\x00",
	} {
		if _, err := ParseID(id); CodeOf(err) != BadID {
			t.Errorf("%.40q: %v, want bad-id", id, err)
		} else if len(err.Error()) > 1000 {
			t.Errorf("the error for %.40q has %d bytes", id, len(err.Error()))
		}
	}
}

func TestNames(t *testing.T) {
	for _, name := range []string{"a", "A b", "ä", "…", strings.Repeat("x", 255), "a.b", "-"} {
		if err := checkPayloadName(name); err != nil {
			t.Errorf("%q: %v", name, err)
		}
	}
	for _, name := range []string{
		"", ".", "..", ".a", ".terminal", "a/b", "/", "a\x00", "a\n", "a\u0085", "\x7f", "\xff", "__proto__",
		"constructor", "prototype", strings.Repeat("x", 256),
	} {
		if err := checkPayloadName(name); CodeOf(err) != BadName {
			t.Errorf("%.40q: %v, want bad-name", name, err)
		}
	}
}

func TestLabels(t *testing.T) {
	many := Labels{}
	for i := range LabelsMax + 1 {
		many[strings.Repeat("k", i+1)] = ""
	}
	for name, labels := range map[string]Labels{
		"value": {"k": strings.Repeat("x", 257)}, "name": {"": "x"}, "proto": {"__proto__": "x"},
		"utf-8": {"k": "\xff"}, "thread": {"thread": "a/b"}, "many": many,
	} {
		if CodeOf(checkLabels(labels)) != BadLabel {
			t.Errorf("%s: it is taken", name)
		}
	}
	if err := checkLabels(Labels{"k": strings.Repeat("x", 256), "thread": "T", "free form": "a/b\n"}); err != nil {
		t.Error(err)
	}
}

func TestTaskPreview(t *testing.T) {
	secrets := []string{
		"Bearer abcDEF123456", "authorization: Basic dXNlcjpwYXNz", "sk-proj-abcdefghijklmnop1234", "ghp_abcdefghijklmnop",
		"AKIAIOSFODNN7EXAMPLE", "xoxb-123456789-abc", "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.c2ln", "password=hunter22",
		`"api_key": "abcd1234"`, "https://user:hunter22@example.org/", "-----BEGIN RSA PRIVATE KEY-----\nMIIEabc\n-----END RSA PRIVATE KEY-----",
		"AIzaSyA-1234567890123456789012345",
	}
	for _, secret := range secrets {
		got := taskPreview("deploy with " + secret + " please")
		for _, tail := range []string{"abcDEF", "dXNlcj", "abcdefghijklmnop", "IOSFODNN", "123456789", "eyJzdWI", "hunter22", "abcd1234", "MIIE"} {
			if strings.Contains(secret, tail) && strings.Contains(got, tail) {
				t.Errorf("%q is shown as %q", secret, got)
			}
		}
		if !strings.HasPrefix(got, "deploy with ") {
			t.Errorf("%q is shown as %q", secret, got)
		}
	}
	if got := taskPreview(strings.Repeat("ä", 400)); got != strings.Repeat("ä", 256) {
		t.Errorf("a long task is cut to %d bytes", len(got))
	}
	if got := taskPreview("a\xffb"); got != "a\uFFFDb" {
		t.Errorf("bytes that are no text are shown as %q", got)
	}
}

func TestToken(t *testing.T) {
	s := New(Options{StoreKey: []byte("key")})
	tok := s.token(3, 5, purposeWriter)
	for newest, want := range map[uint64]uint64{4: 0, 5: 5, 6: 5, 5 + staleEpochsMax: 5} {
		if got := s.epochOf(3, tok, newest); got != want {
			t.Errorf("with the newest epoch %d it is a token of %d, want %d", newest, got, want)
		}
	}
	if s.epochOf(4, tok, 5) != 0 || s.epochOf(3, "", 5) != 0 || s.epochOf(3, tok[1:], 5) != 0 || s.epochOf(3, strings.ToUpper(tok), 5) != 0 {
		t.Error("what is not the token is taken for it")
	}
	if tok == s.token(3, 5, "resume") || tok == New(Options{StoreKey: []byte("other")}).token(3, 5, purposeWriter) {
		t.Error("tokens for other ends are the same")
	}
}
