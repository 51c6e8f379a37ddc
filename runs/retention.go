package runs

import (
	"encoding/json"
	"fmt"
	"time"
)

// RetentionStamp names the bounded policy of retention: Policy.
const RetentionStamp = "run-retention-v2"

// Policy bounds what is kept of logs: beyond it the oldest give way to one
// honest row each, and nothing else of the run goes.
type Policy struct {
	Stamp string `json:"policy"`
	// RetainAll keeps every log; the bounds below do not count then.
	RetainAll bool `json:"retain_all"`
	// ThreadRuns is how many of a thread's newest runs keep their logs, Runs how
	// many of the store's, and LogBytes how much these logs have together.
	ThreadRuns int   `json:"thread_runs"`
	Runs       int   `json:"runs"`
	LogBytes   int64 `json:"log_bytes"`
}

// DefaultPolicy is in force where owners have said nothing.
var DefaultPolicy = Policy{Stamp: RetentionStamp, ThreadRuns: 50, Runs: 500, LogBytes: 32 << 20}

// Bounds of a policy's numbers.
const (
	policyRunsMax     = 1 << 30
	policyLogBytesMax = 1 << 60
)

// ParsePolicy reads a policy. What is missing, unreadable or out of range falls
// back to the default, field by field, and is named: a mistake must not keep
// everything, and must not drop more than the default does.
func ParsePolicy(text []byte) (p Policy, fellBack []string) {
	p = DefaultPolicy
	var fields map[string]json.RawMessage
	if json.Unmarshal(text, &fields) != nil || fields == nil {
		return p, []string{"policy"}
	}
	var stamp string
	if json.Unmarshal(fields["policy"], &stamp) != nil || stamp != RetentionStamp {
		fellBack = append(fellBack, "policy")
	}
	if json.Unmarshal(fields["retain_all"], &p.RetainAll) != nil {
		p.RetainAll = false
		fellBack = append(fellBack, "retain_all")
	}
	for _, f := range []struct {
		name string
		max  int64
		set  func(int64)
	}{
		{"thread_runs", policyRunsMax, func(n int64) { p.ThreadRuns = int(n) }},
		{"runs", policyRunsMax, func(n int64) { p.Runs = int(n) }},
		{"log_bytes", policyLogBytesMax, func(n int64) { p.LogBytes = n }},
	} {
		var n *int64
		if json.Unmarshal(fields[f.name], &n) != nil || n == nil || *n < 1 || *n > f.max {
			fellBack = append(fellBack, f.name)
			continue
		}
		f.set(*n)
	}
	return p, fellBack
}

// RetainedRun is what the decision about a run rests on.
type RetainedRun struct {
	Ref      Ref
	Thread   string // "" for none
	LogBytes int64
	// Keep is true for a run that is never compacted: it is not finished, or
	// pinned. It counts all the same.
	Keep      bool
	Compacted bool // its log has given way before
}

// DueForCompaction decides which runs' logs give way, oldest first. runs are
// all runs in the order of their admissions. It is a function of its arguments
// and of nothing else.
func (p Policy) DueForCompaction(runs []RetainedRun) []Ref {
	if p.RetainAll {
		return nil
	}
	due := make([]bool, len(runs))
	inThread := map[string]int{}
	full, bytes := 0, int64(0)
	for i := len(runs) - 1; i >= 0; i-- {
		r := &runs[i]
		if r.Thread != "" {
			inThread[r.Thread]++
			due[i] = inThread[r.Thread] > p.ThreadRuns && !r.Keep && !r.Compacted
		}
		if !r.Compacted && !due[i] {
			full++
			bytes += r.LogBytes
		}
	}
	for i := 0; i < len(runs) && (full > p.Runs || bytes > p.LogBytes); i++ {
		if r := &runs[i]; !r.Keep && !r.Compacted && !due[i] {
			due[i] = true
			full--
			bytes -= r.LogBytes
		}
	}
	var refs []Ref
	for i := range runs {
		if due[i] {
			refs = append(refs, runs[i].Ref)
		}
	}
	return refs
}

// Compaction is what the one row says that a compacted log is.
type Compaction struct {
	Status      string // how the run ended
	Summary     string
	RowsDropped uint64
	Bytes       int64 // of the dropped rows, as they were shown
	First, Last time.Time
	LogB3       string // of the log as it was shown
	Payload     *PayloadInfo
	Policy      string
	At          time.Time
}

// row is that row's text.
func (c *Compaction) row() []byte {
	at := func(t time.Time) string { return t.UTC().Format(timeForm) }
	return object("type", "compacted", "status", c.Status, "summary", c.Summary,
		"rows_dropped", c.RowsDropped, "bytes_dropped", c.Bytes, "first_time", at(c.First), "last_time", at(c.Last),
		"log_b3", c.LogB3, "payload", payloadNote(c.Payload), "policy", c.Policy, "at", at(c.At))
}

// String says a policy in a line, for lists and the daemon's first lines.
func (p Policy) String() string {
	if p.RetainAll {
		return p.Stamp + ": every log is kept"
	}
	return fmt.Sprintf("%s: logs of the newest %d runs of a thread, of %d runs and %d bytes in all", p.Stamp, p.ThreadRuns, p.Runs, p.LogBytes)
}
