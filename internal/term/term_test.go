package term

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"time"
	"unicode"
	"unicode/utf8"

	"pgregory.net/rapid"
)

func TestBytes(t *testing.T) {
	for n, want := range map[int64]string{
		0: "0 B", 1023: "1023 B", 1024: "1 KiB", 1536: "1.5 KiB", 64 << 20: "64 MiB",
		100*1024 + 512: "100 KiB", 1 << 62: "4 EiB",
	} {
		if got := Bytes(n); got != want {
			t.Errorf("Bytes(%d) = %q, want %q", n, got, want)
		}
	}
}

func TestAge(t *testing.T) {
	for d, want := range map[time.Duration]string{
		-time.Hour: "0s", 0: "0s", 59 * time.Second: "59s", time.Minute: "1m",
		47 * time.Hour: "47h", 49 * time.Hour: "2d",
	} {
		if got := Age(d); got != want {
			t.Errorf("Age(%v) = %q, want %q", d, got, want)
		}
	}
}

func TestSafe(t *testing.T) {
	for in, want := range map[string]string{
		"plain text, 日本語\t!": "plain text, 日本語\t!",
		"\x1b[2J":            `\x1b[2J`,
		"a\nb\r":             `a\nb\r`,
		"\u202eexe.txt":      `\u202eexe.txt`,
		"\u009b31m":          `\x9b31m`,
		"\xff\x00":           `\xff\x00`,
		"\u2028":             `\u2028`,
	} {
		if got := Safe(in); got != want {
			t.Errorf("Safe(%q) = %q, want %q", in, got, want)
		}
	}
}

// Whatever comes in, nothing that a terminal obeys goes out.
func TestSafeIsSafe(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		got := Safe(string(rapid.SliceOf(rapid.Byte()).Draw(t, "bytes")))
		if !utf8.ValidString(got) || strings.ContainsFunc(got, func(r rune) bool {
			return r != '\t' && unicode.IsControl(r)
		}) {
			t.Fatalf("not safe: %q", got)
		}
	})
}

func TestCut(t *testing.T) {
	if got := Cut("日本語の文", 3); got != "日本…" {
		t.Errorf("Cut = %q", got)
	}
	if got := Cut("abc", 3); got != "abc" {
		t.Errorf("Cut = %q", got)
	}
}

func TestTable(t *testing.T) {
	var out bytes.Buffer
	table := NewTable(&out, "ID", "PHASE")
	table.Row("a\tb", "run\nning")
	if err := table.Flush(); err != nil {
		t.Fatal(err)
	}
	if got, want := out.String(), "ID   PHASE\na b  run\\nning\n"; got != want {
		t.Errorf("table = %q, want %q", got, want)
	}
}

type stepClock struct{ boot time.Duration }

func (c *stepClock) Now() time.Time      { return time.Unix(0, 0) }
func (c *stepClock) Boot() time.Duration { return c.boot }

func TestProgressIsDrawnAtABoundedRate(t *testing.T) {
	var out bytes.Buffer
	c := &stepClock{}
	p := newProgress(&out, c, 20)
	for i := range 100 {
		p.Printf("%d done", i)
		c.boot += time.Millisecond * 10
	}
	if got := strings.Count(out.String(), "\r"); got != 10 {
		t.Errorf("drawn %d times, want 10", got)
	}
	p.Clear()
	p.Clear()
	if !strings.HasSuffix(out.String(), "90 done\r\x1b[K") {
		t.Errorf("not cleared once: %q", out.String())
	}
}

func TestProgressIsSilentWithoutTerminal(t *testing.T) {
	var out bytes.Buffer
	p := NewProgress(&out, &stepClock{})
	p.Printf("working")
	p.Clear()
	if out.Len() != 0 {
		t.Errorf("drew %q on something that is no terminal", out.String())
	}
}

func ExampleCount() {
	fmt.Println(Count(1, "row"), Count(0, "row"))
	// Output: 1 row 0 rows
}
