package server

import (
	"encoding/json"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"testing"

	"durafs/control"
)

// description is openapi.json as far as this test needs it.
type description struct {
	Paths      map[string]map[string]json.RawMessage `json:"paths"`
	Components struct {
		Schemas map[string]*schema `json:"schemas"`
	} `json:"components"`
}

type operation struct {
	ID          string                `json:"operationId"`
	Security    []map[string][]string `json:"security"`
	Examples    map[string]getExample `json:"x-examples"`
	RequestBody struct {
		Content map[string]struct {
			Schema   *schema `json:"schema"`
			Examples map[string]struct {
				Value  json.RawMessage `json:"value"`
				Status int             `json:"x-status"`
			} `json:"examples"`
		} `json:"content"`
	} `json:"requestBody"`
	Responses map[string]struct {
		Content map[string]struct {
			Schema *schema `json:"schema"`
		} `json:"content"`
	} `json:"responses"`
}

// getExample is a request without a body.
type getExample struct {
	Query  string            `json:"query"`
	Name   string            `json:"name"`
	Header map[string]string `json:"header"`
	Status int               `json:"x-status"`
	// Stream is true for an answer without end: its first event is checked.
	Stream bool `json:"x-stream"`
}

func describe(t *testing.T) (description, map[string]operation) {
	t.Helper()
	var d description
	if err := json.Unmarshal(openapiJSON, &d); err != nil {
		t.Fatal(err)
	}
	ops := map[string]operation{}
	for path, item := range d.Paths {
		for method, raw := range item {
			if method == "parameters" {
				continue
			}
			var op operation
			if err := json.Unmarshal(raw, &op); err != nil {
				t.Fatalf("%s %s: %v", method, path, err)
			}
			ops[strings.ToUpper(method)+" "+path] = op
		}
	}
	return d, ops
}

// TestDescriptionIsComplete: every route is described, with who may take it,
// and nothing else is.
func TestDescriptionIsComplete(t *testing.T) {
	_, ops := describe(t)
	security := map[need]string{
		needOwner:  `[{"owner":[]}]`,
		needWriter: `[{"writer":[]}]`,
		needAny:    `[{},{"writer":[]}]`,

		needResume: `[{"resume":[]}]`, needDispatcher: `[{"owner":[]},{"resume":[]}]`,
	}
	for _, rt := range routes {
		name := rt.method + " " + rt.pattern
		op, ok := ops[name]
		if !ok {
			t.Errorf("%s is not described", name)
			continue
		}
		if got, _ := json.Marshal(op.Security); string(got) != security[rt.need] {
			t.Errorf("%s: security %s, want %s", name, got, security[rt.need])
		}
		delete(ops, name)
	}
	for name := range ops {
		t.Errorf("%s is described and does not exist", name)
	}
}

// TestDescriptionIsTrue sends every example to a real daemon, each to a run of
// its own, and checks the answers.
func TestDescriptionIsTrue(t *testing.T) {
	d := serveStore(t)
	desc, ops := describe(t)
	x := validator{desc.Components.Schemas}
	if _, err := d.client().Post(t.Context(), "talk", []byte(`{"text":"hello"}`), ""); err != nil {
		t.Fatal(err)
	}
	for _, name := range slices.Sorted(maps.Keys(ops)) {
		op := ops[name]
		method, path, _ := strings.Cut(name, " ")
		sent := 0
		send := func(example string, status int, query, payload, contentType, body string, header map[string]string) {
			sent++
			t.Run(op.ID+" "+example, func(t *testing.T) {
				e := exampleRun(t, d, path)
				target := strings.NewReplacer("{id}", e.id, "{name}", payload, "{call}", "1", "{scope}", payload, "{target}", payload, "{thread}", payload).Replace(path)
				if query != "" {
					target += "?" + query
				}
				var h []string
				if contentType != "" {
					h = append(h, "Content-Type", contentType)
				}
				if len(op.Security) == 1 && op.Security[0]["writer"] != nil {
					h = append(h, control.HeaderWriter, e.token)
				}
				for k, v := range header {
					h = append(h, k, v)
				}
				h = append(h, e.header...)
				checkAnswer(t, x, op, status, d.do(method, target, body, h...))
			})
		}
		for example, e := range op.Examples {
			if e.Stream {
				sent++
				t.Run(op.ID+" "+example, func(t *testing.T) {
					d.run()
					checkAnswer(t, x, op, http.StatusOK, d.firstEvent(path+"?"+e.Query))
				})
				continue
			}
			send(example, e.Status, e.Query, e.Name, "", "", e.Header)
		}
		for contentType, c := range op.RequestBody.Content {
			for example, e := range c.Examples {
				body := string(e.Value)
				var text string
				if contentType != typeJSON && json.Unmarshal(e.Value, &text) == nil {
					body = text
				}
				if e.Status == 0 && contentType == typeJSON {
					var v any
					json.Unmarshal(e.Value, &v)
					if err := x.check(c.Schema, v, example); err != nil {
						t.Errorf("%s: the example is not as described: %v", op.ID, err)
					}
				}
				send(example, e.Status, "", url.PathEscape(example), strings.Replace(contentType, "*/*", "text/markdown", 1), body, nil)
			}
		}
		if sent == 0 {
			t.Errorf("%s has no example", name)
		}
	}
}

type example struct {
	id, token string
	header    []string // that the request needs besides
}

// exampleRun is a run with a row and a payload; with an open call where the path
// is about calls; for attach, one of a former boot.
func exampleRun(t *testing.T, d *realDaemon, path string) (e example) {
	t.Helper()
	if !strings.Contains(path, "{id}") {
		return e
	}
	if at, ok := lifecycleExamples[strings.TrimPrefix(path, "/v1/runs/{id}")]; ok {
		return at(t, d)
	}
	e.id, e.token = d.run()
	w := d.client().WithWriter(e.token)
	if _, err := w.Append(t.Context(), e.id, []byte(`{"n":0}`), ""); err != nil {
		t.Fatal(err)
	}
	if _, err := w.Put(t.Context(), e.id, "existing", "text/plain", strings.NewReader("bytes")); err != nil {
		t.Fatal(err)
	}
	if strings.Contains(path, "{call}") || strings.HasSuffix(path, "/history") {
		if _, err := w.Claim(t.Context(), e.id, control.ClaimRequest{CallID: "c", Name: "t", Safety: "read-only"}); err != nil {
			t.Fatal(err)
		}
	}
	if strings.HasSuffix(path, "/attach") {
		d.restart()
	}
	return e
}

// checkAnswer checks an answer against the response that is described for its
// status: status if that is given, else any below 300.
func checkAnswer(t *testing.T, x validator, op operation, status int, a answer) {
	t.Helper()
	if status == 0 && a.status >= 300 || status != 0 && a.status != status {
		t.Fatalf("%d %s", a.status, a.body)
	}
	r, ok := op.Responses[strconv.Itoa(a.status)]
	if !ok && a.status >= 400 {
		r, ok = op.Responses["default"]
	}
	if !ok {
		t.Fatalf("%d is not described", a.status)
	}
	contentType, _, _ := strings.Cut(a.header.Get("Content-Type"), ";")
	c, ok := r.Content[contentType]
	if !ok {
		c, ok = r.Content["*/*"]
	}
	if !ok {
		t.Fatalf("an answer of type %q is not described", contentType)
	}
	docs := []string{a.body}
	switch {
	case contentType == control.TypeEvents:
		_, data, ok := strings.Cut(strings.TrimSpace(a.body), "\ndata: ")
		if !ok {
			t.Fatalf("no event: %s", a.body)
		}
		docs = []string{data}
	case contentType == typeNDJSON:
		docs = slices.Collect(strings.Lines(a.body))
	case !strings.Contains(contentType, "json"):
		return
	}
	for _, doc := range docs {
		var v any
		if err := json.Unmarshal([]byte(doc), &v); err != nil {
			t.Fatalf("%q: %v", doc, err)
		}
		if err := x.check(c.Schema, v, "answer"); err != nil {
			t.Errorf("%v\n%s", err, doc)
		}
	}
}
