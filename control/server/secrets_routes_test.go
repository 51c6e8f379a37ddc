package server

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io/fs"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/zeebo/blake3"

	"durafs/control"
	"durafs/view"
)

// ownBytes are the routes whose bodies are somebody's own words, kept as they
// are: what is planted in these is not looked for. A route that is not here must
// keep nothing of a body that has a field it does not know, or is no JSON.
var ownBytes = map[string]bool{
	"POST /v1/runs/{id}/log": true, "PUT /v1/runs/{id}/payloads/{name}": true,
	"POST /v1/runs/{id}/tools/{call}/outcome": true, "POST /v1/threads/{thread}/messages": true,
}

// TestSecretsOverAllRoutes sends to every route of the table, as an owner and
// with every token, requests that it takes and such as it refuses, with secrets
// where they do not belong: in headers, in fields that nobody knows, in JSON
// that breaks off. Then it looks for them in every answer, in the events, in the
// daemon's log at its most talkative, in the store's files, and in the whole
// mount. The tokens themselves, and what a record has of its own, are looked for
// there too.
func TestSecretsOverAllRoutes(t *testing.T) {
	const (
		key  = "sk-ant-planted0123456789abcdef"
		idem = "planted-idempotency-key-55d0"
		once = "planted-resume-request-91c2"
		env  = "planted-environment-value-7f3a"
	)
	t.Setenv("OPENAI_API_KEY", env)
	w := newTokenWorld(t)
	var logged bytes.Buffer
	w.stop()
	w.start(Options{
		Runs: w.store.Runs(), Status: func() any { return w.store.Status() }, Healthy: w.store.Healthy, Reset: resetExample, Compact: compactExample,
		Log: slog.New(slog.NewTextHandler(&syncWriter{w: &logged}, &slog.HandlerOptions{Level: slog.LevelDebug})),
	})
	if _, err := w.client().Enrol(t.Context(), "agent:hidden-target-3b1e"); err != nil {
		t.Fatal(err)
	}
	s, err := w.client().Start(t.Context(), control.StartRequest{
		ResumeRequest: []byte(once), IdempotencyKey: idem, Target: "agent:hidden-target-3b1e", Task: "use Bearer " + key,
		Labels: map[string]string{"thread": "t"},
	})
	if err != nil {
		t.Fatal(err)
	}
	ref, _ := w.store.Runs().Lookup(s.Record.ID)
	if info, err := w.store.Runs().PayloadInfo(ref, ".resume-request"); err == nil {
		t.Errorf("the resume request can be asked for as a payload: %+v", info)
	}
	events, stream := w.eventStream("/v1/events")
	defer events.Body.Close()
	var answers strings.Builder
	answers.WriteString(rawEvent(t, stream))

	tokens := []string{w.current, w.stale, w.used, w.unused, w.lost, w.others, s.Writer}
	tokenHeaders := [][]string{nil}
	for _, tok := range tokens {
		tokenHeaders = append(tokenHeaders, []string{control.HeaderWriter, tok}, []string{control.HeaderResume, tok})
	}
	refused, taken := 0, 0
	started, resumed := samples(t, s.Record.ID), samples(t, w.run)
	for _, name := range slices.Sorted(maps.Keys(started)) {
		if name == "GET /v1/events" {
			continue // it has no end: see events above
		}
		for n, smp := range []sample{started[name], resumed[name]} {
			for i, header := range tokenHeaders {
				if header != nil && (n == 0) != (header[1] == s.Writer) || testing.Short() && i%3 != 0 {
					continue // a token is sent to one of the two
				}
				for _, body := range plantedBodies(name, smp.body, key) {
					h := slices.Concat(smp.header, header, []string{"Idempotency-Key", idem + fmt.Sprint(i), "If-None-Match", key})
					method, _, _ := strings.Cut(name, " ")
					a := w.do(method, smp.path, body, h...)
					if a.status < 400 {
						taken++
					} else {
						refused++
					}
					if name == "GET /v1/runs/{id}/resume/request" {
						a.body = strings.ReplaceAll(a.body, once, "") // here it belongs
					}
					fmt.Fprintf(&answers, "%s: %d %v %s\n", name, a.status, a.header, a.body)
				}
			}
		}
	}
	if min(taken, refused) < 50 {
		t.Errorf("%d requests were taken, %d refused", taken, refused)
	}
	mount := mountText(t, w.realDaemon)
	// Another boot has told of all of it again, and the files are closed.
	w.restart()
	answers.WriteString(w.firstEvent("/v1/events").body)
	w.close()

	look := func(where string, text []byte, secrets ...string) {
		t.Helper()
		for _, secret := range secrets {
			if at := bytes.Index(text, []byte(secret)); at >= 0 {
				t.Errorf("%s has %s: …%s…", where, secret, text[max(0, at-200):min(len(text), at+100)])
			}
		}
	}
	sum := blake3.Sum256([]byte(once))
	private := []string{once, hex.EncodeToString(sum[:]), "target_gen"}
	never := append([]string{key, idem, env}, tokens...)
	look("an answer", []byte(answers.String()), slices.Concat(private, never)...)
	look("the daemon's log", logged.Bytes(), slices.Concat(private, never)...)
	look("the mount", mount, slices.Concat(private, never)...)
	err = filepath.WalkDir(filepath.Join(w.dir, "store"), func(path string, e fs.DirEntry, err error) error {
		if err != nil || !e.Type().IsRegular() {
			return err
		}
		b, err := os.ReadFile(path)
		look(path, b, never...)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(answers.String(), "[masked]") || len(mount) < 1000 {
		t.Errorf("the test looks at nothing: %d bytes of the mount", len(mount))
	}
}

// plantedBodies are bodies with a secret in them: one with a field that nobody
// knows, and one that breaks off; and the one that the route takes.
func plantedBodies(name, body, secret string) []string {
	if ownBytes[name] {
		return []string{body}
	}
	bodies := []string{body, `{"api_key":"` + secret}
	var fields map[string]json.RawMessage
	if json.Unmarshal([]byte(body), &fields) == nil && fields != nil {
		fields["api_key"], _ = json.Marshal(secret)
		b, _ := json.Marshal(fields)
		bodies = append(bodies, string(b))
	} else {
		bodies = append(bodies, `{"api_key":"`+secret+`"}`)
	}
	return bodies
}

// mountText is every name, link and file of the mount.
func mountText(t *testing.T, d *realDaemon) []byte {
	t.Helper()
	var all bytes.Buffer
	tree := view.New(d.store.Runs(), nil).FS()
	err := fs.WalkDir(tree, ".", func(path string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		fmt.Fprintln(&all, path)
		switch {
		case e.Type()&fs.ModeSymlink != 0:
			to, err := tree.ReadLink(path)
			fmt.Fprintln(&all, to)
			return err
		case e.Type().IsRegular():
			b, err := fs.ReadFile(tree, path)
			all.Write(b)
			return err
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
	return all.Bytes()
}
