package server

import (
	"net/http"

	"durafs/runs"
)

// listScopes is GET /v1/scopes.
func (r *request) listScopes() error {
	if q := r.query(nil); q.err != nil {
		return q.err
	}
	grants, err := r.s.runs.Scopes(r.caller)
	if err != nil {
		return err
	}
	scopes := make([]scopeBody, len(grants))
	for i, g := range grants {
		scopes[i] = granted(g)
	}
	return r.answer(http.StatusOK, struct {
		Scopes []scopeBody `json:"scopes"`
	}{scopes})
}

// scopeBody tells of one scope.
type scopeBody struct {
	Scope   string  `json:"scope"`
	Granted bool    `json:"granted"`
	ByUID   *uint32 `json:"by_uid,omitempty"`
	// Replayed: there was nothing to change.
	Replayed bool `json:"replayed,omitempty"`
}

func granted(g runs.Grant) scopeBody {
	return scopeBody{Scope: g.Scope, Granted: true, ByUID: &g.ByUID}
}

// getScope is GET /v1/scopes/{scope}. A scope that nobody has granted is one
// that is not granted.
func (r *request) getScope() error {
	b, err := r.scope()
	if err != nil {
		return err
	}
	return r.answer(http.StatusOK, b)
}

func (r *request) scope() (b scopeBody, err error) {
	b.Scope = r.PathValue("scope")
	grants, err := r.s.runs.Scopes(r.caller)
	for _, g := range grants {
		if g.Scope == b.Scope {
			b = granted(g)
		}
	}
	return b, err
}

// grantScope is PUT /v1/scopes/{scope}.
func (r *request) grantScope() error { return r.setScope(true) }

// revokeScope is DELETE /v1/scopes/{scope}.
func (r *request) revokeScope() error { return r.setScope(false) }

func (r *request) setScope(grant bool) error {
	if r.ContentLength != 0 {
		if err := r.envelope(&struct{}{}); err != nil {
			return err
		}
	}
	before, err := r.scope()
	if err != nil {
		return err
	}
	if err := r.s.runs.GrantScope(r.Context(), r.caller, before.Scope, grant); err != nil {
		return err
	}
	after, err := r.scope()
	if err != nil {
		return err
	}
	after.Replayed = before.Granted == grant
	return r.answer(http.StatusOK, after)
}
