package projection

import (
	"bytes"
	"encoding/json"
	"errors"
	"reflect"
	"strings"
	"testing"
)

var sameCases = []struct {
	a, b string
	same bool
}{
	{`1`, `1`, true},
	{`1`, `1.0`, false},
	{`1e2`, `1E2`, false},
	{`9007199254740993`, `9007199254740992`, false},
	{` {"a":1,"b":[1,2]} `, `{"b":[1, 2],"a":1}`, true},
	{`{"a":1,"b":2}`, `{"a":2,"b":1}`, false},
	{`{"a":1}`, `{"a":1,"b":2}`, false},
	{`{"\u0061":"\u0041\/"}`, `{"a":"A/"}`, true},
	{`"\ud83d\ude00"`, `"😀"`, true},
	{`"\ud800"`, `"\uD800"`, true},
	{`"\ud800"`, `"\ud801"`, false},
	{`"\ud800"`, `"\ufffd"`, false},
	{`[1,2]`, `[2,1]`, false},
	{`[]`, `{}`, false},
	{`"a"`, `"b"`, false},
	{`null`, `false`, false},
	{`{"a":1,"a":2}`, `{"a":2,"a":1}`, false},
	{`{"x":{"b":{"d":[],"c":null},"a":""}}`, `{"x":{"a":"","b":{"c":null,"d":[ ]}}}`, true},
	{`no json`, `no json`, true},
	{`no json`, `no  json`, false},
	{strings.Repeat("[", 65) + strings.Repeat("]", 65), strings.Repeat("[", 65) + " " + strings.Repeat("]", 65), false},
	{strings.Repeat("[", 64) + strings.Repeat("]", 64), strings.Repeat("[", 64) + " " + strings.Repeat("]", 64), true},
}

func TestSameJSON(t *testing.T) {
	for _, c := range sameCases {
		if got := SameJSON([]byte(c.a), []byte(c.b)); got != c.same {
			t.Errorf("%s and %s: %v", c.a, c.b, got)
		}
		if got := SameJSON([]byte(c.b), []byte(c.a)); got != c.same {
			t.Errorf("%s and %s: %v", c.b, c.a, got)
		}
	}
}

// SameJSON agrees with decoding where decoding loses nothing.
func FuzzSameJSON(f *testing.F) {
	for _, c := range sameCases {
		f.Add([]byte(c.a), []byte(c.b))
	}
	f.Fuzz(func(t *testing.T, a, b []byte) {
		same := SameJSON(a, b)
		if same != SameJSON(b, a) || !SameJSON(a, a) {
			t.Fatal("not symmetric, or not reflexive")
		}
		x, ok := decoded(a)
		y, too := decoded(b)
		if same && !bytes.Equal(a, b) && (!ok || !too) {
			t.Errorf("%q and %q are no JSON and taken for the same", a, b)
		}
		if strings.Contains(string(a)+string(b), `\u`) || !ok || !too || hasTwice(a) || hasTwice(b) {
			return // lone surrogates and duplicate names are what decoding loses
		}
		if want := reflect.DeepEqual(x, y); want != same && !bytes.Contains(a, []byte("[[[[[[[[")) {
			t.Errorf("%s and %s: %v", a, b, same)
		}
	})
}

func decoded(b []byte) (v any, ok bool) {
	if !json.Valid(b) || !bytes.Equal(bytes.ToValidUTF8(b, nil), b) {
		return nil, false
	}
	dec := json.NewDecoder(bytes.NewReader(b))
	dec.UseNumber()
	return v, dec.Decode(&v) == nil
}

// hasTwice reports whether some name is twice in an object.
func hasTwice(b []byte) bool {
	_, err := Admit([]byte(`{"v":1,"status":"ok","parts":[{"kind":"json","value":`+string(b)+`}]}`), Call{vectorRun, 1}, nil)
	var r *Refusal
	return errors.As(err, &r) && r.Code == DuplicateName
}

func TestSame(t *testing.T) {
	admit := func(p pieces) Projection {
		adm, err := Admit(p.bytes(t), Call{vectorRun, vectorCall}, vectorFind(t))
		if err != nil {
			t.Fatal(err)
		}
		return adm.Projection
	}
	one := admit(doc(text("a"), ",", value(`{"a":1,"b":"\u0041"}`), ",", image("image/png", data(png64))))
	for name, c := range map[string]struct {
		p    pieces
		same bool
	}{
		"itself":        {doc(text("a"), ",", value(`{"a":1,"b":"\u0041"}`), ",", image("image/png", data(png64))), true},
		"spelling":      {doc(`{"text":"\u0061","kind":"text"},`, value(`{"b":"A", "a":1}`), ",", image("IMAGE/PNG", data(png64))), true},
		"text":          {doc(text("b"), ",", value(`{"a":1,"b":"\u0041"}`), ",", image("image/png", data(png64))), false},
		"value":         {doc(text("a"), ",", value(`{"a":2,"b":"\u0041"}`), ",", image("image/png", data(png64))), false},
		"image":         {doc(text("a"), ",", value(`{"a":1,"b":"\u0041"}`), ",", image("image/png", data("iVBORw0KGgoA"))), false},
		"media type":    {doc(text("a"), ",", value(`{"a":1,"b":"\u0041"}`), ",", image("image/gif", data(gif89))), false},
		"fewer":         {doc(text("a"), ",", value(`{"a":1,"b":"\u0041"}`)), false},
		"order":         {doc(value(`{"a":1,"b":"\u0041"}`), ",", text("a"), ",", image("image/png", data(png64))), false},
		"text for json": {doc(text("a"), ",", text(`{\"a\":1,\"b\":\"A\"}`), ",", image("image/png", data(png64))), false},
		"sentinel":      {of(Sentinel), false},
	} {
		if got := Same(one, admit(c.p)); got != c.same {
			t.Errorf("%s: %v", name, got)
		}
	}
	if Same(failed(), admit(of(strings.Replace(Sentinel, `"code":"projection-failed",`, "", 1)))) {
		t.Error("a projection with the sentinel's words is taken for the sentinel")
	}
}

func TestRewrite(t *testing.T) {
	shot := strings.Repeat("ab", 32)
	in := doc(text("a"), ",", image("image/png", own(1, shot, 8)), ",", value(`"`+vectorRun+`"`), ",", image("image/gif", ref("name", `"x"`))).bytes(t)
	for _, to := range []string{otherRun, "exec_" + strings.Repeat("z", 64), "exec_a", vectorRun} {
		var refs []string
		out, err := Rewrite(in, vectorRun, to, func(r Ref) error {
			refs = append(refs, r.Run+" "+r.Name)
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		if strings.Join(refs, ",") != vectorRun+" .projection-7-1,"+vectorRun+" x" {
			t.Errorf("visited %q", refs)
		}
		want := strings.ReplaceAll(string(in), `"run":"`+vectorRun, `"run":"`+to)
		if string(out) != want {
			t.Errorf("rewritten to\n%s\nwant\n%s", out, want)
		}
		back, err := Rewrite(out, to, vectorRun, nil)
		if err != nil || !bytes.Equal(back, in) {
			t.Errorf("%v, back again:\n%s", err, back)
		}
	}
	stop := errors.New("no such artifact")
	if _, err := Rewrite(in, vectorRun, otherRun, func(Ref) error { return stop }); err != stop {
		t.Errorf("visit's error became %v", err)
	}
	for name, b := range map[string][]byte{"another run's": bytes.ReplaceAll(in, []byte(vectorRun), []byte(otherRun)), "torn": in[:len(in)-1], "a candidate": append([]byte(" "), in...)} {
		if out, err := Rewrite(b, vectorRun, otherRun, nil); err == nil {
			t.Errorf("%s is rewritten to %s", name, out)
		}
	}
	if _, err := Rewrite(in, vectorRun, "", nil); err == nil {
		t.Error("it is rewritten to no run")
	}
	if out, err := Rewrite([]byte(Sentinel), vectorRun, otherRun, nil); err != nil || string(out) != Sentinel {
		t.Errorf("the sentinel: %v %s", err, out)
	}
}

// What is at the bound under a short id fits under the longest one.
func TestRewriteFitsUnderEveryID(t *testing.T) {
	const short = "exec_a"
	longest := "exec_" + strings.Repeat("z", 64)
	parts := []Part{Text("")}
	for range PartsMax - 1 {
		parts = append(parts, Image{PNG, Ref{Run: short, Name: "x", Bytes: 8}})
	}
	p := Projection{Status: OK, Parts: parts}
	room := 0
	for step := BytesMax; step > 0; step /= 2 { // as much text as is taken
		parts[0] = Text(strings.Repeat("a", room+step))
		if _, err := Encode(p, short); err == nil {
			room += step
		}
	}
	parts[0] = Text(strings.Repeat("a", room))
	b, err := Encode(p, short)
	if err != nil {
		t.Fatal(err)
	}
	long, err := Rewrite(b, short, longest, nil)
	if err != nil || len(long) != BytesMax {
		t.Errorf("%d bytes under a short id become %d (want the bound): %v", len(b), len(long), err)
	}
}
