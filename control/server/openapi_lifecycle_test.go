package server

import (
	"testing"

	"durafs/control"
)

// lifecycleExamples make runs that are where the examples of some routes need
// them.
var lifecycleExamples = map[string]func(t *testing.T, d *realDaemon) example{
	"/abort": func(t *testing.T, d *realDaemon) example {
		e := d.example(control.StartRequest{})
		must(t)(d.client().Cancel(t.Context(), e.id, control.CancelRequest{}))
		return e
	},
	"/copy": func(t *testing.T, d *realDaemon) example {
		e := d.example(control.StartRequest{Labels: map[string]string{"thread": "demo"}})
		w := d.client().WithWriter(e.token)
		must(t)(w.Claim(t.Context(), e.id, control.ClaimRequest{CallID: "c", Name: "t"}))
		must(t)(w.Outcome(t.Context(), e.id, 1, []byte(`{"status":"ok"}`), []byte(oneText)))
		return e
	},
	"/pause": func(t *testing.T, d *realDaemon) example {
		return d.example(control.StartRequest{Binding: &control.Binding{Provider: "p", Model: "m", Scope: "s"}})
	},
	"/resume/prepare": func(t *testing.T, d *realDaemon) example {
		e := d.example(control.StartRequest{})
		must(t)(d.client().WithWriter(e.token).Claim(t.Context(), e.id, control.ClaimRequest{CallID: "c", Name: "t"}))
		d.restart()
		_, tag, err := d.client().Get(t.Context(), e.id)
		must(t)(tag, err)
		e.header = []string{"If-Match", tag}
		return e
	},
	"/v1/outbox/{id}/retry": delivery,
	"/v1/outbox/{id}/drop":  delivery,
	"/resume/activate":      prepared,
	"/resume/fail":          prepared,
	"/resume/request": func(_ *testing.T, d *realDaemon) example {
		return d.example(control.StartRequest{ResumeRequest: []byte("go on with this")})
	},
}

// delivery is one that waits.
func delivery(t *testing.T, d *realDaemon) example {
	e := d.example(control.StartRequest{})
	must(t)(d.client().WithWriter(e.token).Settle(t.Context(), e.id, control.SettleRequest{Status: "success"}))
	all, err := d.client().Outbox(t.Context())
	must(t)(all, err)
	e.id = all[len(all)-1].ID
	return e
}

func prepared(t *testing.T, d *realDaemon) example {
	e := d.example(control.StartRequest{Binding: &control.Binding{Provider: "p", Model: "m"}})
	d.restart()
	e.header = []string{control.HeaderResume, d.prepare(e.id, control.PrepareRequest{Force: true}).Resume}
	return e
}

func (d *realDaemon) example(r control.StartRequest) example {
	d.t.Helper()
	s, err := d.client().Start(d.t.Context(), r)
	if err != nil {
		d.t.Fatal(err)
	}
	return example{id: s.Record.ID, token: s.Writer}
}

// prepare prepares a run as it is now.
func (d *realDaemon) prepare(id string, r control.PrepareRequest) control.Prepared {
	d.t.Helper()
	_, tag, err := d.client().Get(d.t.Context(), id)
	if err != nil {
		d.t.Fatal(err)
	}
	r.IfMatch = tag
	p, err := d.client().Prepare(d.t.Context(), id, r)
	if err != nil {
		d.t.Fatalf("prepare: %v", err)
	}
	return p
}

// must fails the test at an error.
func must(t *testing.T) func(_ any, err error) {
	t.Helper()
	return func(_ any, err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
}
