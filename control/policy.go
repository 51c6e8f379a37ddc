package control

import (
	"context"
	"net/http"
	"net/url"
)

// Policy bounds what is kept of logs: how many of a thread's newest runs keep
// theirs, how many runs of the store, and how many bytes these have together.
// With RetainAll every log is kept.
type Policy struct {
	Stamp      string `json:"policy"`
	RetainAll  bool   `json:"retain_all"`
	ThreadRuns int64  `json:"thread_runs"`
	Runs       int64  `json:"runs"`
	LogBytes   int64  `json:"log_bytes"`
}

// PolicyState is the policy in force, and how it came about.
type PolicyState struct {
	Policy
	// Default: owners have said nothing.
	Default bool    `json:"default,omitempty"`
	ByUID   *uint32 `json:"by_uid,omitempty"`
	// FellBack are the fields of what owners have said that cannot be taken:
	// there the default counts.
	FellBack []string `json:"fell_back,omitempty"`
	// MigratedFrom is the earlier stamp that it was said under.
	MigratedFrom string `json:"migrated_from,omitempty"`
	// Due is what is beyond the policy now, where that was asked for.
	Due *PolicyDue `json:"due,omitempty"`
	// Replayed: there was nothing to change.
	Replayed bool `json:"replayed,omitempty"`
}

// PolicyDue is what a policy would have give way: how many runs' logs, with how
// many rows and bytes. Oldest has the ids of the first of them.
type PolicyDue struct {
	Runs   int64    `json:"runs"`
	Rows   uint64   `json:"rows"`
	Bytes  int64    `json:"bytes"`
	Oldest []string `json:"oldest,omitempty"`
}

// PolicyChange says what of the policy is to be different; nil: as it is.
type PolicyChange struct {
	RetainAll  *bool  `json:"retain_all,omitempty"`
	ThreadRuns *int64 `json:"thread_runs,omitempty"`
	Runs       *int64 `json:"runs,omitempty"`
	LogBytes   *int64 `json:"log_bytes,omitempty"`
}

// Policy tells the policy of retention in force, and with due also what is
// beyond it now. It needs an owner, as SetPolicy does.
func (c *Client) Policy(ctx context.Context, due bool) (PolicyState, error) {
	k := &call{method: http.MethodGet, path: "/v1/policy", repeatable: true}
	if due {
		k.query = url.Values{"due": {"1"}}
	}
	var p PolicyState
	_, err := c.answer(ctx, k, &p)
	return p, err
}

// SetPolicy changes the policy, durably, and answers the new one.
func (c *Client) SetPolicy(ctx context.Context, ch PolicyChange) (PolicyState, error) {
	k, err := jsonCall(http.MethodPut, "/v1/policy", ch)
	if err != nil {
		return PolicyState{}, err
	}
	k.repeatable = true
	var p PolicyState
	_, err = c.answer(ctx, k, &p)
	return p, err
}
