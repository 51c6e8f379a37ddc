package projection

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"strings"
	"testing"
	"unicode/utf8"
)

// seedVectors adds the smaller ones of a file.
func seedVectors(f *testing.F, file string) {
	for _, v := range readVectors(f, file) {
		if v.In.size() < 4<<10 {
			f.Add(v.In.bytes(f))
		}
	}
}

// What decodes encodes to the same bytes, and says the same again.
func FuzzDecode(f *testing.F) {
	seedVectors(f, "decode.jsonl")
	f.Fuzz(func(t *testing.T, b []byte) {
		p, err := Decode(b, vectorRun)
		if err != nil {
			if _, ok := err.(*Refusal); !ok {
				t.Fatalf("%v is no refusal", err)
			}
			return
		}
		checkDurable(t, b, p)
		if !json.Valid(b) {
			t.Error("it is no JSON")
		}
		for _, r := range p.Refs() {
			if r.Run != vectorRun {
				t.Errorf("a reference to %s rides in", r.Run)
			}
		}
		if bytes.Contains(b, []byte(`"ref":`)) && len(p.Refs()) > 0 {
			return // there is no such payload
		}
		adm, err := Admit(b, Call{vectorRun, vectorCall}, unreachable(t))
		if err != nil || !bytes.Equal(adm.Encoded, b) {
			t.Errorf("the durable form is no fixed point of admission: %v", err)
		}
	})
}

// A candidate is refused, or becomes what decodes; sent again it is the same.
func FuzzAdmit(f *testing.F) {
	seedVectors(f, "admit.jsonl")
	f.Fuzz(func(t *testing.T, b []byte) {
		call := Call{vectorRun, vectorCall}
		adm, err := Admit(b, call, vectorFind(t))
		if err != nil {
			if r, ok := err.(*Refusal); !ok || said[r.Code] == "" || len(r.Error()) > 300 {
				t.Fatalf("%v is no refusal", err)
			}
			return
		}
		checkDurable(t, adm.Encoded, adm.Projection)
		if !json.Valid(b) || !utf8.Valid(b) {
			t.Error("it is no JSON")
		}
		refs := adm.Projection.Refs()
		if len(refs) != len(adm.Artifacts) {
			t.Fatalf("%d references, %d artifacts", len(refs), len(adm.Artifacts))
		}
		for i, a := range adm.Artifacts {
			if refs[i] != (Ref{vectorRun, a.Name, a.B3, a.Bytes}) || (a.Data == nil) == (a.From == "") {
				t.Errorf("the reference %+v is not to %+v", refs[i], a)
			}
			if a.Data != nil && !a.MediaType.Matches(a.Data) {
				t.Errorf("%s is none", a.MediaType)
			}
		}
		again, err := Admit(append([]byte("\n"), append(b, ' ')...), call, vectorFind(t))
		if adm.Projection.IsSentinel() {
			return
		}
		if err != nil || !bytes.Equal(again.Encoded, adm.Encoded) || !Same(again.Projection, adm.Projection) {
			t.Errorf("with blanks around: %v", err)
		}
	})
}

// What a program makes is written as it says, or refused.
func FuzzEncode(f *testing.F) {
	f.Add("ok", "text", "[1,2]", "image/png", "a.png", int64(8), uint8(7))
	f.Add("error", "\xed\xa0\x80 \u2028\"\\\x01", `{"\ud800":1e-400}`, "image/webp", ".projection-1-2", int64(1), uint8(3))
	f.Add("ok", "\xed\xa0\xbd\xed\xb8\x80", `1},{"kind":"text","text":"x"`, "image/PNG", "\"", int64(-1), uint8(1))
	f.Fuzz(func(t *testing.T, status, text, value, media, name string, size int64, kinds uint8) {
		p := Projection{Status: Status(status)}
		if kinds&1 != 0 {
			p.Parts = append(p.Parts, Text(text))
		}
		if kinds&2 != 0 {
			p.Parts = append(p.Parts, JSON(value))
		}
		if kinds&4 != 0 {
			p.Parts = append(p.Parts, Image{MediaType(media), Ref{Run: vectorRun, Name: name, Bytes: size}})
		}
		b, err := Encode(p, vectorRun)
		if err != nil {
			if _, ok := err.(*Refusal); !ok {
				t.Fatalf("%v is no refusal", err)
			}
			return
		}
		back, err := Decode(b, vectorRun)
		if err != nil || back.differs(p) != same {
			t.Errorf("%s decodes to %+v, %v", b, back, err)
		}
		if text, ok := back.Parts[0].(Text); ok && utf8.ValidString(string(text)) {
			checkText(t, b, string(text))
		}
	})
}

// checkText reads the first part's text as other readers do.
func checkText(t *testing.T, b []byte, text string) {
	var v struct{ Parts []struct{ Text string } }
	if err := json.Unmarshal(b, &v); err != nil || v.Parts[0].Text != text {
		t.Errorf("another reader gets %q, %v", v.Parts[0].Text, err)
	}
}

// Canonical base64 is what the encoder writes, and nothing else.
func FuzzBase64(f *testing.F) {
	for _, v := range admitVectors() {
		if strings.HasPrefix(v.Name, "base64-") {
			_, b64, _ := strings.Cut(v.In.join(), `"data":"`)
			f.Add([]byte(strings.TrimSuffix(b64, `"}]}`)))
		}
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		raw, err := base64.StdEncoding.Strict().DecodeString(string(b))
		want := err == nil && len(raw) > 0 && base64.StdEncoding.EncodeToString(raw) == string(b)
		if canonical64(b) != want {
			t.Fatalf("canonical(%q) = %v", b, !want)
		}
		if !want {
			return
		}
		var buf [HeadBytes]byte
		if decodedBytes(b) != len(raw) || !bytes.Equal(decode64(b), raw) || !bytes.HasPrefix(raw, head64(&buf, b)) {
			t.Errorf("%q decodes differently", b)
		}
	})
}

// A projection that goes to another run and back is the same, and between
// belongs to the other wholly.
func FuzzRewrite(f *testing.F) {
	seedVectors(f, "decode.jsonl")
	f.Fuzz(func(t *testing.T, b []byte) {
		p, err := Decode(b, vectorRun)
		n := 0
		out, err2 := Rewrite(b, vectorRun, "exec_other", func(Ref) error { n++; return nil })
		if (err == nil) != (err2 == nil) {
			t.Fatalf("decodes: %v, is rewritten: %v", err, err2)
		}
		if err != nil {
			return
		}
		q, err := Decode(out, "exec_other")
		if err != nil || len(q.Refs()) != n || n != len(p.Refs()) {
			t.Fatalf("%v; %d references, visited %d", err, len(p.Refs()), n)
		}
		back, err := Rewrite(out, "exec_other", vectorRun, nil)
		if err != nil || !bytes.Equal(back, b) {
			t.Errorf("back again: %v\n%s", err, back)
		}
	})
}
