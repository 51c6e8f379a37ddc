package control

import (
	"context"
	"io"
	"net/http"
	"net/url"
)

// Why an agent asks that its run waits.
const (
	PauseForPermission     = "permission"
	PauseForProviderChange = "provider-change"
)

// PauseRequest asks that a run waits: for a grant of the scope that it is bound
// to, or for an owner who accepts another provider.
type PauseRequest struct {
	Reason  string   `json:"reason"`
	Binding *Binding `json:"binding,omitempty"`
	Detail  string   `json:"detail,omitempty"` // at most 512 bytes
}

// Pause lets a run wait. It leaves its agent's hands: the token is of no use
// any more. It needs a writer token.
func (c *Client) Pause(ctx context.Context, id string, r PauseRequest) (*Record, error) {
	return c.post(ctx, r, nil, runPath(id, "pause"))
}

// PrepareRequest hands a paused run to a dispatcher.
type PrepareRequest struct {
	// Binding is the provider that will be offered, nil for the run's own;
	// AllowBinding consents to one other, for one activation.
	Binding      *Binding `json:"binding,omitempty"`
	AllowBinding *Binding `json:"allow_binding,omitempty"`
	// Retry names open calls that may run again whatever their class, Close
	// open calls that are over, nobody knows how. A run that is
	// paused-side-effect-uncertain needs one of them for every open call.
	Retry []uint64 `json:"retry,omitempty"`
	Close []uint64 `json:"close,omitempty"`
	// Dead says that the agent's process is known to be gone, Force that the
	// run is to be taken from an agent that may live: else only the agent
	// itself may take it within a lease of its loss.
	Dead  bool `json:"dead,omitempty"`
	Force bool `json:"force,omitempty"`

	// IfMatch travels as a header, and must be there: the ETag of the record
	// that was decided on.
	IfMatch string `json:"-"`
}

// Prepared answers a prepare. Resume is the token, good for one activation
// within WithinMS milliseconds.
type Prepared struct {
	Record   *Record `json:"record"`
	Epoch    uint64  `json:"epoch"`
	Resume   string  `json:"resume"`
	WithinMS int64   `json:"within_ms"`
	ETag     string  `json:"-"`
}

// Prepare makes a paused run ready to be resumed. It needs an owner.
func (c *Client) Prepare(ctx context.Context, id string, r PrepareRequest) (Prepared, error) {
	var p Prepared
	var err error
	p.ETag, err = c.conditional(ctx, runPath(id, "resume", "prepare"), r, r.IfMatch, false, &p)
	return p, err
}

// Activated answers an activation: the run is running again, and its caller is
// the agent, with the token Writer. OpenCalls may run again, by Again, as far as
// that does no harm or an owner has said so.
type Activated struct {
	Record       *Record    `json:"record"`
	Epoch        uint64     `json:"epoch"`
	Writer       string     `json:"writer"`
	ExecutionKey string     `json:"execution_key"` // the same for every resume
	OpenCalls    []OpenCall `json:"open_calls"`
	HistorySeq   uint64     `json:"history_seq"` // of the log's last row
	ETag         string     `json:"-"`
}

func resumeHeader(token string) http.Header {
	h := http.Header{}
	if token != "" {
		h.Set(HeaderResume, token)
	}
	return h
}

// Activate uses a resume token, once, and names the provider on offer, nil for
// none. Where that is another one than the run's, or its scope is not granted,
// the run is paused for that, and the problem says so.
func (c *Client) Activate(ctx context.Context, id, token string, offered *Binding) (Activated, error) {
	k, err := jsonCall(http.MethodPost, runPath(id, "resume", "activate"), struct {
		Binding *Binding `json:"binding,omitempty"`
	}{offered})
	if err != nil {
		return Activated{}, err
	}
	k.header.Set(HeaderResume, token)
	var a Activated
	h, err := c.answer(ctx, k, &a)
	if err != nil {
		return Activated{}, err
	}
	a.ETag = h.Get("ETag")
	return a, nil
}

// Resumed activates a run and returns the handle for it, and what was answered.
func (c *Client) Resumed(ctx context.Context, id, token string, offered *Binding) (*Run, Activated, error) {
	a, err := c.Activate(ctx, id, token, offered)
	if err != nil {
		return nil, a, err
	}
	r, err := c.WithWriter(a.Writer).Adopt(ctx, id)
	return r, a, err
}

// FailDispatch says that a dispatch came to nothing, and why. It needs the
// resume token, or with "" an owner.
func (c *Client) FailDispatch(ctx context.Context, id, token, detail string) (*Record, error) {
	return c.post(ctx, struct {
		Detail string `json:"detail,omitempty"`
	}{detail}, resumeHeader(token), runPath(id, "resume", "fail"))
}

// ResumeRequest reads what the run was started with for whoever continues it.
// It needs an unused resume token, or with "" an owner or the client's writer
// token. The caller closes it.
func (c *Client) ResumeRequest(ctx context.Context, id, token string) (io.ReadCloser, error) {
	k := &call{method: http.MethodGet, path: runPath(id, "resume", "request"), header: resumeHeader(token), repeatable: true}
	resp, err := c.do(ctx, k)
	if err != nil {
		return nil, err
	}
	return resp.Body, nil
}

// Offer is a paused run that may be resumed without anyone's decision.
type Offer struct {
	ID      string `json:"id"`
	Phase   string `json:"phase"`
	ETag    string `json:"etag"`
	UID     uint32 `json:"uid"` // that started it
	Attempt uint64 `json:"attempt"`
	// Available says that the run was started with a resume request.
	Available bool `json:"available"`
	// Ready is false as long as only its own agent may take it, for InMS more
	// milliseconds.
	Ready bool  `json:"ready"`
	InMS  int64 `json:"in_ms"`
}

// Resumable lists the runs that may be resumed without anyone's decision, the
// oldest first; it reads all pages of the list. It needs an owner.
func (c *Client) Resumable(ctx context.Context) (all []Offer, err error) {
	k := &call{method: http.MethodGet, path: "/v1/resumable", query: url.Values{}, repeatable: true}
	for {
		var page struct {
			Offers []Offer `json:"offers"`
			Next   string  `json:"next"`
		}
		if _, err := c.answer(ctx, k, &page); err != nil {
			return nil, err
		}
		all = append(all, page.Offers...)
		if page.Next == "" {
			return all, nil
		}
		k.query.Set("after", page.Next)
	}
}
