package control

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"net/http"
	"net/url"
	"strconv"
	"time"
)

// ThreadInfo is a thread in a list.
type ThreadInfo struct {
	Thread   string    `json:"thread"`
	Messages int       `json:"messages"`
	Bytes    int64     `json:"bytes"`
	LastAt   time.Time `json:"last_at"`
}

// ThreadList is a page of threads, by name; Next is what to go on behind, "" at
// the end.
type ThreadList struct {
	Threads []ThreadInfo `json:"threads"`
	Next    string       `json:"next,omitempty"`
}

// Message is one message of a thread: a user's turn, or how a run ended.
type Message struct {
	LSN  uint64    `json:"lsn"`
	At   time.Time `json:"at"`
	Role string    `json:"role"`
	Run  string    `json:"run,omitempty"`
	// Message is a user's turn, any JSON.
	Message json.RawMessage `json:"message,omitempty"`
	Status  string          `json:"status,omitempty"`
	// Text is the complete answer; or Digest is its beginning, and the run's
	// payload has all of it.
	Text    string          `json:"text,omitempty"`
	Digest  string          `json:"digest,omitempty"`
	Payload json.RawMessage `json:"payload,omitempty"`
	// Calls are the tool calls of a recent run, MoreCalls says that there are
	// more of them, Compacted that its log has none any more, and Damaged that
	// something of the message or its calls cannot be read.
	Calls     []json.RawMessage `json:"calls,omitempty"`
	MoreCalls bool              `json:"more_calls,omitempty"`
	Compacted bool              `json:"compacted,omitempty"`
	Damaged   bool              `json:"damaged,omitempty"`
}

// ThreadPage is a page of a thread, oldest message first; Before is what to ask
// with for the page before it, 0 for none.
type ThreadPage struct {
	Thread   string    `json:"thread"`
	Messages []Message `json:"messages"`
	Before   uint64    `json:"before,omitempty"`
}

// Posted answers a post: it is durable.
type Posted struct {
	LSN      uint64 `json:"lsn"`
	Replayed bool   `json:"replayed,omitempty"`
}

// Threads lists the threads behind a name. It needs an owner, as the following
// do.
func (c *Client) Threads(ctx context.Context, after string, limit int) (ThreadList, error) {
	v := url.Values{}
	if after != "" {
		v.Set("after", after)
	}
	if limit > 0 {
		v.Set("limit", strconv.Itoa(limit))
	}
	var l ThreadList
	_, err := c.answer(ctx, &call{method: http.MethodGet, path: "/v1/threads", query: v, repeatable: true}, &l)
	return l, err
}

func threadPath(name string) string { return "/v1/threads/" + url.PathEscape(name) }

// Thread reads the newest messages of a thread, or those before an LSN.
func (c *Client) Thread(ctx context.Context, name string, before uint64, limit int) (ThreadPage, error) {
	v := url.Values{}
	if before > 0 {
		v.Set("before", strconv.FormatUint(before, 10))
	}
	if limit > 0 {
		v.Set("limit", strconv.Itoa(limit))
	}
	var p ThreadPage
	_, err := c.answer(ctx, &call{method: http.MethodGet, path: threadPath(name), query: v, repeatable: true}, &p)
	return p, err
}

// Post adds a user's turn, any JSON, to a thread. The same key and message again
// answers the first; where key is "", one is made up.
func (c *Client) Post(ctx context.Context, name string, message json.RawMessage, key string) (Posted, error) {
	k, err := jsonCall(http.MethodPost, threadPath(name)+"/messages", map[string]json.RawMessage{"message": message})
	if err != nil {
		return Posted{}, err
	}
	if key == "" {
		key = rand.Text()
	}
	k.header.Set(HeaderIdempotencyKey, key)
	k.repeatable = true
	var p Posted
	_, err = c.answer(ctx, k, &p)
	return p, err
}
