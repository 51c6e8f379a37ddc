package main

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"

	"durafs/control"
)

func TestCommandText(t *testing.T) {
	for want, argv := range map[string][]string{
		"make test":             {"make", "test"},
		"sh -c 'echo hi; ls'":   {"sh", "-c", "echo hi; ls"},
		`echo 'it'\''s' ''`:     {"echo", "it's", ""},
		"x --label=k=v a@b,c:1": {"x", "--label=k=v", "a@b,c:1"},
		"say 日本語":               {"say", "日本語"},
	} {
		if got := commandText(argv); got != want {
			t.Errorf("%q: %s, want %s", argv, got, want)
		}
	}
}

func TestRowText(t *testing.T) {
	for row, want := range map[string]string{
		`{"seq":2,"type":"output","n":1,"stream":"stdout","line":"a\tb"}`:          "stdout| a\tb",
		`{"seq":2,"type":"output","n":1,"stream":"stderr","line":"x","eol":false}`: "stderr| x…",
		`{"seq":2,"type":"output","n":1,"stream":"stdout","b64":"/w=="}`:           `stdout| \xff`,
		`{"seq":3,"by":"store","type":"terminal","status":"success"}`:              `#3 - store:terminal status="success"`,
		`{"seq":4,"type":"note","n":12345678901234567890.5,"o":{"k":[1, 2]}}`:      `#4 - note n=12345678901234567890.5 o={"k":[1, 2]}`,
		`{"seq":5,"type":7,"time":"no time","text":"\u001b[2J"}`:                   `#5 -  text="\u001b[2J"`,
		`{"seq":6,"type":"note","time":"not a time"}`:                              "#6 - note",
		`{"by":"store","type":"damaged","seq_from":5,"seq_to":7}`:                  "#5-7 - store:damaged",
		`{"by":"store","type":"damaged","seq_from":5,"seq_to":5}`:                  "#5 - store:damaged",
		`{"by":"store","type":"damaged","seq_from":5,"seq_to":null}`:               "#5-? - store:damaged",
		`{"seq":8,"type":"damaged","seq_from":5,"seq_to":7}`:                       "#8 - damaged seq_from=5 seq_to=7",
		"{\"seq\":7,\"type\":\"note\",\"text\":\"raw \u202e\"}":                    `#7 - note text="raw \u202e"`,
	} {
		if got := rowText([]byte(row)); got != want {
			t.Errorf("%s:\n got %s\nwant %s", row, got, want)
		}
	}
}

func TestCutBytes(t *testing.T) {
	for _, n := range []int{0, 1, 2, 3, 4, 5, 100} {
		got := cutBytes("aé日", n)
		if len(got) > n || !utf8.ValidString(got) || !strings.HasPrefix("aé日", got) {
			t.Errorf("cutBytes(%d) = %q", n, got)
		}
	}
}

func TestExitCode(t *testing.T) {
	for _, c := range []struct {
		err  error
		code int
	}{
		{control.ErrAway, exitAway},
		{fmt.Errorf("x: %w", control.ErrNoSocket), exitAway},
		{&control.Problem{Code: "stale-writer"}, exitFailed},
		{errors.New("x"), exitFailed},
	} {
		if got := exitCode(c.err); got != c.code {
			t.Errorf("%v: %d, want %d", c.err, got, c.code)
		}
	}
}

func TestHopeless(t *testing.T) {
	for _, c := range []struct {
		err  error
		want bool
	}{
		{&control.Problem{Status: 422, Code: "bad-label"}, true},
		{&control.Problem{Status: 409, Code: "stale-writer"}, true},
		{&control.Problem{Status: 409, Code: "idempotency-in-flight", Retryable: true}, false},
		{&control.Problem{Status: 503, Code: "poisoned"}, false},
		{&control.Problem{Status: 507, Code: "no-space", Retryable: true}, false},
		{control.ErrAway, false},
		{control.ErrOutcomeUnknown, false},
	} {
		if got := hopeless(c.err); got != c.want {
			t.Errorf("%v: %v, want %v", c.err, got, c.want)
		}
	}
}
