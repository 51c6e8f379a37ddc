package server

import (
	"strings"
	"testing"

	"durafs/control"
)

// TestOutbox: what a sink has not taken is listed, over pages, and an owner has
// it tried again or gives it up.
func TestOutbox(t *testing.T) {
	d := serveStore(t)
	for range 3 {
		e := d.example(control.StartRequest{})
		must(t)(d.client().WithWriter(e.token).Settle(t.Context(), e.id, control.SettleRequest{Status: "failure"}))
	}
	all, err := d.client().Outbox(t.Context())
	if err != nil || len(all) != 3 || all[0].State != "waiting" || all[0].Sink != "mail" || !all[0].Configured {
		t.Fatalf("%+v, %v", all, err)
	}
	if a := d.do("GET", "/v1/outbox?limit=1", ""); a.status != 200 || strings.Count(a.body, `"sink"`) != 1 || !strings.Contains(a.body, `"next":"`) {
		t.Errorf("a page is %s", a.body)
	}
	got, err := d.client().RetryDelivery(t.Context(), all[1].ID)
	if err != nil || !got.Replayed || got.ID != all[1].ID {
		t.Errorf("a retry of what did not fail: %+v, %v", got, err)
	}
	got, err = d.client().DropDelivery(t.Context(), all[1].ID)
	if err != nil || got.ID != all[1].ID {
		t.Errorf("a drop: %+v, %v", got, err)
	}
	d.restart()
	if all, err = d.client().Outbox(t.Context()); err != nil || len(all) != 2 {
		t.Errorf("after a drop and a restart: %+v, %v", all, err)
	}
	for _, verb := range []string{"retry", "drop"} {
		if a := d.do("POST", "/v1/outbox/"+got.ID+"/"+verb, ""); a.status != 404 || !strings.Contains(a.body, "unknown-delivery") {
			t.Errorf("%s of what is gone: %d %s", verb, a.status, a.body)
		}
		if a := d.do("POST", "/v1/outbox/"+all[0].ID+"/"+verb, `{"x":1}`, "Content-Type", "application/json"); a.status != 400 {
			t.Errorf("%s with a field that there is not: %d %s", verb, a.status, a.body)
		}
	}
}
