package projection

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// docs/projection.md: its examples are what they are said to be, and it names
// every code, every source, every bound, every decision.
func TestDocs(t *testing.T) {
	b, err := os.ReadFile(filepath.Join("..", "docs", "projection.md"))
	if err != nil {
		t.Fatal(err)
	}
	docs := string(b)
	section, durable, candidates, lines := "", 0, 0, 0
	inside := false
	for line := range strings.Lines(docs) {
		line = strings.TrimSuffix(line, "\n")
		switch {
		case strings.HasPrefix(line, "## "):
			section = line[3:]
		case strings.HasPrefix(line, "```"):
			inside = line == "```json"
		case inside && section == "History":
			lines++
			if !json.Valid([]byte(line)) {
				t.Errorf("not JSON: %s", line)
			}
		case inside && section == "What a tool sends":
			candidates++
			if _, err := Admit([]byte(line), Call{vectorRun, 7}, unreachable(t)); err != nil {
				t.Errorf("%v: %s", err, line)
			}
		case inside:
			durable++
			if _, err := Decode([]byte(line), vectorRun); err != nil {
				t.Errorf("%v: %s", err, line)
			}
		}
	}
	if durable < 2 || candidates < 1 || lines < 3 {
		t.Errorf("%d durable forms, %d candidates, %d lines of history: the examples are not found", durable, candidates, lines)
	}
	named := func(what string) {
		if !strings.Contains(docs, what) {
			t.Errorf("it does not name %s", what)
		}
	}
	for _, c := range Codes() {
		named("`" + string(c) + "`")
	}
	for _, n := range []int{BytesMax, CandidateBytesMax, NodesMax, ImageBytesMax, ImageBase64Max} {
		named(thousands(n))
	}
	for _, n := range []int{PartsMax, DepthMax} {
		named(fmt.Sprintf("| %d |", n))
	}
	named(fmt.Sprintf("%d bytes, the longest", RunBytesMax))
	yes := map[bool]string{true: "yes", false: "no"}
	for _, s := range Sources() {
		p := PolicyOf(s)
		named(fmt.Sprintf("| `%s` | %s | %s | %s | %s |", s, yes[p.Put], yes[p.Delete], yes[p.Show], yes[p.Copy]))
	}
	for d := range notes {
		named(fmt.Sprintf("| `%s` | `%s` |", d, strings.Replace(note("TYPE", 1, d), "1 bytes", "N bytes", 1)))
	}
}

func thousands(n int) string {
	s := strconv.Itoa(n)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}
