package control

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"io"
	"net/http"
	"net/url"
	"strconv"
)

// ClaimRequest says which tool is about to run.
type ClaimRequest struct {
	// CallID is the agent's own label of the call, unique in the run for ever.
	CallID string `json:"call_id"`
	Name   string `json:"name"`
	// Safety is read-only, idempotent, mutating or unknown; whatever else it is
	// counts as unknown.
	Safety string `json:"safety,omitempty"`
	// Args are the arguments, any JSON value; or ArgsPayload names the payload
	// that holds them.
	Args        json.RawMessage `json:"args,omitempty"`
	ArgsPayload string          `json:"args_payload,omitempty"`

	// IdempotencyKey travels as a header; Client.Claim makes one up where it is
	// "", so that it can repeat the request.
	IdempotencyKey string `json:"-"`
}

// Claimed answers a claim: it is durable, and the tool may run.
type Claimed struct {
	Call    uint64 `json:"call"`
	Index   uint64 `json:"index"`
	Key     string `json:"idempotency_key"` // the same whenever this call runs
	Attempt uint64 `json:"attempt"`
	Safety  string `json:"safety"` // as it counts

	Replayed bool `json:"replayed,omitempty"`
}

// Committed is what stands of a call that has ended: the outcome as it was
// sent, and the durable form of what a model is shown of it.
type Committed struct {
	Call       uint64          `json:"call"`
	Outcome    json.RawMessage `json:"outcome"`
	Projection json.RawMessage `json:"projection,omitempty"`
	// ByStore is true where the store closed the call: nobody told it.
	ByStore  bool `json:"by_store,omitempty"`
	Replayed bool `json:"replayed,omitempty"`
	// Refused is why the sentinel was committed in place of a projection.
	Refused string `json:"projection_refused,omitempty"`
}

// Claim records a tool call before its effect. Unless it succeeds the tool must
// not run. It needs a writer token.
func (c *Client) Claim(ctx context.Context, id string, r ClaimRequest) (Claimed, error) {
	k, err := jsonCall(http.MethodPost, runPath(id, "tools"), r)
	if err != nil {
		return Claimed{}, err
	}
	if r.IdempotencyKey == "" {
		r.IdempotencyKey = rand.Text()
	}
	k.header.Set(HeaderIdempotencyKey, r.IdempotencyKey)
	k.repeatable = true
	var got Claimed
	_, err = c.answer(ctx, k, &got)
	return got, err
}

// Again records that an open call of an earlier epoch is run once more. Unless
// it succeeds the tool must not run. It needs a writer token.
func (c *Client) Again(ctx context.Context, id string, call uint64, key string) (Claimed, error) {
	k, err := jsonCall(http.MethodPost, runPath(id, "tools", strconv.FormatUint(call, 10), "again"), struct{}{})
	if err != nil {
		return Claimed{}, err
	}
	if key != "" {
		k.header.Set(HeaderIdempotencyKey, key)
	}
	k.repeatable = key != ""
	var got Claimed
	_, err = c.answer(ctx, k, &got)
	return got, err
}

// Outcome records what became of a call, a JSON object on one line, and what a
// model is shown of it, a candidate on one line; nil for none. It returns what
// is committed: show a model that, and never the candidate. The same outcome
// again answers Replayed, so the request is repeated when the connection
// breaks. It needs a writer token.
func (c *Client) Outcome(ctx context.Context, id string, call uint64, outcome, projection []byte) (Committed, error) {
	body := append(bytes.Clone(outcome), '\n')
	if projection != nil {
		body = append(append(body, projection...), '\n')
	}
	k := bytesCall(http.MethodPost, runPath(id, "tools", strconv.FormatUint(call, 10), "outcome"), TypeNDJSON, body)
	k.repeatable = true
	var got Committed
	_, err := c.answer(ctx, k, &got)
	return got, err
}

// HistoryQuery says what of a history is wanted, and for whom.
type HistoryQuery struct {
	Upto uint64 // the row up to which the log counts, 0 for all of it
	// Materialize replaces references to images: by their bytes with Vision, as
	// far as ImageBudget reaches (0 for the daemon's default), else by a text.
	Materialize, Vision bool
	ImageBudget         int64
}

// History reads what a model should see of the run's tool calls: lines of JSON,
// one for each. The caller closes it. What breaks is not read on: read again,
// it is the same.
func (c *Client) History(ctx context.Context, id string, q HistoryQuery) (io.ReadCloser, error) {
	v := url.Values{}
	if q.Upto > 0 {
		v.Set("upto", strconv.FormatUint(q.Upto, 10))
	}
	if q.Materialize {
		v.Set("vision", map[bool]string{true: "1", false: "0"}[q.Vision])
		if q.ImageBudget > 0 {
			v.Set("image_budget", strconv.FormatInt(q.ImageBudget, 10))
		}
	}
	resp, err := c.do(ctx, &call{method: http.MethodGet, path: runPath(id, "history"), query: v, repeatable: true})
	if err != nil {
		return nil, err
	}
	return resp.Body, nil
}
