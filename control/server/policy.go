package server

import (
	"net/http"

	"durafs/runs"
)

// policyBody tells of the policy of retention.
type policyBody struct {
	runs.PolicyState
	// Due is what is beyond it now, where that was asked for.
	Due *runs.Due `json:"due,omitempty"`
	// Replayed: there was nothing to change.
	Replayed bool `json:"replayed,omitempty"`
}

// policy is GET /v1/policy?due=: the policy in force, with due=1 also which logs
// would give way now. It is told, and nothing is done.
func (r *request) policy() error {
	q := r.query([]string{"due"})
	due := q.flag("due")
	if q.err != nil {
		return q.err
	}
	b := policyBody{PolicyState: r.s.runs.Policy()}
	if due {
		d, err := r.s.runs.PolicyDue(r.caller)
		if err != nil {
			return err
		}
		b.Due = &d
	}
	return r.answer(http.StatusOK, b)
}

// setPolicy is PUT /v1/policy. What the body leaves out stays as it is.
func (r *request) setPolicy() error {
	var body struct {
		RetainAll  *bool  `json:"retain_all"`
		ThreadRuns *int64 `json:"thread_runs"`
		Runs       *int64 `json:"runs"`
		LogBytes   *int64 `json:"log_bytes"`
	}
	if err := r.envelope(&body); err != nil {
		return err
	}
	now, replayed, err := r.s.runs.SetPolicy(r.Context(), r.caller, runs.PolicyChange(body))
	if err != nil {
		return err
	}
	return r.answer(http.StatusOK, policyBody{PolicyState: now, Replayed: replayed})
}
