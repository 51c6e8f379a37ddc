package need

import (
	"fmt"
	"runtime"
	"testing"
)

// recorder is a test that keeps how it ended.
type recorder struct {
	testing.TB
	end string
}

func (r *recorder) Helper() {}

func (r *recorder) Fatal(args ...any) { r.ends("fatal ", args) }

func (r *recorder) Skip(args ...any) { r.ends("skip ", args) }

func (r *recorder) ends(how string, args []any) {
	r.end = how + fmt.Sprint(args...)
	runtime.Goexit()
}

// endOf runs fn as a test and says how it ended.
func endOf(fn func(testing.TB)) string {
	r := &recorder{end: "ran"}
	done := make(chan struct{})
	go func() {
		defer close(done)
		fn(r)
	}()
	<-done
	return r.end
}

func TestMissing(t *testing.T) {
	missing := func(t testing.TB) { Program(t, "no-such-program", "nothing") }
	for ci, want := range map[string]string{
		"":     "skip missing: no-such-program (apt-get install nothing)",
		"true": "fatal missing: no-such-program (apt-get install nothing)",
	} {
		t.Setenv("CI", ci)
		if got := endOf(missing); got != want {
			t.Errorf("CI=%q: %q, want %q", ci, got, want)
		}
		if got := endOf(func(t testing.TB) { Program(t, "sh", "dash") }); got != "ran" {
			t.Errorf("CI=%q: with the program there: %q", ci, got)
		}
	}
}
