package projection

import (
	"strconv"

	"github.com/zeebo/blake3"
)

// Call names the call whose result is projected.
type Call struct {
	Run    string // its run's id
	Number uint64 // within the run
}

// Payload is what a store has under a name.
type Payload struct {
	B3    Digest
	Bytes int64
	// Head is at least its first HeadBytes, or all of it.
	Head []byte
}

// Find finds a payload of the run whose projection is admitted, by its name. ok
// is false where there is none that a projection may refer to. It is called
// when nothing else is left to refuse.
type Find func(name string) (p Payload, ok bool, err error)

// Artifact is an image that an admitted projection refers to.
type Artifact struct {
	Name      string
	MediaType MediaType
	B3        Digest
	Bytes     int64
	// Data is the image, which nobody else refers to; nil where it is to share
	// the bytes of the run's payload named From.
	Data []byte
	From string
}

// Admission is a projection that was admitted. It owns its bytes: what is
// persisted is what was admitted, whatever becomes of the candidate.
type Admission struct {
	Projection Projection
	Encoded    []byte // the durable form
	// Artifacts are to be stored, in this order, before the projection is
	// committed, and to become the run's together with it.
	Artifacts []Artifact
}

// Fallback is what is committed in place of a candidate that was refused, or
// did not come.
func Fallback() *Admission {
	return &Admission{Projection: failed(), Encoded: []byte(Sentinel)}
}

// ArtifactName is the name of the artifact of a part, from 0, of a call's
// projection. It is one of the store's own: agents' names begin with no dot.
func ArtifactName(call uint64, part int) string {
	return ".projection-" + strconv.FormatUint(call, 10) + "-" + strconv.Itoa(part)
}

// Admit makes of a candidate the durable form, or refuses it with a *Refusal.
// Another error is one of find.
//
// Every image gets an artifact of its own, also one that the run has already
// under another name: so deleting that one harms nothing. Admit writes nothing,
// and a refusal leaves nothing behind.
func Admit(text []byte, call Call, find Find) (*Admission, error) {
	if r := fits(text, CandidateBytesMax, call.Run); r != nil {
		return nil, r
	}
	if string(text) == Sentinel {
		return Fallback(), nil
	}
	p := newParser(text, candidate, call.Run, call.Number)
	defer p.release()
	if r := p.parse(); r != nil {
		return nil, r
	}
	if err := p.doc.resolve(find); err != nil {
		return nil, err
	}
	// From here on nothing is refused.
	adm := &Admission{Artifacts: p.doc.plan(call)}
	out := appender{make([]byte, 0, p.doc.bytes)}
	p.doc.emit(&out, call.Run)
	adm.Encoded = out.out
	var err error
	adm.Projection, err = Decode(adm.Encoded, call.Run)
	return adm, err
}

// resolve looks at what the references are said to name.
func (d *document) resolve(find Find) error {
	for i := range d.parts[:d.n] {
		p := &d.parts[i]
		if p.kind != imageKind || p.data {
			continue
		}
		have, ok, err := find(saidBy(p.ref.name.of(d.src)))
		if err != nil {
			return err
		}
		if r := p.matches(have, ok, i); r != nil {
			r.At = p.ref.name.from
			return r
		}
	}
	return nil
}

// matches compares an image with what the store has under its name.
func (p *part) matches(have Payload, ok bool, i int) *Refusal {
	code, w := Code(""), where{part: i, field: "ref"}
	switch {
	case !ok:
		code, w.sub = UnknownArtifact, "name"
	case have.B3 != p.ref.b3:
		code, w.sub = OtherBytes, "b3"
	case have.Bytes != p.ref.bytes:
		code, w.sub = OtherBytes, "bytes"
	case !p.media.Matches(have.Head):
		code, w.field = WrongSignature, "media_type"
	default:
		return nil
	}
	return &Refusal{Code: code, Path: w.path(), At: -1}
}

// plan makes the artifacts, and the document's references those to them.
func (d *document) plan(call Call) []Artifact {
	var list []Artifact
	for i := range d.parts[:d.n] {
		p := &d.parts[i]
		if p.kind != imageKind {
			continue
		}
		a := Artifact{Name: ArtifactName(call.Number, i), MediaType: p.media, B3: p.ref.b3, Bytes: p.ref.bytes}
		if p.data {
			a.Data = decode64(p.text.of(d.src))
			a.B3, a.Bytes = blake3.Sum256(a.Data), int64(len(a.Data))
		} else {
			a.From = saidBy(p.ref.name.of(d.src))
		}
		p.ref = reference{planned: a.Name, b3: a.B3, bytes: a.Bytes}
		list = append(list, a)
	}
	return list
}

// Check compares a projection's images with what the store has under their
// names: digest, length, and that the bytes are of the media type. It is for
// what was decoded from a log.
func Check(p Projection, find Find) error {
	for i, v := range p.Parts {
		im, ok := v.(Image)
		if !ok {
			continue
		}
		have, ok, err := find(im.Ref.Name)
		if err != nil {
			return err
		}
		q := part{media: im.MediaType, ref: reference{b3: im.Ref.B3, bytes: im.Ref.Bytes}}
		if r := q.matches(have, ok, i); r != nil {
			return r
		}
	}
	return nil
}
