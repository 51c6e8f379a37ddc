package projection

import (
	"runtime"
	"strings"
	"testing"
)

// refusalBytesMax is what a refusal may allocate, whatever was sent: its error
// and the path in it.
const refusalBytesMax = 2 << 10

// parserBytesMax bounds what each processor keeps for the next refusal: a parser
// and the names of the largest object.
const parserBytesMax = 2 << 20

// refusalMax is what a refusal may allocate where it is measured.
func refusalMax() uint64 {
	if poolKeeps {
		return refusalBytesMax
	}
	return parserBytesMax
}

// unreachable is a store that must not be asked.
func unreachable(t testing.TB) Find {
	return func(name string) (Payload, bool, error) {
		t.Fatalf("the store is asked for %q, though the candidate is refused", name)
		return Payload{}, false, nil
	}
}

// allocated is how much fn allocates, at the second time and later.
func allocated(fn func()) (bytes, objects uint64) {
	var before, after runtime.MemStats
	bytes, objects = 1<<62, 1<<62
	fn()
	for range 6 { // others allocate too, and the collector empties pools
		runtime.ReadMemStats(&before)
		fn()
		runtime.ReadMemStats(&after)
		bytes = min(bytes, after.TotalAlloc-before.TotalAlloc)
		objects = min(objects, after.Mallocs-before.Mallocs)
	}
	return bytes, objects
}

// What is refused costs its error, whatever its size: no text, no image, no
// list of parts or names was made from it.
func TestRefusalsAllocateNothing(t *testing.T) {
	most := uint64(0)
	for _, v := range readVectors(t, "admit.jsonl") {
		if v.Refused == "" {
			continue
		}
		if testing.Short() && v.In.size() > large {
			continue
		}
		in := v.In.bytes(t)
		find := vectorFind(t)
		if v.Refused != UnknownArtifact && v.Refused != OtherBytes && !strings.HasPrefix(v.Name, "ref-") {
			find = unreachable(t)
		}
		bytes, objects := allocated(func() { Admit(in, Call{vectorRun, vectorCall}, find) })
		most = max(most, bytes)
		if bytes > refusalMax() || objects > 40 {
			t.Errorf("%s: the refusal of %d bytes allocates %d in %v objects", v.Name, len(in), bytes, objects)
		}
	}
	for _, v := range readVectors(t, "decode.jsonl") {
		if v.Refused == "" {
			continue
		}
		in := v.In.bytes(t)
		bytes, objects := allocated(func() { Decode(in, vectorRun) })
		most = max(most, bytes)
		if bytes > refusalMax() || objects > 40 {
			t.Errorf("decode %s: the refusal of %d bytes allocates %d in %v objects", v.Name, len(in), bytes, objects)
		}
	}
	t.Logf("a refusal allocates at most %d bytes", most)
}

// The worst that can come before a refusal: four whole images and then a part
// that is none, a hundred thousand names, a text at every bound.
func TestLateRefusalsAllocateNothing(t *testing.T) {
	img := image("image/jpeg", data("/9j/", rep("AAAA", ImageBase64Max/4-2), "AAA="))
	var names strings.Builder
	for i := range NodesMax - 1 {
		names.WriteString(`"n` + strings.Repeat("x", i%7) + string(rune('a'+i%26)) + string(rune('a'+i/26%26)) + string(rune('a'+i/676)) + `":0,`)
	}
	for name, in := range map[string]pieces{
		"images":     doc(img, ",", img, ",", img, ",", img, `,{"kind":"none"}`),
		"references": doc(rep(strings.Repeat(image("image/png", ref()).join()+",", 1), PartsMax-1), `{"kind":"none"}`),
		"names":      doc(value("{", names.String(), `"z":tru}`)),
		"names-over": doc(value("{", names.String(), `"y":1,"z":1}`)),
		"texts":      doc(text(rep(`\u0061`, 260_000)), `,{"kind":"none"}`),
		"blanks":     doc(value("[", rep(" ", 30<<20), "1,]")),
		"decode":     doc(text(rep("a", 260_000)), `,{"kind":"none"}`),
	} {
		if testing.Short() && in.size() > large {
			continue
		}
		in := in.bytes(t)
		admit := func() error { _, err := Admit(in, Call{vectorRun, vectorCall}, unreachable(t)); return err }
		if name == "decode" {
			admit = func() error { _, err := Decode(in, vectorRun); return err }
		}
		if admit() == nil {
			t.Fatalf("%s is accepted", name)
		}
		if bytes, objects := allocated(func() { admit() }); bytes > refusalMax() || objects > 40 {
			t.Errorf("%s: the refusal of %d bytes allocates %d in %v objects", name, len(in), bytes, objects)
		}
	}
}

// What comes as a value is refused before it is written, too.
func TestEncodeRefusesBeforeItWrites(t *testing.T) {
	big := Text(strings.Repeat("a", 64<<20))
	for name, p := range map[string]Projection{
		"large": {Status: OK, Parts: []Part{big}},
		"value": {Status: OK, Parts: []Part{JSON(big)}},
		"name":  {Status: OK, Parts: []Part{Image{PNG, Ref{Run: vectorRun, Name: string(big)}}}},
		"media": {Status: OK, Parts: []Part{Image{MediaType(big), Ref{Run: vectorRun}}}},
		"parts": {Status: OK, Parts: make([]Part, PartsMax+1)},
		"other": {Status: OK, Code: string(big)},
		"state": {Status: Status(big), Parts: []Part{Text("")}},
	} {
		if bytes, _ := allocated(func() {
			if _, err := Encode(p, vectorRun); err == nil {
				t.Errorf("%s is accepted", name)
			}
		}); bytes > refusalMax() {
			t.Errorf("%s: the refusal allocates %d bytes", name, bytes)
		}
	}
}

// A set of names that is used again holds nothing of the text before, and its
// size has a bound.
func TestNamesAreBounded(t *testing.T) {
	var wide strings.Builder
	for i := range NodesMax - 1 {
		wide.WriteString(`,"` + string(rune('a'+i%26)) + string(rune('a'+i/26%26)) + string(rune('a'+i/676)) + `":0`)
	}
	in := doc(value("{", wide.String()[1:], "}")).bytes(t)
	if _, err := Admit(in, Call{vectorRun, 1}, nil); err != nil {
		t.Fatal(err)
	}
	p := newParser(nil, durable, vectorRun, 0)
	defer p.release()
	n := &p.names
	if cap(n.open) > 2*NodesMax || len(n.table) > 4*NodesMax || cap(n.a) > 2*BytesMax {
		t.Errorf("it holds %d names, %d slots, %d bytes", cap(n.open), len(n.table), cap(n.a))
	}
}
