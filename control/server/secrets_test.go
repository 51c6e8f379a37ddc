package server

import (
	"bytes"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"durafs/control"
)

// TestSecretsAreNotKept plants secrets where they could slip in, lets requests
// with them be taken and refused, and looks for them in the store's files, in
// the log of the daemon at its most talkative, and in the answers.
func TestSecretsAreNotKept(t *testing.T) {
	const (
		key    = "sk-ant-planted0123456789abcdef"
		env    = "planted-environment-value-7f3a"
		resume = "planted-resume-request-91c2"
	)
	t.Setenv("ANTHROPIC_API_KEY", env)
	t.Setenv(control.EnvWriter, env)
	var logged bytes.Buffer
	d := serveStore(t)
	d.stop()
	d.start(Options{
		Runs: d.store.Runs(), Status: func() any { return d.store.Status() }, Healthy: d.store.Healthy,
		Log: slog.New(slog.NewTextHandler(&syncWriter{w: &logged}, &slog.HandlerOptions{Level: slog.LevelDebug})),
	})
	s, err := d.client().Start(t.Context(), control.StartRequest{
		Task:           "call it with Authorization: Bearer " + key + " and api_key=" + key,
		ResumeRequest:  []byte(resume),
		IdempotencyKey: "planted-idempotency-key-55d0",
	})
	if err != nil {
		t.Fatal(err)
	}
	id, token := s.Record.ID, s.Writer
	run, w := "/v1/runs/"+id, control.HeaderWriter
	var answers strings.Builder
	ask := func(method, path, body string, header ...string) {
		a := d.do(method, path, body, header...)
		fmt.Fprintf(&answers, "%s %s: %d %v %s\n", method, path, a.status, a.header, a.body)
	}
	wrong := token[:63] + map[bool]string{true: "0", false: "1"}[token[63] != '0']
	ask("POST", "/v1/runs", `{"binding":{"provider":"p","model":"m","scope":"s","local":false,"api_key":"`+key+`"}}`, "Content-Type", typeJSON)
	ask("POST", "/v1/runs", `{"binding":{"provider":"p","model":"m","scope":"s","local":"`+key+`"}}`, "Content-Type", typeJSON)
	ask("POST", "/v1/runs", `{"resume_request_b64":"`+key+`!"}`, "Content-Type", typeJSON)
	for _, tok := range []string{token, wrong} {
		ask("POST", run+"/log", `{"a":1}`, "Content-Type", typeJSON, w, tok)
		ask("POST", run+"/log", "{\"a\":2}\n{\"key\":"+key+"}\n", "Content-Type", typeNDJSON, w, tok)
		ask("PUT", run+"/payloads/p", "bytes", w, tok)
		ask("PUT", run+"/payloads/p", "other", w, tok)
		ask("POST", run+"/heartbeat", "", w, tok)
		ask("POST", run+"/attach", `{}`, "Content-Type", typeJSON, w, tok)
		ask("GET", run, "", w, tok)
		ask("GET", run+"/log", "", w, tok)
		ask("GET", run+"/payloads/.resume-request", "", w, tok)
		ask("POST", run+"/settle", `{"status":"success"}`, "Content-Type", typeJSON, w, tok, "If-Match", `"1-99"`)
		ask("POST", run+"/settle", `{"status":"success","summary":"done"}`, "Content-Type", typeJSON, w, tok)
		ask("POST", run+"/settle", `{"status":"failure"}`, "Content-Type", typeJSON, w, tok)
	}
	for _, path := range []string{run, run + "/log", "/v1/runs", "/v1/status", "/healthz", run + "/payloads/.resume-request"} {
		ask("GET", path, "")
	}
	d.restart() // the files are closed
	ask("GET", run, "")
	d.close()

	found := func(where string, b []byte, secrets ...string) {
		t.Helper()
		for _, secret := range secrets {
			if bytes.Contains(b, []byte(secret)) {
				t.Errorf("%s has %s", where, secret)
			}
		}
	}
	found("an answer", []byte(answers.String()), key, env, resume, token, wrong, "planted-idempotency")
	found("the daemon's log", logged.Bytes(), key, env, resume, token, wrong, "planted-idempotency")
	kept := 0
	err = filepath.WalkDir(filepath.Join(d.dir, "store"), func(path string, e fs.DirEntry, err error) error {
		if err != nil || !e.Type().IsRegular() {
			return err
		}
		b, err := os.ReadFile(path)
		found(path, b, key, env, token, wrong, "planted-idempotency")
		kept += bytes.Count(b, []byte(resume))
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if kept != 1 {
		t.Errorf("the resume request is in the store %d times", kept) // the test sees what is there
	}
	if !strings.Contains(answers.String(), `"acked":1`) || !strings.Contains(answers.String(), "[masked]") {
		t.Errorf("the requests were not taken as meant:\n%s", answers.String())
	}
}

// syncWriter is a buffer for several goroutines.
type syncWriter struct {
	mu sync.Mutex
	w  *bytes.Buffer
}

func (s *syncWriter) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.w.Write(p)
}
