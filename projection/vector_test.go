package projection

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var update = flag.Bool("update", false, "write the golden vectors")

// vectorDir holds the golden vectors; its README describes the format.
var vectorDir = filepath.Join("..", "testdata", "projection")

// What all vectors share.
const (
	vectorRun  = "0196a1b2-c3d4-7e5f-8a9b-0c1d2e3f4a5b"
	otherRun   = "0196a1b2-c3d4-7e5f-8a9b-0c1d2e3f4a5c"
	vectorCall = 7
)

// pieces is a text: strings as they are, repeated ones, and bytes that are no
// text.
type pieces []any

type repeated struct {
	Repeat string `json:"repeat"`
	Times  int    `json:"times"`
}

type hexed struct {
	Hex string `json:"hex"`
}

func of(parts ...any) pieces { return parts }

func rep(s string, times int) repeated { return repeated{s, times} }

// join joins pieces of pieces.
func join(parts ...any) (all pieces) {
	for _, p := range parts {
		if list, ok := p.(pieces); ok {
			all = append(all, join(list...)...)
		} else {
			all = append(all, p)
		}
	}
	return all
}

func (p pieces) bytes(t testing.TB) []byte {
	t.Helper()
	var b []byte
	for _, piece := range p {
		switch piece := piece.(type) {
		case string:
			b = append(b, piece...)
		case repeated:
			b = append(b, strings.Repeat(piece.Repeat, piece.Times)...)
		case hexed:
			raw, err := hex.DecodeString(piece.Hex)
			if err != nil {
				t.Fatal(err)
			}
			b = append(b, raw...)
		default:
			t.Fatalf("%T is no piece", piece)
		}
	}
	return b
}

// size is the length of pieces, but for bytes in hex.
func (p pieces) size() (n int) {
	for _, piece := range p {
		switch piece := piece.(type) {
		case string:
			n += len(piece)
		case repeated:
			n += len(piece.Repeat) * piece.Times
		}
	}
	return n
}

// large is what takes long under the race detector.
const large = 4 << 20

// UnmarshalJSON reads pieces as they stand in a file.
func (p *pieces) UnmarshalJSON(b []byte) error {
	var raw []json.RawMessage
	if err := json.Unmarshal(b, &raw); err != nil {
		return err
	}
	*p = make(pieces, len(raw))
	for i, r := range raw {
		var s string
		var rep repeated
		var hx hexed
		switch {
		case json.Unmarshal(r, &s) == nil:
			(*p)[i] = s
		case bytes.Contains(r, []byte(`"hex"`)) && json.Unmarshal(r, &hx) == nil:
			(*p)[i] = hx
		case json.Unmarshal(r, &rep) == nil && rep.Times > 0:
			(*p)[i] = rep
		default:
			return fmt.Errorf("%s is no piece", r)
		}
	}
	return nil
}

// vector is one line of a file of vectors.
type vector struct {
	Name string `json:"name"`
	In   pieces `json:"in"`
	// Out is what is accepted as; for decode it is In itself and left out.
	Out       pieces       `json:"out,omitempty"`
	Artifacts []vectorFile `json:"artifacts,omitempty"`
	// Refused is the code, where it is not accepted; Path the field.
	Refused Code   `json:"refused,omitempty"`
	Path    string `json:"path,omitempty"`
}

// vectorFile is an artifact, or a payload that the run has.
type vectorFile struct {
	Name      string    `json:"name"`
	MediaType MediaType `json:"media_type,omitempty"`
	B3        string    `json:"b3"`
	Bytes     int64     `json:"bytes"`
	From      string    `json:"from,omitempty"`
	Head      string    `json:"head_hex,omitempty"`
}

func readVectors(t testing.TB, file string) []vector {
	t.Helper()
	f, err := os.Open(filepath.Join(vectorDir, file))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var list []vector
	dec := json.NewDecoder(f)
	dec.DisallowUnknownFields()
	for dec.More() {
		var v vector
		if err := dec.Decode(&v); err != nil {
			t.Fatalf("%s, vector %d: %v", file, len(list)+1, err)
		}
		list = append(list, v)
	}
	return list
}

func writeLines[T any](t *testing.T, file string, list []T) {
	t.Helper()
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	for _, v := range list {
		if err := enc.Encode(v); err != nil {
			t.Fatal(err)
		}
	}
	compareFile(t, file, b.Bytes())
}

// compareFile compares a file with what it should be, or writes it.
func compareFile(t *testing.T, file string, want []byte) {
	t.Helper()
	path := filepath.Join(vectorDir, file)
	if *update {
		if err := os.WriteFile(path, want, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	have, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(have, want) {
		t.Errorf("%s is not what the tables make; go test ./projection -run TestVectorFiles -update", file)
	}
}

// The files are the tables, which say by hand what comes out.
func TestVectorFiles(t *testing.T) {
	writeLines(t, "payloads.jsonl", vectorPayloads)
	writeLines(t, "admit.jsonl", admitVectors())
	writeLines(t, "decode.jsonl", decodeVectors())
}

// vectorFind is a store with the payloads of the vectors.
func vectorFind(t testing.TB) Find {
	return func(name string) (Payload, bool, error) {
		for _, v := range vectorPayloads {
			if v.Name != name {
				continue
			}
			d, ok := parseDigest([]byte(v.B3))
			head, err := hex.DecodeString(v.Head)
			if !ok || err != nil {
				t.Fatalf("payload %s: %q, %v", v.Name, v.B3, err)
			}
			return Payload{B3: d, Bytes: v.Bytes, Head: head}, true, nil
		}
		return Payload{}, false, nil
	}
}

func TestAdmitVectors(t *testing.T) {
	seen := map[string]bool{}
	for _, v := range readVectors(t, "admit.jsonl") {
		if seen[v.Name] {
			t.Errorf("two vectors are named %s", v.Name)
		}
		seen[v.Name] = true
		if testing.Short() && v.In.size() > large {
			continue
		}
		t.Run(v.Name, func(t *testing.T) {
			adm, err := Admit(v.In.bytes(t), Call{vectorRun, vectorCall}, vectorFind(t))
			if refused(t, v, err) {
				return
			}
			if want := v.Out.bytes(t); !bytes.Equal(adm.Encoded, want) {
				t.Errorf("it is encoded as\n%.2000s\nwant\n%.2000s", adm.Encoded, want)
			}
			var files []vectorFile
			for _, a := range adm.Artifacts {
				files = append(files, vectorFile{Name: a.Name, MediaType: a.MediaType, B3: a.B3.String(), Bytes: a.Bytes, From: a.From})
			}
			if diff := cmp.Diff(v.Artifacts, files); diff != "" {
				t.Errorf("artifacts: %s", diff)
			}
			checkDurable(t, adm.Encoded, adm.Projection)
		})
	}
}

func TestDecodeVectors(t *testing.T) {
	for _, v := range readVectors(t, "decode.jsonl") {
		t.Run(v.Name, func(t *testing.T) {
			in := v.In.bytes(t)
			p, err := Decode(in, vectorRun)
			if refused(t, v, err) {
				return
			}
			checkDurable(t, in, p)
		})
	}
}

// refused compares a refusal with the one that a vector wants.
func refused(t *testing.T, v vector, err error) bool {
	t.Helper()
	r, ok := err.(*Refusal)
	if err != nil && !ok {
		t.Fatalf("the error is no refusal: %v", err)
	}
	switch {
	case r == nil && v.Refused != "":
		t.Errorf("it is accepted; want %s at %q", v.Refused, v.Path)
	case r != nil && (r.Code != v.Refused || r.Path != v.Path):
		t.Errorf("refused as %s at %q (%v); want %q at %q", r.Code, r.Path, r, v.Refused, v.Path)
	case r != nil && len(r.Error()) > 300:
		t.Errorf("the message has %d bytes", len(r.Error()))
	}
	return r != nil || v.Refused != ""
}

// checkDurable checks what holds for everything that was decoded.
func checkDurable(t *testing.T, b []byte, p Projection) {
	t.Helper()
	again, err := Encode(p, vectorRun)
	if err != nil || !bytes.Equal(again, b) {
		t.Errorf("encoded again: %v, %.1000s", err, again)
	}
	back, err := Decode(b, vectorRun)
	if err != nil || back.differs(p) != same {
		t.Errorf("decoded again: %v", err)
	}
	if len(p.Parts) > PartsMax || len(b) > BytesMax {
		t.Errorf("%d parts, %d bytes", len(p.Parts), len(b))
	}
}

// There are enough of them, and every code is among them.
func TestVectorsAreComplete(t *testing.T) {
	admit, decode := readVectors(t, "admit.jsonl"), readVectors(t, "decode.jsonl")
	codes, accepted := map[Code]int{}, 0
	for _, v := range append(admit, decode...) {
		codes[v.Refused]++
		if v.Refused == "" {
			accepted++
		}
	}
	for _, c := range Codes() {
		if codes[c] == 0 && c != BadRun { // the run is an argument
			t.Errorf("no vector is refused as %s", c)
		}
	}
	if n := len(admit) + len(decode); n < 200 || accepted < 50 {
		t.Errorf("%d vectors, %d of them accepted", n, accepted)
	}
	t.Logf("%d to admit, %d to decode, %d of them accepted", len(admit), len(decode), accepted)
}
