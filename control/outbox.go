package control

import (
	"context"
	"net/http"
	"net/url"
	"time"
)

// Delivery is that the end of a run is still to be told to a sink: a command
// that the daemon was given with --on-terminal.
type Delivery struct {
	ID   string `json:"id"`
	Run  string `json:"run"`
	Sink string `json:"sink"`
	// State is waiting, delivering, or parked: then only an owner lets it be
	// tried again. What is for a sink that is not configured, or of a damaged
	// run, is parked.
	State      string `json:"state"`
	Configured bool   `json:"configured"`
	Damaged    bool   `json:"damaged,omitempty"`
	// Attempts is how often the sink has failed, Error what it said last, and At
	// when that was.
	Attempts uint32    `json:"attempts"`
	Error    string    `json:"error,omitempty"`
	At       time.Time `json:"at"`
	// Replayed says, of a retry, that there was nothing to change.
	Replayed bool `json:"replayed,omitempty"`
}

// Outbox lists what is still to be told to sinks, the oldest first; it reads all
// pages of the list. It needs an owner, as the following do.
func (c *Client) Outbox(ctx context.Context) (all []Delivery, err error) {
	k := &call{method: http.MethodGet, path: "/v1/outbox", query: url.Values{"limit": {"1000"}}, repeatable: true}
	for {
		var page struct {
			Deliveries []Delivery `json:"deliveries"`
			Next       string     `json:"next"`
		}
		if _, err := c.answer(ctx, k, &page); err != nil {
			return nil, err
		}
		all = append(all, page.Deliveries...)
		if page.Next == "" {
			return all, nil
		}
		k.query.Set("after", page.Next)
	}
}

// RetryDelivery lets a sink be told as soon as it can be, as if that had never
// failed.
func (c *Client) RetryDelivery(ctx context.Context, id string) (Delivery, error) {
	return c.delivery(ctx, id, "retry", true)
}

// DropDelivery gives a delivery up, durably, and answers what it was.
func (c *Client) DropDelivery(ctx context.Context, id string) (Delivery, error) {
	return c.delivery(ctx, id, "drop", false) // the second time there would be none
}

func (c *Client) delivery(ctx context.Context, id, verb string, repeatable bool) (Delivery, error) {
	var d Delivery
	_, err := c.answer(ctx, &call{method: http.MethodPost, path: "/v1/outbox/" + url.PathEscape(id) + "/" + verb, repeatable: repeatable}, &d)
	return d, err
}
