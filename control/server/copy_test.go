package server

import (
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	"durafs/control"
)

// TestCopyRoute: an owner copies any run, an agent its own; what is left out of
// labels is the source's, and none is none.
func TestCopyRoute(t *testing.T) {
	d := serveStore(t)
	e := lifecycleExamples["/copy"](t, d)
	other := d.example(control.StartRequest{})
	copyOf := func(r control.CopyRequest) control.Started {
		t.Helper()
		s, err := d.client().Copy(t.Context(), e.id, r)
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	r := control.CopyRequest{Kind: control.CopyBranch, Call: 1, StartRequest: control.StartRequest{IdempotencyKey: "k"}}
	first := copyOf(r)
	if first.Record.CopiedFrom != e.id || first.Record.Labels["thread"] != "demo" || first.Writer == "" || first.ETag == "" {
		t.Errorf("the copy is %+v", first)
	}
	again := copyOf(r)
	if again.Record.ID != first.Record.ID || !again.Replayed || again.Epoch != 2 {
		t.Errorf("again it is %+v", again)
	}
	none := copyOf(control.CopyRequest{Kind: control.CopyBefore, Call: 1, StartRequest: control.StartRequest{Labels: map[string]string{}}})
	if len(none.Record.Labels) != 0 {
		t.Errorf("without labels it has %v", none.Record.Labels)
	}
	agents := filepath.Join(d.dir, "agent.sock")
	for _, c := range []struct {
		token string
		code  int
	}{{e.token, http.StatusCreated}, {other.token, http.StatusForbidden}, {"", http.StatusForbidden}} {
		header := []string{"Content-Type", "application/json"}
		if c.token != "" {
			header = append(header, control.HeaderWriter, c.token)
		}
		a := doOn(t, agents, "POST", "/v1/runs/"+e.id+"/copy", `{"kind":"branch","call":1}`, header...)
		if a.status != c.code || a.status == http.StatusCreated && !strings.Contains(a.body, `"copied_from":"`+e.id+`"`) {
			t.Errorf("with the token %.8q: %d %s", c.token, a.status, a.body)
		}
	}
	if a := d.do("POST", "/v1/runs/"+e.id+"/copy", `{"kind":"branch","call":1,"copied_from":"x"}`, "Content-Type", "application/json"); a.code() != control.CodeUnknownField {
		t.Errorf("an unknown field: %d %s", a.status, a.body)
	}
}
