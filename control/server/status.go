package server

import (
	_ "embed"
	"encoding/json"
	"net/http"

	"durafs/control"
)

//go:embed openapi.json
var openapiJSON []byte

// openapi is GET /v1/openapi.json.
func (r *request) openapi() error {
	r.send(http.StatusOK, jsonType, openapiJSON)
	return nil
}

// status is GET /v1/status: the daemon's account of itself, with the API's
// number in front.
func (r *request) status() error {
	b, err := json.Marshal(r.s.opt.Status())
	if err != nil {
		return err
	}
	out := []byte(`{"api":` + control.APIVersion)
	if rest := b[1:]; string(rest) != "}" {
		out = append(out, ',')
		out = append(out, rest...)
	} else {
		out = append(out, '}')
	}
	r.send(http.StatusOK, jsonType, append(out, '\n'))
	return nil
}

// healthz is GET /healthz.
func (r *request) healthz() error {
	if r.s.isClosing() {
		return problem(http.StatusServiceUnavailable, control.CodeShuttingDown, "the daemon is going down")
	}
	if err := r.s.opt.Healthy(); err != nil {
		return problem(http.StatusServiceUnavailable, control.CodeDegraded, err.Error())
	}
	return r.answer(http.StatusOK, control.Health{OK: true})
}

// metrics is GET /metrics.
func (r *request) metrics() error {
	if r.s.opt.Metrics == nil {
		return noRoute(r)
	}
	r.began = true
	r.readerMayTake()
	r.s.opt.Metrics.ServeHTTP(r.w, r.Request)
	return nil
}
