package runs

import (
	"encoding/json"
	"fmt"
	"strings"
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

// PolicyState is the policy in force, and how it came about.
type PolicyState struct {
	Policy
	// Default: owners have said nothing.
	Default bool `json:"default,omitempty"`
	// ByUID is the owner who said it, nil where nobody did, or it is not known.
	ByUID *uint32 `json:"by_uid,omitempty"`
	// FellBack are the fields of what owners have said that are missing,
	// unreadable or out of range: there the default counts.
	FellBack []string `json:"fell_back,omitempty"`
	// MigratedFrom is the earlier stamp that owners have said it under.
	MigratedFrom string `json:"migrated_from,omitempty"`
}

// stampRetainAll is the stamp of the first policies, which had no numbers: they
// keep everything.
const stampRetainAll = "run-retention-v1"

// ParsePolicy reads a policy. What is missing, unreadable or out of range falls
// back to the default, field by field, and is named: a mistake must not keep
// everything, and must not drop more than the default does. One with the first
// stamp becomes one with the present stamp that keeps everything.
func ParsePolicy(text []byte) PolicyState {
	p := PolicyState{Policy: DefaultPolicy}
	var fields map[string]json.RawMessage
	if json.Unmarshal(text, &fields) != nil || fields == nil {
		p.FellBack = []string{"policy"}
		return p
	}
	var uid *uint32
	if json.Unmarshal(fields["by_uid"], &uid) == nil {
		p.ByUID = uid
	}
	var stamp string
	switch json.Unmarshal(fields["policy"], &stamp); stamp {
	case stampRetainAll:
		p.RetainAll, p.MigratedFrom = true, stamp
		return p
	case RetentionStamp:
	default:
		p.FellBack = append(p.FellBack, "policy")
	}
	p.parse(fields)
	return p
}

func (p *PolicyState) parse(fields map[string]json.RawMessage) {
	var all *bool
	if json.Unmarshal(fields["retain_all"], &all) == nil && all != nil {
		p.RetainAll = *all
	} else {
		p.FellBack = append(p.FellBack, "retain_all")
	}
	for _, b := range p.bounds() {
		var n *int64
		if json.Unmarshal(fields[b.name], &n) == nil && n != nil && b.takes(*n) {
			b.set(*n)
		} else {
			p.FellBack = append(p.FellBack, b.name)
		}
	}
}

// policyBound is a number of a policy.
type policyBound struct {
	name string
	max  int64
	set  func(int64)
}

func (b *policyBound) takes(n int64) bool { return n >= 1 && n <= b.max }

func (p *Policy) bounds() []policyBound {
	return []policyBound{
		{"thread_runs", policyRunsMax, func(n int64) { p.ThreadRuns = int(n) }},
		{"runs", policyRunsMax, func(n int64) { p.Runs = int(n) }},
		{"log_bytes", policyLogBytesMax, func(n int64) { p.LogBytes = n }},
	}
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

// String says a policy in a line.
func (p Policy) String() string {
	if p.RetainAll {
		return p.Stamp + ": every log is kept"
	}
	return fmt.Sprintf("%s: logs of the newest %d runs of a thread, of %d runs and %d bytes in all", p.Stamp, p.ThreadRuns, p.Runs, p.LogBytes)
}

// String says the policy in a line, and what of it nobody has said like that.
func (p PolicyState) String() string {
	s := p.Policy.String()
	switch {
	case p.Default:
		s += " (the default)"
	case p.MigratedFrom != "":
		s += " (said as " + p.MigratedFrom + ")"
	case p.FellBack != nil:
		s += "; what was said of " + strings.Join(p.FellBack, ", ") + " cannot be taken, and the default counts there"
	}
	return s
}
