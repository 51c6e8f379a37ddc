package control

import (
	"context"
	"net/http"
)

// CancelRequest asks for the end of a run.
type CancelRequest struct {
	// Children cancels the runs too that name this one as parent, and theirs.
	Children bool `json:"children,omitempty"`

	// IfMatch travels as a header: the ETag that the caller saw, "" for any.
	IfMatch string `json:"-"`
}

// Cancelled answers a cancel. The run is cancelled where no agent had it; else
// it is cancel-requested, and is cancelled when its agent has answered, or did
// not within ten seconds. Children are the ids of the others that were
// cancelled with it, NotCancelled those that were to be and are not.
type Cancelled struct {
	Record       *Record        `json:"record"`
	Children     []string       `json:"children,omitempty"`
	NotCancelled []NotCancelled `json:"not_cancelled,omitempty"`
	ETag         string         `json:"-"`
}

// NotCancelled says why a run was not cancelled with the one that it descends
// from.
type NotCancelled struct {
	ID     string `json:"id"`
	Code   string `json:"code,omitempty"` // run-damaged, or another refusal's
	Detail string `json:"detail"`
}

// Cancel ends a run against its agent's will. That it is wanted is durable when
// it returns. A second cancel is refused with cancel-requested, one of a run
// that has ended with finished. It needs an owner.
func (c *Client) Cancel(ctx context.Context, id string, r CancelRequest) (Cancelled, error) {
	var a Cancelled
	var err error
	a.ETag, err = c.conditional(ctx, runPath(id, "cancel"), r, r.IfMatch, false, &a)
	return a, err
}

// conditional sends v if the record still has the ETag ifMatch, "" for any, and
// returns the ETag that it has then.
func (c *Client) conditional(ctx context.Context, path string, v any, ifMatch string, repeatable bool, into any) (etag string, err error) {
	k, err := jsonCall(http.MethodPost, path, v)
	if err != nil {
		return "", err
	}
	k.repeatable = repeatable
	if ifMatch != "" {
		k.header.Set("If-Match", ifMatch)
	}
	h, err := c.answer(ctx, k, into)
	if err != nil {
		return "", err
	}
	return h.Get("ETag"), nil
}

// How an agent answers a cancel.
const (
	AbortAcknowledged = "acknowledged" // it has stopped, or stops now
	// These two are for whoever runs the agent as a process.
	AbortExited = "exited"
	AbortKilled = "killed"
	// These two are the store's own: nobody listened, or nobody answered.
	AbortNoListener = "no-listener"
	AbortTimedOut   = "timed-out"
)

// Abort is the body of an answer to a cancel.
type Abort struct {
	How string `json:"how"`
}

// recorded is an answer that has a record and nothing else.
type recorded struct {
	Record *Record `json:"record"`
}

// post sends v, and returns the record that is answered.
func (c *Client) post(ctx context.Context, v any, header http.Header, path string) (*Record, error) {
	k, err := jsonCall(http.MethodPost, path, v)
	if err != nil {
		return nil, err
	}
	for name, values := range header {
		k.header[name] = values
	}
	var a recorded
	_, err = c.answer(ctx, k, &a)
	return a.Record, err
}

// Abort answers a cancel: the agent has stopped, in one of the ways of
// AbortAcknowledged, AbortExited and AbortKilled. The run is cancelled when it
// returns. It needs a writer token.
func (c *Client) Abort(ctx context.Context, id, how string) (*Record, error) {
	return c.post(ctx, Abort{How: how}, nil, runPath(id, "abort"))
}

// RolledBack answers a rollback: the run was never there.
type RolledBack struct {
	Removed string `json:"removed"`
}

// Rollback undoes the admission of a run whose first write found no space:
// see docs/lifecycle.md. It needs a writer token.
func (c *Client) Rollback(ctx context.Context, id string) error {
	k, err := jsonCall(http.MethodPost, runPath(id, "rollback"), struct{}{})
	if err != nil {
		return err
	}
	_, err = c.answer(ctx, k, &RolledBack{})
	return err
}
