package server

import (
	"errors"
	"strings"
	"testing"

	"durafs/control"
)

// TestThreadsAndTargets: a conversation, its journal and its lock, over the
// socket, as the client gives them.
func TestThreadsAndTargets(t *testing.T) {
	d := serveStore(t)
	c, ctx := d.client(), t.Context()
	const site = "site:https://example.org"
	start := control.StartRequest{Target: site, Message: []byte(`"there?"`), Labels: map[string]string{"thread": "trip"}, Lock: "car", IdempotencyKey: "k"}
	_, err := c.Start(ctx, start)
	isProblem(t, err, "target-not-enrolled")
	if tg, err := c.Enrol(ctx, "site:HTTPS://Example.org:443/"); err != nil || tg.Name != site || !tg.Enrolled || tg.Replayed {
		t.Fatalf("%+v, %v", tg, err)
	}
	if tg, err := c.Enrol(ctx, site); err != nil || !tg.Replayed {
		t.Errorf("%+v, %v", tg, err)
	}
	s, err := c.Start(ctx, start)
	if err != nil {
		t.Fatal(err)
	}
	_, err = c.Start(ctx, control.StartRequest{Lock: "car", LockWaitMS: 1})
	if p := isProblem(t, err, "lock-held"); p.Holder != s.Record.ID || !p.Retryable {
		t.Errorf("%+v", p)
	}
	_, err = c.Start(ctx, control.StartRequest{Lock: "car", LockWaitMS: 1 << 40})
	isProblem(t, err, control.CodeBadField)
	answer := "yes, there"
	if _, err := c.WithWriter(s.Writer).Settle(ctx, s.Record.ID, control.SettleRequest{Status: control.Success, Payload: &control.TerminalPayload{Text: &answer}}); err != nil {
		t.Fatal(err)
	}
	first, err := c.Post(ctx, "trip", []byte(`{"text":"and back?"}`), "p")
	if err != nil {
		t.Fatal(err)
	}
	if p, err := c.Post(ctx, "trip", []byte(`{"text":"and back?"}`), "p"); err != nil || !p.Replayed || p.LSN != first.LSN {
		t.Errorf("%+v, %v", p, err)
	}
	_, err = c.Post(ctx, "trip", []byte(`{"text":"no"}`), "p")
	isProblem(t, err, "idempotency-mismatch")
	d.restart()
	page, err := c.Thread(ctx, "trip", 0, 0)
	if err != nil || len(page.Messages) != 3 {
		t.Fatalf("%+v, %v", page, err)
	}
	if m := page.Messages; string(m[0].Message) != `"there?"` || m[1].Text != answer || m[1].Run != s.Record.ID || m[2].LSN != first.LSN {
		t.Errorf("%+v", m)
	}
	last, err := c.Thread(ctx, "trip", 0, 1)
	if err != nil || len(last.Messages) != 1 || last.Before != first.LSN {
		t.Errorf("%+v, %v", last, err)
	}
	list, err := c.Threads(ctx, "", 0)
	if err != nil || len(list.Threads) != 1 || list.Threads[0].Messages != 3 || list.Next != "" {
		t.Errorf("%+v, %v", list, err)
	}
	rows, err := c.Journal(ctx, site, 0)
	if err != nil || len(rows) != 2 || !strings.Contains(string(rows[1]), `"type":"terminal"`) || !strings.HasPrefix(string(rows[0]), `{"lsn":`) {
		t.Errorf("%s, %v", rows, err)
	}
	if tg, err := c.Disenrol(ctx, site); err != nil || tg.Enrolled || tg.Generation != 2 {
		t.Errorf("%+v, %v", tg, err)
	}
	if all, err := c.Targets(ctx); err != nil || len(all) != 2 || all[0].Name != "master" {
		t.Errorf("%+v, %v", all, err)
	}
	agent := c.WithWriter(s.Writer)
	_, err = agent.Thread(ctx, "trip", 0, 0)
	_, err2 := agent.Journal(ctx, "master", 0)
	_, err3 := agent.Post(ctx, "trip", []byte(`1`), "")
	for _, err := range []error{err, err2, err3} {
		if p, ok := errors.AsType[*control.Problem](err); !ok || p.Status != 403 {
			t.Errorf("an agent got %v", err)
		}
	}
}
