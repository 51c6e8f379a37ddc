package daemon

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestParseSinks: a name stands before the command, and what begins with a
// variable of the environment is a command.
func TestParseSinks(t *testing.T) {
	got, err := ParseSinks([]string{"mail=sendmail -t", "FOO=1 notify", "curl -d @- http://localhost/?a=b", "a.b_c-1=x\ny", "=x"})
	want := []Sink{
		{"mail", "sendmail -t"},
		{"FOO=1 notify", "FOO=1 notify"},
		{"curl -d @- http://localhost/?a=b", "curl -d @- http://localhost/?a=b"},
		{"a.b_c-1", "x\ny"},
		{"=x", "=x"},
	}
	if d := cmp.Diff(want, got); d != "" || err != nil {
		t.Errorf("%s, %v", d, err)
	}
	for _, bad := range [][]string{{""}, {"mail="}, {"x\ny"}, {"mail=a", "mail=b"}, {"true", "true"}, {strings.Repeat("x", 256)}, make([]string, 17)} {
		if got, err := ParseSinks(bad); err == nil {
			t.Errorf("%.40q is taken: %v", bad, got)
		}
	}
}

// TestTail keeps the end of what a command said, whatever pieces it comes in.
func TestTail(t *testing.T) {
	text := strings.Repeat("0123456789", 100)
	for _, piece := range []int{1, 7, tailBytes - 1, tailBytes, tailBytes + 1, len(text)} {
		var w tail
		for at := 0; at < len(text); at += piece {
			w.Write([]byte(text[at:min(at+piece, len(text))]))
		}
		if want := text[len(text)-tailBytes:]; string(w.last) != want {
			t.Errorf("pieces of %d: %q", piece, w.last)
		}
	}
}
