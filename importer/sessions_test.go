package importer

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// The sessions that the repository ships are read without a problem, and
// nothing of them is missing.
func TestShippedSessions(t *testing.T) {
	for _, c := range []struct {
		file   string
		format Format
		rows   int
		timed  bool
		task   string
	}{
		{"coding-agent.jsonl", AgentLines, 17, true, "How does the store make a new file name durable?"},
		{"chat.jsonl", ChatLines, 8, true, "Which packages are there?"},
		{"shell-agent.traj", Trajectory, 22, false, "Check that the importer reads torn lines"},
	} {
		t.Run(c.file, func(t *testing.T) {
			file, err := os.ReadFile(filepath.Join("..", "testdata", "sessions", c.file))
			if err != nil {
				t.Fatal(err)
			}
			if len(file) < 20_000 || len(file) > 200_000 {
				t.Errorf("%d bytes", len(file))
			}
			g := readAll(t, bytes.NewReader(file))
			if g.sum.Format != c.format || g.sum.Rows != c.rows || len(g.problems) != 0 {
				t.Errorf("summary %+v, problems %q", g.sum, g.problems)
			}
			if !strings.HasPrefix(g.sum.Task, c.task) {
				t.Errorf("task %q", g.sum.Task)
			}
			if c.timed && (g.sum.First.IsZero() || g.sum.Last.Before(g.sum.First)) {
				t.Errorf("times from %v to %v", g.sum.First, g.sum.Last)
			}
			if want, got := stringsIn(t, file), stringsIn(t, []byte(strings.Join(g.rows, "\n"))); want > got || want < 10_000 {
				t.Errorf("%d bytes of strings in the file, %d in the rows", want, got)
			}
		})
	}
}

// stringsIn adds up the lengths of all strings, names included.
func stringsIn(t *testing.T, text []byte) (n int) {
	t.Helper()
	dec := json.NewDecoder(bytes.NewReader(text))
	for dec.More() {
		tok, err := dec.Token()
		if err != nil {
			t.Fatal(err)
		}
		if s, ok := tok.(string); ok {
			n += len(s)
		}
		for !dec.More() { // the ends of what is open, or of the text
			if tok, err := dec.Token(); tok == nil || err != nil {
				return n
			}
		}
	}
	return n
}
