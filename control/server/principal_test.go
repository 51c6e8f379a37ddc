package server

import (
	"context"
	"net/http/httptest"
	"os"
	"testing"

	"durafs/control"
)

// TestCaller lists who is what, by uid, socket and token.
func TestCaller(t *testing.T) {
	const friend, stranger = 7001, 7002
	s := New(Options{Runs: newFake(), OwnerUIDs: []uint32{friend}})
	for _, c := range []struct {
		uid   uint32
		kind  Socket
		token string
		owner bool
	}{
		{uint32(os.Getuid()), Control, "", true},
		{0, Control, "", true},
		{friend, Control, "", true},
		{stranger, Control, "", false},
		{uint32(os.Getuid()), Control, "t", false},
		{0, Control, "t", false},
		{uint32(os.Getuid()), Agent, "", false},
		{0, Agent, "", false},
		{friend, Agent, "", false},
		{stranger, Agent, "t", false},
	} {
		r := httptest.NewRequest("GET", "/", nil)
		if c.token != "" {
			r.Header.Set(control.HeaderWriter, c.token)
		}
		r = r.WithContext(context.WithValue(r.Context(), peerKey{}, &peer{uid: c.uid, known: true}))
		got, known := s.caller(r, c.kind)
		if !known || got.Owner != c.owner || got.UID != c.uid || got.Writer != c.token {
			t.Errorf("%+v: %+v, %v", c, got, known)
		}
	}
	if _, known := s.caller(httptest.NewRequest("GET", "/", nil), Control); known {
		t.Error("a caller whom the kernel does not tell is known")
	}
}

// TestBadWriterHeader: a token that was forgotten does not make an owner.
func TestBadWriterHeader(t *testing.T) {
	d := serve(t, newFake())
	id, token := d.run()
	for name, header := range map[string][]string{
		"empty": {control.HeaderWriter, ""},
		"two":   {control.HeaderWriter, token, control.HeaderWriter, token},
	} {
		if a := d.do("GET", "/v1/runs/"+id, "", header...); a.status != 400 || a.code() != control.CodeBadHeader {
			t.Errorf("%s: %d %s", name, a.status, a.body)
		}
	}
}
