package runs

import (
	"encoding/json"
	"fmt"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func TestParsePolicy(t *testing.T) {
	for text, want := range map[string]struct {
		p    Policy
		fell string
	}{
		``:     {DefaultPolicy, "[policy]"},
		`null`: {DefaultPolicy, "[policy]"},
		`{}`:   {DefaultPolicy, "[policy retain_all thread_runs runs log_bytes]"},
		`{"policy":"run-retention-v2","retain_all":true,"thread_runs":1,"runs":2,"log_bytes":3}`:              {Policy{RetentionStamp, true, 1, 2, 3}, "[]"},
		`{"policy":"run-retention-v1","retain_all":false,"thread_runs":0,"runs":-1,"log_bytes":"3"}`:          {DefaultPolicy, "[policy thread_runs runs log_bytes]"},
		`{"policy":"run-retention-v2","retain_all":"yes","thread_runs":7,"runs":1e99,"log_bytes":null}`:       {Policy{RetentionStamp, false, 7, 500, 32 << 20}, "[retain_all runs log_bytes]"},
		`{"policy":"run-retention-v2","retain_all":false,"thread_runs":5000000000,"runs":1,"log_bytes":1000}`: {Policy{RetentionStamp, false, 50, 1, 1000}, "[thread_runs]"},
	} {
		p, fell := ParsePolicy([]byte(text))
		if p != want.p || fmt.Sprint(fell) != want.fell {
			t.Errorf("%s: %+v, fell back %v", text, p, fell)
		}
	}
	p, fell := ParsePolicy(mustJSON(DefaultPolicy))
	if p != DefaultPolicy || fell != nil {
		t.Errorf("the default does not read as itself: %+v, %v", p, fell)
	}
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
