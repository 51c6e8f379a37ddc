package control

import (
	"bytes"
	"testing"
)

func TestSameRow(t *testing.T) {
	for _, c := range []struct {
		line, row string
		same      bool
	}{
		{`{"seq":7,"a":1}`, `{"a":1}`, true},
		{`{"seq":7}`, `{}`, true},
		{`{"seq":7 }`, `{ }`, true},
		{`  {"seq":7, "a" : 1}`, `  { "a" : 1}`, true},
		{`{"seq":7,"a":1}`, "{\n\"a\":1\r\n}", true},
		{`{"seq":7,"a":1}`, `{"a":2}`, false},
		{`{"seq":7,"a":1}`, `{"a":1 }`, false},
		{`{"seq":7,"a":1}`, ` {"a":1}`, false},
		{`{"seq":7,"a":1}`, ``, false},
		{`{"seq":7}`, ``, false},
		{`{"a":1}`, `{"a":1}`, false},
	} {
		if got := sameRow([]byte(c.line), canonicalRow([]byte(c.row))); got != c.same {
			t.Errorf("sameRow(%s, %q) = %v", c.line, c.row, got)
		}
	}
}

func TestRowSeq(t *testing.T) {
	for line, want := range map[string]uint64{
		`{"seq":7,"a":1}`: 7, `{"seq":18446744073709551615}`: 1<<64 - 1, " \t{\"seq\":3 }": 3,
		`{"a":1}`: 0, ``: 0, `{"seq":`: 0, `{"SEQ":1}`: 0,
	} {
		if got := RowSeq([]byte(line)); got != want {
			t.Errorf("RowSeq(%q) = %d, want %d", line, got, want)
		}
	}
}

func TestByStore(t *testing.T) {
	for line, want := range map[string]bool{
		`{"seq":1,"by":"store","type":"x"}`: true,
		`{"seq":1,"a":"\"by\":\"store\""}`:  false,
		`{"seq":1,"a":{"by":"store"}}`:      false,
		`{"seq":1}`:                         false,
	} {
		if got := byStore([]byte(line)); got != want {
			t.Errorf("byStore(%s) = %v", line, got)
		}
	}
}

func TestRecordKeepsWhatItDoesNotKnow(t *testing.T) {
	in := []byte(`{"id":"exec_a","phase":"of-a-later-version","revision":3,"new_field":{"x":[1]}}`)
	var r Record
	if err := r.UnmarshalJSON(in); err != nil {
		t.Fatal(err)
	}
	if r.ID != "exec_a" || r.Phase != "of-a-later-version" || r.Revision != 3 {
		t.Errorf("%+v", r)
	}
	out, err := r.MarshalJSON()
	if err != nil || !bytes.Equal(out, in) {
		t.Errorf("%s, %v", out, err)
	}
}
