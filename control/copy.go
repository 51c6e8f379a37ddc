package control

import "context"

// CopyKind says where the prefix ends that a copy begins with.
type CopyKind string

// The kinds.
const (
	CopyBranch CopyKind = "branch" // through a call: its outcome is the last
	CopyBefore CopyKind = "before" // up to a call, without it
	CopyRevise CopyKind = "revise" // as before, and then Message
)

// CopyRequest asks for a copy of a run.
type CopyRequest struct {
	Kind CopyKind `json:"kind"`
	// Call is the number that the run's history gives the call.
	Call uint64 `json:"call"`
	// StartRequest is what the copy is started with. What it leaves out of task,
	// binding and target is as in the source, and so are the labels where they
	// are nil. Message is for CopyRevise alone, which needs one.
	StartRequest
}

// Copy admits a run that begins with a committed prefix of the run id: its rows,
// its calls and what these refer to. The source may be in any phase, and is not
// touched. Like Start it makes up an idempotency key where r has none. It needs
// an owner, or the source's writer token.
func (c *Client) Copy(ctx context.Context, id string, r CopyRequest) (Started, error) {
	return c.begin(ctx, runPath(id, "copy"), r, r.IdempotencyKey)
}
