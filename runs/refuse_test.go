package runs

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"
)

// TestRefusals: each rule has its code, and what breaks it changes nothing.
func TestRefusals(t *testing.T) {
	w := newWorld(t)
	other := w.start(StartRequest{ID: "exec_other", Lease: -1})
	done := w.start(StartRequest{ID: "exec_done"})
	done.mustSettle("answer")
	lost := w.start(StartRequest{ID: "exec_lost"})
	w.reopen()
	other.mustAttach()
	a := w.start(StartRequest{ID: "exec_a", IdempotencyKey: "key", BodyHash: [32]byte{1}})
	a.mustPut("p", "bytes")
	if _, err := w.s.Append(ctx, a.c, a.id, rowsOf(`{"k":"1"}`), "k"); err != nil {
		t.Fatal(err)
	}
	owner, agentC := Caller{Owner: true}, Caller{UID: 7}
	start := func(r StartRequest) error { _, err := w.s.Start(ctx, agentC, r); return err }
	app := func(c Caller, id, key string, rows ...string) error {
		_, err := w.s.Append(ctx, c, id, rowsOf(rows...), key)
		return err
	}
	put := func(c Caller, id, name string, src Source, ctype, body string) error {
		_, _, err := w.s.Put(ctx, c, id, name, src, ctype, strings.NewReader(body))
		return err
	}
	settle := func(a *agent, r SettleRequest) error { _, err := w.s.Settle(ctx, a.c, a.id, r); return err }
	beat := func(c Caller, id, note string) error { _, err := w.s.Beat(ctx, c, id, note); return err }
	attach := func(a *agent, calls map[uint64]string) error {
		_, err := w.s.Attach(ctx, a.c, a.id, AttachRequest{Calls: calls})
		return err
	}
	get := func(c Caller, id string) error { _, _, err := w.s.Get(c, id); return err }
	list := func(c Caller, q ListQuery) error { _, err := w.s.List(c, q); return err }
	uid := uint32(8)

	for _, tt := range []struct {
		name string
		code Code
		do   func() error
	}{
		{"start: bad id", BadID, func() error { return start(StartRequest{ID: ".."}) }},
		{"start: bad parent", BadID, func() error { return start(StartRequest{Parent: "x"}) }},
		{"start: bad label", BadLabel, func() error { return start(StartRequest{Labels: Labels{"": ""}}) }},
		{"start: bad binding", BadBinding, func() error { return start(StartRequest{Binding: &Binding{Model: strings.Repeat("x", 257)}}) }},
		{"start: bad lease", BadLease, func() error { return start(StartRequest{Lease: 25 * time.Hour}) }},
		{"start: part of a millisecond", BadLease, func() error { return start(StartRequest{Lease: time.Microsecond}) }},
		{"start: target", TargetNotEnrolled, func() error { return start(StartRequest{Target: "agent:x"}) }},
		{"start: key", BadName, func() error { return start(StartRequest{IdempotencyKey: "a\n"}) }},
		{"start: large message", TooLarge, func() error {
			return start(StartRequest{Message: []byte(`"` + strings.Repeat("x", MessageBytesMax) + `"`)})
		}},
		{"start: broken message", RowInvalid, func() error { return start(StartRequest{Message: []byte(`{`)}) }},
		{"start: id of a running run", RunExists, func() error { return start(StartRequest{ID: a.id}) }},
		{"start: id of a finished run", RunExists, func() error { return start(StartRequest{ID: done.id}) }},
		{"start: key with another body", IdempotencyMismatch, func() error { return start(StartRequest{IdempotencyKey: "key", BodyHash: [32]byte{2}}) }},

		{"append: bad id", BadID, func() error { return app(a.c, "x", "", `{}`) }},
		{"append: unknown run", UnknownRun, func() error { return app(a.c, "exec_none", "", `{}`) }},
		{"append: no token", WriterRequired, func() error { return app(owner, a.id, "", `{}`) }},
		{"append: another run's token", WrongToken, func() error { return app(other.c, a.id, "", `{}`) }},
		{"append: no token at all", WrongToken, func() error { return app(Caller{Writer: "x"}, a.id, "", `{}`) }},
		{"append: no object", RowNotObject, func() error { return app(a.c, a.id, "", `{}`, `[]`) }},
		{"append: invalid", RowInvalid, func() error { return app(a.c, a.id, "", `{}`, `{`) }},
		{"append: reserved", ReservedName, func() error { return app(a.c, a.id, "", `{}`, `{"by":1}`) }},
		{"append: too large", RowTooLarge, func() error { return app(a.c, a.id, "", `{"a":"`+strings.Repeat("x", RowBytesMax)+`"}`) }},
		{"append: no key", KeyMissing, func() error { return app(a.c, a.id, "k", `{"k":"2"}`, `{}`) }},
		{"append: key conflict", KeyConflict, func() error { return app(a.c, a.id, "k", `{"k":"2"}`, `{"k":"1","x":2}`) }},
		{"append: key conflict in the request", KeyConflict, func() error { return app(a.c, a.id, "k", `{"k":"2"}`, `{"k":"2","x":2}`) }},
		{"append: too many rows", TooLarge, func() error { return app(a.c, a.id, "", make([]string, AppendRowsMax+1)...) }},
		{"append: too much text", TooLarge, func() error {
			return app(a.c, a.id, "", slices.Repeat([]string{`{"x":"` + strings.Repeat("x", 60<<10) + `"}`}, 150)...)
		}},
		{"append: finished", Finished, func() error { return app(done.c, done.id, "", `{}`) }},
		{"append: interrupted", AttachRequired, func() error { return app(lost.c, lost.id, "", `{}`) }},

		{"put: bad name", BadName, func() error { return put(a.c, a.id, "..", "", "", "x") }},
		{"put: the store's name", BadName, func() error { return put(a.c, a.id, TerminalName, "", "", "x") }},
		{"put: protected source", ProtectedSource, func() error { return put(a.c, a.id, "x", SourceTerminal, "", "x") }},
		{"put: unknown source", ProtectedSource, func() error { return put(a.c, a.id, "x", "odd", "", "x") }},
		{"put: bad type", BadName, func() error { return put(a.c, a.id, "x", "", "a\nb", "x") }},
		{"put: long type", TooLarge, func() error { return put(a.c, a.id, "x", "", strings.Repeat("x", 256), "x") }},
		{"put: other bytes", PayloadConflict, func() error { return put(a.c, a.id, "p", "", "", "other") }},
		{"put: other bytes of any size", PayloadConflict, func() error { return put(a.c, a.id, "p", "", "", strings.Repeat("x", 1<<20)) }},
		{"put: wrong token", WrongToken, func() error { return put(other.c, a.id, "x", "", "", "x") }},
		{"put: finished", Finished, func() error { return put(done.c, done.id, "x", "", "", "x") }},
		{"put: interrupted", AttachRequired, func() error { return put(lost.c, lost.id, "x", "", "", "x") }},

		{"beat: long note", TooLarge, func() error { return beat(a.c, a.id, strings.Repeat("x", 513)) }},
		{"beat: no token", WriterRequired, func() error { return beat(agentC, a.id, "") }},
		{"beat: finished", Finished, func() error { return beat(done.c, done.id, "") }},
		{"beat: interrupted", AttachRequired, func() error { return beat(lost.c, lost.id, "") }},

		{"settle: bad status", BadStatus, func() error { return settle(a, SettleRequest{Status: "ok"}) }},
		{"settle: the store's status", BadStatus, func() error { return settle(a, SettleRequest{Status: ResumeExhausted}) }},
		{"settle: long summary", TooLarge, func() error {
			return settle(a, SettleRequest{Status: Success, Summary: strings.Repeat("x", OutcomeTextBytesMax+1)})
		}},
		{"settle: no text", RowInvalid, func() error { return settle(a, SettleRequest{Status: Success, Result: "\xff"}) }},
		{"settle: two payloads", BadName, func() error {
			return settle(a, SettleRequest{Status: Success, Payload: strings.NewReader("x"), PayloadName: "p"})
		}},
		{"settle: unknown payload", UnknownPayload, func() error { return settle(a, SettleRequest{Status: Success, PayloadName: "q"}) }},
		{"settle: revision", RevisionMismatch, func() error { return settle(a, SettleRequest{Status: Success, IfMatch: `"1-7"`}) }},
		{"settle: another outcome", SettleConflict, func() error { return settle(done, SettleRequest{Status: Failure}) }},
		{"settle: another payload", SettleConflict, func() error {
			return settle(done, SettleRequest{Status: Success, Summary: "it is success", Payload: strings.NewReader("other")})
		}},
		{"settle: interrupted", AttachRequired, func() error { return settle(lost, SettleRequest{Status: Success}) }},
		{"settle: wrong token", WrongToken, func() error { return settle(&agent{w, a.id, other.c}, SettleRequest{Status: Success}) }},

		{"attach: running", WrongPhase, func() error { return attach(a, nil) }},
		{"attach: finished", Finished, func() error { return attach(done, nil) }},
		{"attach: wrong token", WrongToken, func() error { return attach(&agent{w, lost.id, a.c}, nil) }},
		{"attach: call that is not open", UnaccountedCalls, func() error { return attach(lost, map[uint64]string{1: "ended"}) }},

		{"get: not the caller's", NotOwner, func() error { return get(agentC, a.id) }},
		{"get: wrong token", WrongToken, func() error { return get(other.c, a.id) }},
		{"get: unknown", UnknownRun, func() error { return get(owner, "exec_none") }},
		{"get: bad id", BadID, func() error { return get(owner, "EXEC_a") }},
		{"look: not the caller's", NotOwner, func() error { _, err := w.s.Look(agentC, a.id); return err }},
		{"list: cursor", BadCursor, func() error { return list(owner, ListQuery{After: "07"}) }},
		{"list: phase", BadPhase, func() error { return list(owner, ListQuery{Phase: "odd"}) }},
		{"list: another uid", NotOwner, func() error { return list(agentC, ListQuery{UID: &uid}) }},
		{"payload: unknown", UnknownPayload, func() error { _, err := w.payload(a.id, "q"); return err }},
		{"payload: none at the end yet", UnknownPayload, func() error { _, err := w.payload(a.id, TerminalName); return err }},
	} {
		before, durable := w.picture(), w.log.Durable()
		err := tt.do()
		r, ok := errors.AsType[*Refusal](err)
		if !ok || r.Code != tt.code {
			t.Errorf("%s: got %v, want %s", tt.name, err, tt.code)
		}
		if after := w.picture(); after != before || w.log.Durable() != durable {
			t.Errorf("%s: it changed something", tt.name)
		}
	}
}

// TestRefusalsSay what a program needs to go on.
func TestRefusalsSay(t *testing.T) {
	w := newWorld(t)
	a := w.start(StartRequest{})
	if _, err := w.s.Append(ctx, a.c, a.id, rowsOf(`{"k":1}`), "k"); err != nil {
		t.Fatal(err)
	}
	_, err := w.s.Append(ctx, a.c, a.id, rowsOf(`{"k":2}`, `{"k":1,"x":1}`), "k")
	if r := wantCode(t, err, KeyConflict); r.Row != 2 || r.Seq != 2 {
		t.Errorf("key-conflict says %+v", r)
	}
	_, err = a.append(`{}`, `{}`, `[]`)
	if r := wantCode(t, err, RowNotObject); r.Row != 3 || !strings.HasPrefix(r.Error(), "row 3: ") {
		t.Errorf("row-not-object says %+v", r)
	}
	_, err = w.s.Settle(ctx, a.c, a.id, SettleRequest{Status: Success, IfMatch: `"9-9"`})
	if r := wantCode(t, err, RevisionMismatch); r.ETag != `"1-1"` || r.Revision != 1 {
		t.Errorf("revision-mismatch says %+v", r)
	}
	_, err = w.s.Settle(ctx, a.c, a.id, SettleRequest{Status: Success, IfMatch: `"1-1"`})
	if err != nil {
		t.Error(err)
	}
}
