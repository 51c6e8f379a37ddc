package control

import "context"

// PinRequest asks that a run is kept whole, or is not any more.
type PinRequest struct {
	Pinned bool `json:"pinned"`

	// IfMatch travels as a header: the ETag that the caller saw, "" for any.
	IfMatch string `json:"-"`
}

// Pinned answers a pin. Replayed says that there was nothing to change.
type Pinned struct {
	Record   *Record `json:"record"`
	Replayed bool    `json:"replayed,omitempty"`
	ETag     string  `json:"-"`
}

// Pin protects a run's log from retention, or ends that. It is durable when it
// returns, and may be repeated. It needs an owner.
func (c *Client) Pin(ctx context.Context, id string, r PinRequest) (Pinned, error) {
	var a Pinned
	var err error
	a.ETag, err = c.conditional(ctx, runPath(id, "pin"), r, r.IfMatch, r.IfMatch == "", &a)
	return a, err
}
