package server

import (
	"net/http"
	"strings"

	"durafs/control"
	"durafs/runs"
)

// listLimitMax is the largest page.
const listLimitMax = 1000

// list is GET /v1/runs.
func (r *request) list() error {
	v := r.query([]string{"thread", "phase", "parent", "q", "after", "limit"}, "label")
	q := runs.ListQuery{
		Thread: v.str("thread"), Phase: v.str("phase"), Parent: v.str("parent"),
		Text: v.str("q"), After: v.str("after"), Limit: int(v.num("limit", listLimitMax)),
		Labels: v.labels(),
	}
	if v.err != nil {
		return v.err
	}
	page, err := r.s.runs.List(r.caller, q)
	if err != nil {
		return err
	}
	if page.Runs == nil {
		page.Runs = []*runs.Record{}
	}
	return r.answer(http.StatusOK, struct {
		Runs   []*runs.Record `json:"runs"`
		Next   string         `json:"next,omitempty"`
		Policy runs.Policy    `json:"policy"`
	}{page.Runs, page.Next, page.Policy})
}

func (q *query) labels() runs.Labels {
	var labels runs.Labels
	for _, l := range q.v["label"] {
		name, value, ok := strings.Cut(l, "=")
		if _, twice := labels[name]; !ok || twice {
			q.bad("label", "a label is given as name=value, each name once")
			return nil
		}
		if labels == nil {
			labels = runs.Labels{}
		}
		labels[name] = value
	}
	return labels
}

// get is GET /v1/runs/{id}.
func (r *request) get() error {
	rec, tag, err := r.s.runs.Get(r.caller, r.PathValue("id"))
	if err != nil {
		return err
	}
	r.etag(tag)
	return r.answer(http.StatusOK, rec)
}

// beat is POST /v1/runs/{id}/heartbeat. A body may be left out.
func (r *request) beat() error {
	var body control.Beat
	if r.ContentLength != 0 {
		if err := r.envelope(&body); err != nil {
			return err
		}
	}
	rec, err := r.s.runs.Beat(r.Context(), r.caller, r.PathValue("id"), body.Note)
	if err != nil {
		return err
	}
	return r.answer(http.StatusOK, struct {
		Record *runs.Record `json:"record"`
		Abort  bool         `json:"abort"`
	}{rec, rec.Cancel != nil})
}
