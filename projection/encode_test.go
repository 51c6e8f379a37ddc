package projection

import (
	"encoding/json"
	"math"
	"strconv"
	"strings"
	"testing"
)

// What a program makes by hand is written as it says, or refused.
func TestEncodeRefuses(t *testing.T) {
	ref := Ref{Run: vectorRun, Name: "a.png", Bytes: 8}
	with := func(change func(*Ref)) Projection {
		r := ref
		change(&r)
		return Projection{Status: OK, Parts: []Part{Text("a"), Image{PNG, r}}}
	}
	one := func(p Part) Projection { return Projection{Status: OK, Parts: []Part{p}} }
	for name, c := range map[string]struct {
		p    Projection
		code Code
		path string
	}{
		"no status":       {Projection{Parts: []Part{Text("")}}, UnknownStatus, "status"},
		"status injected": {Projection{Status: `ok","v":1,"x":"`, Parts: []Part{Text("")}}, DuplicateName, "v"},
		"no parts":        {Projection{Status: OK}, NoParts, "parts"},
		"nil part":        {one(nil), NotJSON, "parts[0]"},
		"text not UTF-8":  {one(Text("\xff")), NotUTF8, ""},
		"surrogate pair":  {one(Text("\xed\xa0\xbd\xed\xb8\x80")), NotCanonical, "parts[0]"},
		"surrogate torn":  {one(Text("\xed\xa0")), NotUTF8, ""},
		"json empty":      {one(JSON("")), NotJSON, "parts[0].value"},
		"json blanks":     {one(JSON("[1, 2]")), NotCanonical, "parts[0]"},
		"json two":        {one(JSON("1,2")), NotJSON, "parts[0]"},
		"json injected":   {one(JSON(`1},{"kind":"text","text":"x"`)), NotCanonical, ""},
		"json and field":  {one(JSON(`1,"text":"x"`)), UnknownField, "parts[0].text"},
		"json infinite":   {one(JSON("1e999")), NotFinite, "parts[0].value"},
		"other run":       {with(func(r *Ref) { r.Run = otherRun }), OtherRun, "parts[1].ref.run"},
		"no run":          {with(func(r *Ref) { r.Run = "" }), OtherRun, "parts[1].ref.run"},
		"name":            {with(func(r *Ref) { r.Name = "a/b" }), BadName, "parts[1].ref.name"},
		"no bytes":        {with(func(r *Ref) { r.Bytes = 0 }), BadLength, "parts[1].ref.bytes"},
		"minus bytes":     {with(func(r *Ref) { r.Bytes = -1 }), BadLength, "parts[1].ref.bytes"},
		"too many bytes":  {with(func(r *Ref) { r.Bytes = math.MaxInt64 }), TooLarge, "parts[1].ref.bytes"},
		"media type":      {one(Image{"image/svg+xml", ref}), BadMediaType, "parts[0].media_type"},
		"media type case": {one(Image{"image/PNG", ref}), NotCanonical, ""},
		"code":            {Projection{Status: Error, Code: "projection-failed", Parts: []Part{Text("other")}}, UnknownField, "code"},
		"other code":      {Projection{Status: Error, Code: "x", Parts: failed().Parts}, UnknownField, "code"},
	} {
		_, err := Encode(c.p, vectorRun)
		r, ok := err.(*Refusal)
		if !ok || r.Code != c.code || r.Path != c.path {
			t.Errorf("%s: %v, want %s at %q", name, err, c.code, c.path)
		}
	}
	for _, run := range []string{"", "a b", `a"`, strings.Repeat("a", RunBytesMax+1), "ä", "a\n"} {
		_, err := Encode(one(Text("")), run)
		_, err2 := Decode([]byte(Sentinel), run)
		_, err3 := Admit([]byte(Sentinel), Call{Run: run}, nil)
		for _, err := range []error{err, err2, err3} {
			if r, ok := err.(*Refusal); !ok || r.Code != BadRun {
				t.Errorf("the run %q: %v", run, err)
			}
		}
	}
}

func TestSentinel(t *testing.T) {
	p, err := Decode([]byte(Sentinel), vectorRun)
	if err != nil || !p.IsSentinel() || p.Status != Error || p.differs(failed()) != same {
		t.Errorf("%v %+v", err, p)
	}
	b, err := Encode(p, vectorRun)
	if err != nil || string(b) != Sentinel {
		t.Errorf("%v %s", err, b)
	}
	p.Parts[0] = Text("changed")
	if q, _ := Decode([]byte(Sentinel), vectorRun); q.Parts[0] == p.Parts[0] {
		t.Error("a caller can change the sentinel")
	}
	a := Fallback()
	if string(a.Encoded) != Sentinel || len(a.Artifacts) > 0 || !a.Projection.IsSentinel() {
		t.Errorf("%+v", a)
	}
}

// What was admitted is the plan's own: nothing of the candidate is read again.
func TestAdmissionOwnsItsBytes(t *testing.T) {
	in := doc(text("hi"), ",", value(`{"a":"b"}`), ",", image("image/png", data(png64))).bytes(t)
	adm, err := Admit(in, Call{vectorRun, 1}, unreachable(t))
	if err != nil {
		t.Fatal(err)
	}
	encoded, image := string(adm.Encoded), string(adm.Artifacts[0].Data)
	for i := range in {
		in[i] = 'x'
	}
	if string(adm.Encoded) != encoded || string(adm.Artifacts[0].Data) != image || adm.Projection.Parts[0] != Text("hi") || adm.Projection.Parts[1] != JSON(`{"a":"b"}`) {
		t.Errorf("it changed with the candidate: %s", adm.Encoded)
	}
	p, err := Decode(adm.Encoded, vectorRun)
	if err != nil {
		t.Fatal(err)
	}
	clear(adm.Encoded)
	if p.differs(adm.Projection) != same {
		t.Error("what was decoded changed with the bytes it came from")
	}
}

// Images are compared with what is there when a projection comes from a log.
func TestCheck(t *testing.T) {
	p, err := Decode(doc(text("a"), ",", image("image/png", ref())).bytes(t), vectorRun)
	if err != nil {
		t.Fatal(err)
	}
	have, _, _ := vectorFind(t)("shot.png")
	for name, c := range map[string]struct {
		change func(*Payload) bool
		code   Code
	}{
		"same":      {func(*Payload) bool { return true }, ""},
		"gone":      {func(*Payload) bool { return false }, UnknownArtifact},
		"digest":    {func(p *Payload) bool { p.B3[0]++; return true }, OtherBytes},
		"length":    {func(p *Payload) bool { p.Bytes++; return true }, OtherBytes},
		"signature": {func(p *Payload) bool { p.Head = []byte("GIF89a......"); return true }, WrongSignature},
		"empty":     {func(p *Payload) bool { p.Head = nil; return true }, WrongSignature},
	} {
		err := Check(p, func(string) (Payload, bool, error) {
			q := have
			ok := c.change(&q)
			return q, ok, nil
		})
		r, _ := err.(*Refusal)
		if (c.code == "") != (err == nil) || r != nil && r.Code != c.code {
			t.Errorf("%s: %v, want %q", name, err, c.code)
		}
	}
}

// The table of sources, once more and by hand.
func TestPolicies(t *testing.T) {
	for source, want := range map[Source][3]bool{ // delete, show, copy
		"tool_result": {true, true, true}, "tool_result_projection": {false, false, true}, "named": {true, true, true},
		"terminal": {false, true, true}, "log_body": {false, true, true}, "resume_request": {false, false, false}, "other": {},
	} {
		p := PolicyOf(source)
		if got := [3]bool{p.Delete, p.Show, p.Copy}; got != want {
			t.Errorf("%s: %v, want %v", source, got, want)
		}
		if p.Put != (source == "named" || source == "tool_result") {
			t.Errorf("%s: an agent may put one: %v", source, p.Put)
		}
	}
	if n := len(Sources()); n != 6 {
		t.Errorf("%d sources", n)
	}
}

// finite agrees with the conversion that readers use.
func FuzzFinite(f *testing.F) {
	for _, s := range []string{"1e400", "1e308", "1.7976931348623157e308", "1.797693134862315807e308", "1.797693134862315808e308", infinite, "-0.000e999", "0.0001e312", "12345.678e304", "1" + strings.Repeat("0", 308), "0." + strings.Repeat("0", 400) + "1e709"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		if !json.Valid([]byte(s)) || strings.Trim(s, "0123456789+-.eE") != "" {
			return
		}
		n, err := strconv.ParseFloat(s, 64)
		if want := err == nil && !math.IsInf(n, 0); finite([]byte(s)) != want {
			t.Errorf("finite(%s) = %v", s, !want)
		}
	})
}
