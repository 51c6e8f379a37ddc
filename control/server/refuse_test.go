package server

import (
	"net/http"
	"strings"
	"testing"

	"durafs/control"
	"durafs/runs"
)

// TestRefused sends what must not be taken: each is its own clear 4xx and
// changes nothing.
func TestRefused(t *testing.T) {
	d := serve(t, newFake(), func(o *Options) { o.Limits.RowBytesMax = 1 << 20 })
	id, token := d.run()
	w := []string{control.HeaderWriter, token}
	js := []string{"Content-Type", typeJSON}
	jw := append(w, js...)
	run := "/v1/runs/" + id
	big := strings.Repeat("x", 1<<20)
	for _, c := range []struct {
		name, method, path, body string
		header                   []string
		status                   int
		code                     string
	}{
		{"no content type", "POST", "/v1/runs", `{}`, nil, 415, control.CodeContentType},
		{"form", "POST", "/v1/runs", `{}`, []string{"Content-Type", "application/x-www-form-urlencoded"}, 415, control.CodeContentType},
		{"charset", "POST", "/v1/runs", `{}`, []string{"Content-Type", "application/json; charset=latin1"}, 415, control.CodeContentType},
		{"two content types", "POST", "/v1/runs", `{}`, []string{"Content-Type", typeJSON, "Content-Type", "text/plain"}, 415, control.CodeContentType},
		{"empty body", "POST", "/v1/runs", ``, js, 400, control.CodeBadJSON},
		{"array", "POST", "/v1/runs", `[]`, js, 400, control.CodeBadJSON},
		{"unknown field", "POST", "/v1/runs", `{"lease":1}`, js, 400, control.CodeUnknownField},
		{"unknown in binding", "POST", "/v1/runs", `{"binding":{"provider":"p","key":"sk"}}`, js, 400, control.CodeUnknownField},
		{"duplicate name", "POST", "/v1/runs", `{"task":"a","task":"a"}`, js, 400, control.CodeDuplicateName},
		{"duplicate label", "POST", "/v1/runs", `{"labels":{"a":"1","a":"2"}}`, js, 400, control.CodeDuplicateName},
		{"trailing bytes", "POST", "/v1/runs", `{}{}`, js, 400, control.CodeTrailingBytes},
		{"body over the bound", "POST", "/v1/runs", `{"task":"` + big + `"}`, js, 413, control.CodeBodyTooLarge},
		{"lease negative", "POST", "/v1/runs", `{"lease_ms":-1}`, js, 400, string(runs.BadLease)},
		{"not base64", "POST", "/v1/runs", `{"resume_request_b64":"*"}`, js, 400, control.CodeBadField},
		{"two keys", "POST", "/v1/runs", `{}`, append([]string{"Idempotency-Key", "a", "Idempotency-Key", "b"}, js...), 400, control.CodeBadHeader},
		{"id empty", "POST", "/v1/runs", `{"id":""}`, js, 400, string(runs.BadID)},
		{"id ..", "POST", "/v1/runs", `{"id":".."}`, js, 400, string(runs.BadID)},
		{"id slash", "POST", "/v1/runs", `{"id":"exec_a/b"}`, js, 400, string(runs.BadID)},
		{"id NUL", "POST", "/v1/runs", `{"id":"exec_\u0000"}`, js, 400, string(runs.BadID)},
		{"id proto", "POST", "/v1/runs", `{"id":"__proto__"}`, js, 400, string(runs.BadID)},
		{"id upper case", "POST", "/v1/runs", `{"id":"0190A7F3-0000-7000-8000-00000000000A"}`, js, 400, string(runs.BadID)},
		{"id 10 KB", "POST", "/v1/runs", `{"id":"exec_` + big[:10<<10] + `"}`, js, 400, string(runs.BadID)},
		{"path id empty", "GET", "/v1/runs//log", ``, nil, 400, control.CodeBadPath},
		{"path id slash", "GET", "/v1/runs/a%2fb/log", ``, nil, 400, string(runs.BadID)},
		{"path id NUL", "GET", "/v1/runs/exec_%00/log", ``, nil, 400, string(runs.BadID)},
		{"path id proto", "GET", "/v1/runs/__proto__", ``, nil, 400, string(runs.BadID)},
		{"path id upper case", "GET", "/v1/runs/0190A7F3-0000-7000-8000-00000000000A", ``, nil, 400, string(runs.BadID)},
		{"path id 10 KB", "GET", "/v1/runs/exec_" + big[:10<<10], ``, nil, 400, string(runs.BadID)},
		{"no such run", "GET", "/v1/runs/exec_none", ``, nil, 404, string(runs.UnknownRun)},

		{"no token", "POST", run + "/log", `{}`, js, 401, control.CodeWriterNeeded},
		{"wrong token", "POST", run + "/log", `{}`, append([]string{control.HeaderWriter, "x"}, js...), 403, string(runs.WrongToken)},
		{"row not an object", "POST", run + "/log", `[1]`, jw, 422, string(runs.RowNotObject)},
		{"row too large", "POST", run + "/log", `{"a":"` + big + `"}`, jw, 413, control.CodeRowTooLarge},
		{"row of another type", "POST", run + "/log", `{}`, append([]string{"Content-Type", "text/plain"}, w...), 415, control.CodeContentType},
		{"unknown parameter", "POST", run + "/log?keys=a", `{}`, jw, 400, control.CodeBadQuery},
		{"parameter twice", "POST", run + "/log?key=a&key=b", `{}`, jw, 400, control.CodeBadQuery},
		{"parameter not encoded", "GET", run + "/log?from=%zz", ``, nil, 400, control.CodeBadQuery},
		{"from not a number", "GET", run + "/log?from=one", ``, nil, 400, control.CodeBadQuery},
		{"from negative", "GET", run + "/log?from=-1", ``, nil, 400, control.CodeBadQuery},
		{"follow neither", "GET", run + "/log?follow=maybe", ``, nil, 400, control.CodeBadQuery},
		{"limit too large", "GET", "/v1/runs?limit=1001", ``, nil, 400, control.CodeBadQuery},
		{"label without value", "GET", "/v1/runs?label=a", ``, nil, 400, control.CodeBadQuery},
		{"stream: first row bad", "POST", run + "/log", "nope\n{}\n", append([]string{"Content-Type", typeNDJSON}, w...), 422, string(runs.RowNotObject)},
		{"stream: row too large", "POST", run + "/log", `{"a":"` + big + `"}`, append([]string{"Content-Type", typeNDJSON}, w...), 413, control.CodeRowTooLarge},
		{"stream: wrong token", "POST", run + "/log", "{}\n", []string{"Content-Type", typeNDJSON, control.HeaderWriter, "x"}, 403, string(runs.WrongToken)},
		{"settle: unknown field", "POST", run + "/settle", `{"status":"success","payload":{"text":"a","x":1}}`, jw, 400, control.CodeUnknownField},
		{"settle: two payloads", "POST", run + "/settle", `{"status":"success","payload":{"text":"a","b64":"YQ=="}}`, jw, 400, control.CodeBadField},
		{"settle: no payload in it", "POST", run + "/settle", `{"status":"success","payload":{}}`, jw, 400, control.CodeBadField},
		{"settle: unknown payload", "POST", run + "/settle", `{"status":"success","payload":{"name":"none"}}`, jw, 404, string(runs.UnknownPayload)},
		{"heartbeat: trailing", "POST", run + "/heartbeat", `{}x`, jw, 400, control.CodeTrailingBytes},
		{"attach: unknown", "POST", run + "/attach", `{"call":{}}`, jw, 400, control.CodeUnknownField},
		{"payload: no such", "GET", run + "/payloads/none", ``, nil, 404, string(runs.UnknownPayload)},
		{"payload: long type", "PUT", run + "/payloads/p", ``, append([]string{"Content-Type", "a/" + big[:300]}, w...), 400, control.CodeBadHeader},
	} {
		t.Run(c.name, func(t *testing.T) {
			a := d.do(c.method, c.path, c.body, c.header...)
			if a.status != c.status || a.code() != c.code {
				t.Errorf("got %d %s, want %d %s", a.status, a.body, c.status, c.code)
			}
		})
	}
	if got := d.f.logOf(id); got != "" || len(d.f.refs) != 1 || len(d.f.runs[id].payloads) != 0 {
		t.Errorf("something changed: log %q, %d runs, payloads %v", got, len(d.f.refs), d.f.runs[id].payloads)
	}
}

// TestRaw sends what no HTTP library would.
func TestRaw(t *testing.T) {
	d := serve(t, newFake())
	id, token := d.run()
	head := "POST /v1/runs/" + id + "/log HTTP/1.1\r\nHost: d\r\nContent-Type: application/json\r\n" + control.HeaderWriter + ": " + token + "\r\n"
	for name, c := range map[string]struct {
		raw    string
		status int
	}{
		"two lengths":              {head + "Content-Length: 2\r\nContent-Length: 3\r\n\r\n{} ", 400},
		"NUL in a header":          {head + "X: a\x00b\r\nContent-Length: 2\r\n\r\n{}", 400},
		"NUL in the token":         {"POST /v1/runs/" + id + "/log HTTP/1.1\r\nHost: d\r\n" + control.HeaderWriter + ": a\x00\r\nContent-Length: 0\r\n\r\n", 400},
		"NUL in the path":          {"GET /v1/runs/\x00 HTTP/1.1\r\nHost: d\r\n\r\n", 400},
		"space before the colon":   {head + "Content-Length : 2\r\n\r\n{}", 400},
		"bad chunk":                {head + "Transfer-Encoding: chunked\r\n\r\nzz\r\n{}\r\n0\r\n\r\n", 400},
		"unknown transfer coding":  {head + "Transfer-Encoding: gzip\r\n\r\n{}", 501},
		"header of 100 KB":         {head + "X: " + strings.Repeat("x", 100<<10) + "\r\n\r\n", 431},
		"HTTP/0.9":                 {"GET /v1/runs\r\n\r\n", 400},
		"no host":                  {"GET /healthz HTTP/1.1\r\n\r\n", 400},
		"body shorter than length": {head + "Content-Length: 2\r\nConnection: close\r\n\r\n{", 0},
	} {
		t.Run(name, func(t *testing.T) {
			if c.status == 0 {
				conn := d.dial()
				conn.Write([]byte(c.raw))
				conn.(interface{ CloseWrite() error }).CloseWrite()
				if a := readAnswer(t, conn); a.code() != control.CodeBodyIncomplete {
					t.Errorf("got %d %s", a.status, a.body)
				}
				return
			}
			conn := d.dial()
			conn.Write([]byte(c.raw)) // the answer may come before its end
			resp, err := http.ReadResponse(newReader(conn), nil)
			if err != nil || resp.StatusCode != c.status {
				t.Errorf("got %v, %v, want %d", resp, err, c.status)
			}
		})
	}
	if got := d.f.logOf(id); got != "" {
		t.Errorf("something was appended: %q", got)
	}
}

// TestUnreadStreamIsNoRequest: what follows a row that ended a stream is not
// taken for another request.
func TestUnreadStreamIsNoRequest(t *testing.T) {
	d := serve(t, newFake())
	id, token := d.run()
	c := d.dial()
	body := "{\"a\":1}\n" + strings.Repeat(" ", 64) + "\nnope\n"
	c.Write([]byte("POST /v1/runs/" + id + "/log HTTP/1.1\r\nHost: d\r\nContent-Type: application/x-ndjson\r\n" + control.HeaderWriter + ": " + token +
		"\r\nTransfer-Encoding: chunked\r\n\r\n" + chunk(body)))
	waitFor(t, "the row", func() bool { return d.f.logOf(id) != "" })
	c.Write([]byte("POST /v1/runs HTTP/1.1\r\nHost: d\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{}"))
	br := newReader(c)
	readAnswerFrom(t, br)
	if b, err := br.Peek(1); err == nil {
		t.Errorf("a second answer came: %q", b)
	}
	if len(d.f.refs) != 1 {
		t.Errorf("%d runs", len(d.f.refs))
	}
}
