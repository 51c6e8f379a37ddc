package projection

import "slices"

// Source says where a payload came from, and with that who may do what to it.
type Source string

// The sources.
const (
	// SourceToolResult is a tool's raw output, put beside its projection.
	SourceToolResult Source = "tool_result"
	// SourceProjection is an artifact that a projection refers to.
	SourceProjection Source = "tool_result_projection"
	// SourceNamed is put by an agent.
	SourceNamed Source = "named"
	// SourceTerminal is a run's complete answer.
	SourceTerminal Source = "terminal"
	// SourceLogBody is the whole of a row that is too large for the log.
	SourceLogBody Source = "log_body"
	// SourceResumeRequest is what an agent needs to go on; it is private.
	SourceResumeRequest Source = "resume_request"
)

// Policy is what may be done with a payload of a source. What is false is
// refused as protected.
type Policy struct {
	Put    bool // an agent may put one
	Delete bool // an owner may delete it
	Show   bool // it is listed among a run's payloads
	Copy   bool // a copy of the run, or a child that names it, may read it
}

// policies is the one table. Committed history never loses what it points to:
// what a projection refers to, what a row stands for and the answer itself
// cannot be deleted, only compacted together with what refers to them.
var policies = map[Source]Policy{
	SourceToolResult:    {Put: true, Delete: true, Show: true, Copy: true},
	SourceProjection:    {Put: false, Delete: false, Show: false, Copy: true},
	SourceNamed:         {Put: true, Delete: true, Show: true, Copy: true},
	SourceTerminal:      {Put: false, Delete: false, Show: true, Copy: true},
	SourceLogBody:       {Put: false, Delete: false, Show: true, Copy: true},
	SourceResumeRequest: {Put: false, Delete: false, Show: false, Copy: false},
}

// Sources lists every source there is, sorted.
func Sources() []Source {
	all := make([]Source, 0, len(policies))
	for s := range policies {
		all = append(all, s)
	}
	slices.Sort(all)
	return all
}

// PolicyOf is the policy of a source. An unknown one allows nothing.
func PolicyOf(s Source) Policy { return policies[s] }
