package server

import (
	"bytes"
	"encoding/json"
	"net/http"
	"strconv"

	"durafs/control"
)

var (
	jsonType    = []string{control.TypeJSON}
	ndjsonType  = []string{control.TypeNDJSON}
	problemType = []string{control.TypeProblem}
)

// answer sends v as the whole answer.
func (r *request) answer(status int, v any) error {
	b, err := encode(v)
	if err != nil {
		return err
	}
	r.send(status, jsonType, b)
	return nil
}

// encode is v as a line of JSON. Inside of it what agents sent keeps its bytes:
// a < stays one.
func encode(v any) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	err := e.Encode(v)
	return b.Bytes(), err
}

// send sends the whole answer. A reader who is gone is nobody to tell.
func (r *request) send(status int, contentType []string, b []byte) {
	h := r.w.Header()
	h["Content-Type"] = contentType
	h["Content-Length"] = []string{strconv.Itoa(len(b))}
	r.began = true
	r.readerMayTake()
	r.w.WriteHeader(status)
	if r.Method != http.MethodHead {
		r.w.Write(b)
	}
}

// etag sets the entity tag; the domain's are bare, HTTP's are quoted.
func (r *request) etag(tag string) {
	if tag != "" {
		r.w.Header()["Etag"] = []string{quoted(tag)}
	}
}

func quoted(tag string) string {
	if len(tag) >= 2 && tag[0] == '"' {
		return tag
	}
	return `"` + tag + `"`
}

// fail answers an error, by the one table.
func (r *request) fail(err error) {
	p := problemOf(err)
	switch {
	case p.Status >= 500:
		r.s.stats.failed.Add(1)
		r.s.log.Warn("request failed", "method", r.Method, "path", r.URL.Path, "code", p.Code, "err", err)
	default:
		r.s.stats.refused.Add(1)
	}
	if p.Code == control.CodeSlowSender {
		r.s.stats.cut.Add(1)
	}
	r.w.Header().Del("Etag")
	if s := retryAfterSeconds(p); s > 0 {
		r.w.Header().Set("Retry-After", strconv.FormatInt(s, 10))
	}
	if p.ETag != "" {
		p.ETag = quoted(p.ETag)
	}
	r.failed = true
	if r.ContentLength != 0 && !r.over {
		r.ctl.EnableFullDuplex() // the answer does not wait for the rest of the body
		r.w.Header().Set("Connection", "close")
	}
	b, _ := encode(p) // strings, numbers, and JSON that was decoded before
	r.send(p.Status, problemType, b)
}

// retryAfterSeconds is what the header says of when to try again, 0 for nothing.
func retryAfterSeconds(p *control.Problem) int64 {
	switch {
	case p.RetryAfterMS > 0:
		return (p.RetryAfterMS + 999) / 1000
	case p.Status == http.StatusServiceUnavailable && p.Retryable:
		return 1
	}
	return 0
}

// problem makes a problem; its title goes with its code.
func problem(status int, code, detail string) *control.Problem {
	return &control.Problem{
		Type: control.ProblemType(code), Title: titleOf(code),
		Status: status, Code: code, Detail: detail,
	}
}
