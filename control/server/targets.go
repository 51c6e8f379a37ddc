package server

import (
	"math"
	"net/http"
	"strconv"

	"durafs/runs"
)

// journal is GET /v1/journal/{target}?after=: rows as NDJSON, oldest first, each
// with its LSN put first. A journal is bounded, so that this is all of it.
func (r *request) journal() error {
	q := r.query([]string{"after"})
	after := q.num("after", math.MaxUint64)
	if q.err != nil {
		return q.err
	}
	rows, err := r.s.runs.Journal(r.caller, r.PathValue("target"), after)
	if err != nil {
		return err
	}
	b := []byte{}
	for _, row := range rows {
		b = strconv.AppendUint(append(b, `{"lsn":`...), row.LSN, 10)
		b = append(append(append(b, ','), row.JSON[1:]...), '\n')
	}
	r.send(http.StatusOK, ndjsonType, b)
	return nil
}

// targetBody tells of one target.
type targetBody struct {
	runs.Target
	// Replayed: there was nothing to change.
	Replayed bool `json:"replayed,omitempty"`
}

// listTargets is GET /v1/targets.
func (r *request) listTargets() error {
	if q := r.query(nil); q.err != nil {
		return q.err
	}
	targets, err := r.s.runs.Targets(r.caller)
	if err != nil {
		return err
	}
	return r.answer(http.StatusOK, struct {
		Targets []runs.Target `json:"targets"`
	}{targets})
}

// getTarget is GET /v1/targets/{target}. One that was never enrolled is one that
// is not enrolled, of generation 0.
func (r *request) getTarget() error {
	t, err := r.target()
	if err != nil {
		return err
	}
	return r.answer(http.StatusOK, targetBody{Target: t})
}

func (r *request) target() (t runs.Target, err error) {
	if t.Name, err = runs.ParseTarget(r.PathValue("target")); err != nil {
		return t, err
	}
	targets, err := r.s.runs.Targets(r.caller)
	for _, have := range targets {
		if have.Name == t.Name {
			return have, err
		}
	}
	return t, err
}

// enrol is PUT /v1/targets/{target}.
func (r *request) enrol() error { return r.setTarget(true) }

// disenrol is DELETE /v1/targets/{target}.
func (r *request) disenrol() error { return r.setTarget(false) }

func (r *request) setTarget(enrolled bool) error {
	if r.ContentLength != 0 {
		if err := r.envelope(&struct{}{}); err != nil {
			return err
		}
	}
	before, err := r.target()
	if err != nil {
		return err
	}
	after, err := r.s.runs.Enrol(r.Context(), r.caller, before.Name, enrolled)
	if err != nil {
		return err
	}
	return r.answer(http.StatusOK, targetBody{after, before.Enrolled == enrolled})
}
