package control

import (
	"context"
	"net/http"
	"net/url"
)

// Scope is a scope that runs may be bound to, and whether owners have granted
// it. Replayed says that there was nothing to change.
type Scope struct {
	Scope    string  `json:"scope"`
	Granted  bool    `json:"granted"`
	ByUID    *uint32 `json:"by_uid,omitempty"`
	Replayed bool    `json:"replayed,omitempty"`
}

func scopePath(scope string) string { return "/v1/scopes/" + url.PathEscape(scope) }

// Scopes lists the scopes that are granted, sorted. It needs an owner, as the
// following do.
func (c *Client) Scopes(ctx context.Context) ([]Scope, error) {
	var a struct {
		Scopes []Scope `json:"scopes"`
	}
	_, err := c.answer(ctx, &call{method: http.MethodGet, path: "/v1/scopes", repeatable: true}, &a)
	return a.Scopes, err
}

// Scope tells whether a scope is granted.
func (c *Client) Scope(ctx context.Context, scope string) (Scope, error) {
	return c.scope(ctx, http.MethodGet, scope)
}

// GrantScope grants a scope, durably: runs that are bound to exactly it may be
// resumed.
func (c *Client) GrantScope(ctx context.Context, scope string) (Scope, error) {
	return c.scope(ctx, http.MethodPut, scope)
}

// RevokeScope takes a grant back.
func (c *Client) RevokeScope(ctx context.Context, scope string) (Scope, error) {
	return c.scope(ctx, http.MethodDelete, scope)
}

func (c *Client) scope(ctx context.Context, method, scope string) (Scope, error) {
	var s Scope
	_, err := c.answer(ctx, &call{method: method, path: scopePath(scope), repeatable: true}, &s)
	return s, err
}
