package control

import (
	"context"
	"net/http"
	"time"
)

// DeletedPayload tells of a payload that was deleted. Replayed says that it had
// been before; the rest is of that time.
type DeletedPayload struct {
	Name     string    `json:"name"`
	Source   string    `json:"source"`
	Bytes    int64     `json:"bytes"`
	B3       string    `json:"b3"`
	ByUID    uint32    `json:"by_uid"`
	At       time.Time `json:"at"`
	Replayed bool      `json:"replayed,omitempty"`
}

// DeletePayload deletes a payload that the run's agent has put, durably. What is
// left is a row that tells of it; the name stays taken, and a reader of it is
// told CodePayloadDeleted. It may be repeated. It needs an owner.
func (c *Client) DeletePayload(ctx context.Context, id, name string) (DeletedPayload, error) {
	var d DeletedPayload
	_, err := c.answer(ctx, &call{method: http.MethodDelete, path: runPath(id, "payloads", name), repeatable: true}, &d)
	return d, err
}
