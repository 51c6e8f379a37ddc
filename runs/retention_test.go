package runs

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// TestParsePolicy reads policies as they may stand in a log, those of earlier
// versions among them: testdata/policies has each, and what it is read as.
func TestParsePolicy(t *testing.T) {
	files, err := filepath.Glob("testdata/policies/*.json")
	if err != nil || len(files) < 10 {
		t.Fatalf("%d files, %v", len(files), err)
	}
	for _, name := range files {
		said, want, ok := bytes.Cut(readTestFile(t, name), []byte("\n=\n"))
		if !ok {
			t.Fatalf("%s has no line =", name)
		}
		if got := append(mustJSON(ParsePolicy(said)), '\n'); !bytes.Equal(got, want) {
			t.Errorf("%s: read as\n%snot as\n%s", name, got, want)
		}
	}
	if p := ParsePolicy(mustJSON(DefaultPolicy)); p.Policy != DefaultPolicy || p.FellBack != nil {
		t.Errorf("the default does not read as itself: %+v", p)
	}
}

func readTestFile(t *testing.T, name string) []byte {
	t.Helper()
	b, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// TestDue holds the decision against the words of the manual, on random stores.
func TestDue(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := Policy{ThreadRuns: rapid.IntRange(1, 4).Draw(t, "thread"), Runs: rapid.IntRange(1, 12).Draw(t, "runs"), LogBytes: int64(rapid.IntRange(1, 300).Draw(t, "bytes"))}
		runs := make([]RetainedRun, rapid.IntRange(0, 25).Draw(t, "n"))
		for i := range runs {
			runs[i] = RetainedRun{
				Ref: Ref(i + 1), Thread: rapid.SampledFrom([]string{"", "A", "B"}).Draw(t, "thread"), LogBytes: int64(rapid.IntRange(0, 60).Draw(t, "size")),
				Keep: rapid.IntRange(0, 4).Draw(t, "keep") == 0,
			}
			runs[i].Compacted = !runs[i].Keep && rapid.IntRange(0, 4).Draw(t, "compacted") == 0
		}
		due := p.DueForCompaction(runs)
		if !slices.IsSorted(due) {
			t.Fatal("not oldest first")
		}
		isDue := func(i int) bool { return slices.Contains(due, runs[i].Ref) }
		full, bytes := 0, int64(0)
		newestDue, oldestFree := -1, len(runs) // of those that no thread's bound takes
		for i, r := range runs {
			newer := 0
			for _, q := range runs[i+1:] {
				if q.Thread == r.Thread {
					newer++
				}
			}
			byThread := r.Thread != "" && newer >= p.ThreadRuns
			if (r.Keep || r.Compacted) && isDue(i) || byThread && !r.Keep && !r.Compacted && !isDue(i) {
				t.Fatalf("run %d of %+v: due %v", i+1, runs, due)
			}
			if !r.Compacted && !isDue(i) {
				full++
				bytes += r.LogBytes
			}
			switch {
			case byThread || r.Keep || r.Compacted:
			case isDue(i):
				newestDue = i
			default:
				oldestFree = min(oldestFree, i)
			}
		}
		if newestDue > oldestFree {
			t.Fatalf("run %d gives way before the older %d", newestDue+1, oldestFree+1)
		}
		if (full > p.Runs || bytes > p.LogBytes) && oldestFree < len(runs) {
			t.Fatalf("%d logs of %d bytes are kept, and run %d could give way", full, bytes, oldestFree+1)
		}
		if newestDue >= 0 { // and no more than has to
			if n, b := full+1, bytes+runs[newestDue].LogBytes; n <= p.Runs && b <= p.LogBytes {
				t.Fatalf("run %d need not give way", newestDue+1)
			}
		}
		// When those have given way, nothing is due.
		for i := range runs {
			runs[i].Compacted = runs[i].Compacted || isDue(i)
		}
		if again := p.DueForCompaction(runs); len(again) > 0 {
			t.Fatalf("then %v are due", again)
		}
		p.RetainAll = true
		if p.DueForCompaction(runs) != nil {
			t.Fatal("retain all does not")
		}
	})
}

func TestCompactionRow(t *testing.T) {
	at := time.Date(2026, 5, 4, 3, 2, 1, 0, time.UTC)
	c := Compaction{Status: "success", Summary: "done", RowsDropped: 7, Bytes: 99, First: at, Last: at.Add(time.Second), LogB3: "ab", Payload: &PayloadInfo{Bytes: 3}, Policy: RetentionStamp, At: at}
	var got map[string]any
	if err := json.Unmarshal(c.row(), &got); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"type", "status", "summary", "rows_dropped", "bytes_dropped", "first_time", "last_time", "log_b3", "payload", "policy", "at"} {
		if got[name] == nil {
			t.Errorf("the row has no %s: %s", name, c.row())
		}
	}
}
