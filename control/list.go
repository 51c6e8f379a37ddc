package control

import (
	"context"
	"iter"
	"net/http"
	"net/url"
	"slices"
	"strconv"
)

// Get reads a run's record, and its ETag for SettleRequest.IfMatch.
func (c *Client) Get(ctx context.Context, id string) (*Record, string, error) {
	var r Record
	h, err := c.answer(ctx, &call{method: http.MethodGet, path: runPath(id), repeatable: true}, &r)
	if err != nil {
		return nil, "", err
	}
	return &r, h.Get("ETag"), nil
}

// List reads a page of records, newest first. An agent sees the runs that its
// uid started, an owner all.
func (c *Client) List(ctx context.Context, q ListQuery) (Page, error) {
	var p Page
	_, err := c.answer(ctx, &call{method: http.MethodGet, path: "/v1/runs", query: q.values(), repeatable: true}, &p)
	return p, err
}

// All reads all pages of a list, one after the other, from q.After on. An
// error ends it.
func (c *Client) All(ctx context.Context, q ListQuery) iter.Seq2[*Record, error] {
	return func(yield func(*Record, error) bool) {
		for {
			p, err := c.List(ctx, q)
			if err != nil {
				yield(nil, err)
				return
			}
			for _, r := range p.Runs {
				if !yield(r, nil) {
					return
				}
			}
			if q.After = p.Next; q.After == "" {
				return
			}
		}
	}
}

func (q ListQuery) values() url.Values {
	v := url.Values{}
	set := func(name, value string) {
		if value != "" {
			v.Set(name, value)
		}
	}
	set("thread", q.Thread)
	set("phase", q.Phase)
	set("parent", q.Parent)
	set("q", q.Text)
	set("after", q.After)
	for name, value := range q.Labels {
		v.Add("label", name+"="+value)
	}
	slices.Sort(v["label"])
	if q.Limit != 0 {
		v.Set("limit", strconv.Itoa(q.Limit))
	}
	return v
}
