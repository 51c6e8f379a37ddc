package control

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
)

// Target is where a journal is kept: master, which is always there, or
// agent:NAME, background:NAME or site:ORIGIN where an owner has enrolled it.
type Target struct {
	Name       string `json:"name"`
	Generation uint64 `json:"generation"` // raised by each change
	Enrolled   bool   `json:"enrolled"`
	Replayed   bool   `json:"replayed,omitempty"` // there was nothing to change
}

func targetPath(name string) string { return "/v1/targets/" + url.PathEscape(name) }

// Targets lists master and every target that was ever enrolled, sorted. It needs
// an owner, as the following do.
func (c *Client) Targets(ctx context.Context) ([]Target, error) {
	var a struct {
		Targets []Target `json:"targets"`
	}
	_, err := c.answer(ctx, &call{method: http.MethodGet, path: "/v1/targets", repeatable: true}, &a)
	return a.Targets, err
}

// Target tells of one target.
func (c *Client) Target(ctx context.Context, name string) (Target, error) {
	return c.target(ctx, http.MethodGet, name)
}

// Enrol enrols a target, durably: runs may name it.
func (c *Client) Enrol(ctx context.Context, name string) (Target, error) {
	return c.target(ctx, http.MethodPut, name)
}

// Disenrol takes that back. Its journal stays as it is.
func (c *Client) Disenrol(ctx context.Context, name string) (Target, error) {
	return c.target(ctx, http.MethodDelete, name)
}

func (c *Client) target(ctx context.Context, method, name string) (Target, error) {
	var t Target
	_, err := c.answer(ctx, &call{method: method, path: targetPath(name), repeatable: true}, &t)
	return t, err
}

// Journal reads the rows of a target's journal above the LSN after, oldest
// first: JSON objects, each with its lsn.
func (c *Client) Journal(ctx context.Context, target string, after uint64) ([]json.RawMessage, error) {
	k := &call{method: http.MethodGet, path: "/v1/journal/" + url.PathEscape(target), query: url.Values{}, repeatable: true}
	if after > 0 {
		k.query.Set("after", strconv.FormatUint(after, 10))
	}
	resp, err := c.do(ctx, k)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(io.LimitReader(resp.Body, answerBytesMax))
	if err != nil {
		return nil, k.broken(err)
	}
	var rows []json.RawMessage
	for line := range bytes.Lines(b) {
		line = bytes.TrimSuffix(line, []byte("\n"))
		if !json.Valid(line) {
			return nil, fmt.Errorf("control: a row of the journal is not JSON: %.200q", line)
		}
		rows = append(rows, line)
	}
	return rows, nil
}
