package projection

import "durafs/internal/jsonscan"

// Decode reads the durable form of a projection of this run. It takes the
// canonical form alone: what it takes, Encode writes again byte for byte. The
// error is a *Refusal. b is not kept.
//
// The bytes of the images are not looked at: Check does that.
func Decode(b []byte, run string) (Projection, error) {
	if r := fits(b, BytesMax, run); r != nil {
		return Projection{}, r
	}
	if string(b) == Sentinel {
		return failed(), nil
	}
	p := newParser(b, durable, run, 0)
	defer p.release()
	if r := p.decode(); r != nil {
		return Projection{}, r
	}
	return p.doc.projection(run), nil
}

// fits checks what is known before anything is read.
func fits(b []byte, bytesMax int, run string) *Refusal {
	switch {
	case !goodRun(run):
		return &Refusal{Code: BadRun, At: -1}
	case len(b) > bytesMax:
		return &Refusal{Code: TooLarge, At: -1, Size: int64(len(b)), Limit: int64(bytesMax)}
	}
	return nil
}

// decode reads the durable form and keeps nothing but places in it.
func (p *parser) decode() *Refusal {
	if r := p.parse(); r != nil {
		return r
	}
	return p.doc.canonical(p.run)
}

// canonical checks that the text is the canonical form.
func (d *document) canonical(run string) *Refusal {
	for i := range d.parts[:d.n] {
		if p := &d.parts[i]; p.kind != imageKind && !p.same {
			w := where{part: i}
			return &Refusal{Code: NotCanonical, Path: w.path(), At: p.text.from}
		}
	}
	m := matcher{rest: d.src}
	d.emit(&m, run)
	if m.bad || len(m.rest) > 0 {
		return &Refusal{Code: NotCanonical, At: len(d.src) - len(m.rest)}
	}
	return nil
}

// projection is the document in memory.
func (d *document) projection(run string) Projection {
	p := Projection{Status: d.status, Parts: make([]Part, d.n)}
	for i := range p.Parts {
		p.Parts[i] = d.value(&d.parts[i], run)
	}
	return p
}

func (d *document) value(p *part, run string) Part {
	switch p.kind {
	case textKind:
		return Text(saidBy(p.text.of(d.src)))
	case jsonKind:
		return JSON(p.text.of(d.src))
	}
	return Image{MediaType: p.media, Ref: Ref{
		Run: run, Name: saidBy(p.ref.name.of(d.src)), B3: p.ref.b3, Bytes: p.ref.bytes,
	}}
}

// saidBy is what a literal says.
func saidBy(literal []byte) string {
	if jsonscan.Plain(literal, 1) == len(literal)-1 {
		return string(literal[1 : len(literal)-1])
	}
	return string(jsonscan.AppendSaid(make([]byte, 0, len(literal)), literal))
}

// goodRun is the form of all ids of runs; whether there is such a run is for
// the caller.
func goodRun(run string) bool {
	if len(run) == 0 || len(run) > RunBytesMax {
		return false
	}
	for i := range len(run) {
		c := run[i]
		if !('0' <= c && c <= '9' || 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || c == '_' || c == '-') {
			return false
		}
	}
	return true
}
