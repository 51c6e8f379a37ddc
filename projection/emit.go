package projection

import (
	"strconv"

	"durafs/internal/jsonscan"
)

// sink takes a canonical form, piece by piece.
type sink interface {
	text(s string)
	bytes(b []byte)
}

// appender writes it.
type appender struct{ out []byte }

func (a *appender) text(s string)  { a.out = append(a.out, s...) }
func (a *appender) bytes(b []byte) { a.out = append(a.out, b...) }

// matcher compares it with bytes that are there, and keeps nothing.
type matcher struct {
	rest []byte
	bad  bool
}

func (m *matcher) text(s string) {
	if m.bad = m.bad || len(m.rest) < len(s) || string(m.rest[:len(s)]) != s; !m.bad {
		m.rest = m.rest[len(s):]
	}
}

func (m *matcher) bytes(b []byte) {
	if m.bad = m.bad || len(m.rest) < len(b) || string(m.rest[:len(b)]) != string(b); !m.bad {
		m.rest = m.rest[len(b):]
	}
}

// emit writes a document's canonical form, its references as those of run.
func (d *document) emit(to sink, run string) {
	to.text(`{"v":1,"status":"`)
	to.text(string(d.status))
	to.text(`","parts":[`)
	for i := range d.parts[:d.n] {
		if i > 0 {
			to.text(",")
		}
		d.emitPart(to, &d.parts[i], run)
	}
	to.text(`]}`)
}

func (d *document) emitPart(to sink, p *part, run string) {
	switch p.kind {
	case textKind:
		to.text(`{"kind":"text","text":`)
		emitString(to, p.text.of(d.src), p.same, p.size)
	case jsonKind:
		to.text(`{"kind":"json","value":`)
		if p.same {
			to.bytes(p.text.of(d.src))
		} else {
			to.bytes(jsonscan.AppendCompact(make([]byte, 0, p.size), p.text.of(d.src)))
		}
	case imageKind:
		to.text(`{"kind":"image","media_type":"`)
		to.text(string(p.media))
		to.text(`","ref":`)
		d.emitRef(to, &p.ref, run)
	}
	to.text(`}`)
}

func (d *document) emitRef(to sink, r *reference, run string) {
	to.text(`{"run":"`)
	to.text(run)
	to.text(`","name":`)
	if r.planned != "" {
		to.text(`"`)
		to.text(r.planned)
		to.text(`"`)
	} else {
		emitString(to, r.name.of(d.src), !r.nameEscaped, NameBytesMax)
	}
	to.text(`,"b3":"`)
	to.text(r.b3.String())
	to.text(`","bytes":`)
	to.text(strconv.FormatInt(r.bytes, 10))
	to.text(`}`)
}

// emitString writes a string's canonical spelling, of about this size, given
// its literal.
func emitString(to sink, literal []byte, same bool, size int) {
	if same {
		to.bytes(literal)
		return
	}
	to.bytes(jsonscan.AppendCanonical(make([]byte, 0, size), literal))
}
