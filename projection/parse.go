package projection

import (
	"sync"
	"unicode/utf8"

	"durafs/internal/jsonscan"
)

// form is what is read: a candidate's images may have data.
type form uint8

const (
	durable form = iota
	candidate
)

// document is a projection while it is still its text: it refers to places
// there, and holds nothing of its own, so that what is refused in the end costs
// nothing.
type document struct {
	src    []byte
	status Status
	n      int
	parts  [PartsMax]part
	// bytes is what counts against BytesMax.
	bytes int
}

// kind of a part.
type kind uint8

const (
	noKind kind = iota
	textKind
	jsonKind
	imageKind
)

// part is a part in its text.
type part struct {
	kind kind
	// text is the literal of a text part, the value of a json part, or the
	// base64 of an image, between its quotes. same: it is written as in the
	// canonical form.
	text span
	same bool
	size int  // of text in the canonical form
	data bool // an image has data, else ref

	media MediaType
	ref   reference
}

// reference is a reference in its text: its run was compared.
type reference struct {
	name        span // the literal
	nameEscaped bool
	planned     string // the name that data gets
	b3          Digest
	bytes       int64
}

type span struct{ from, to int }

func (s span) of(src []byte) []byte { return src[s.from:s.to] }

// parser reads a document. Each of its methods walks one thing and reports
// whether that was as it has to be; the first that was not is in refusal.
//
// It is large, and used again by the next: a refusal leaves nothing behind.
type parser struct {
	doc   document
	src   []byte
	at    int
	where where
	form  form
	run   string
	call  uint64 // of a candidate

	nodes  int
	blanks int // passed over, in a json value
	names  names
	small  [2 * NameBytesMax]byte // a short string with escapes, as it is said

	refusal *Refusal
}

func (p *parser) fail(code Code, at int) bool {
	if p.refusal == nil {
		p.refusal = &Refusal{Code: code, Path: p.where.path(), At: at}
	}
	return false
}

func (p *parser) over(code Code, at int, size, limit int64) bool {
	p.fail(code, at)
	p.refusal.Size, p.refusal.Limit = size, limit
	return false
}

var parsers = sync.Pool{New: func() any { return &parser{names: names{open: make([]name, 0, 128)}} }}

// newParser is a parser of src, which is at most CandidateBytesMax long. It is
// done with when it was released, and so is its document.
func newParser(src []byte, form form, run string, call uint64) *parser {
	p := parsers.Get().(*parser)
	p.src, p.form, p.run, p.call = src, form, run, call
	p.at, p.nodes, p.where, p.refusal = 0, 0, where{part: -1}, nil
	p.names.open = p.names.open[:0]
	p.doc.src, p.doc.status, p.doc.n = src, "", 0
	return p
}

func (p *parser) release() {
	clear(p.doc.parts[:min(p.doc.n+1, PartsMax)]) // the last may be half read
	p.src, p.run, p.doc.src, p.refusal = nil, "", nil, nil
	parsers.Put(p)
}

// parse reads the whole.
func (p *parser) parse() *Refusal {
	if !utf8.Valid(p.src) {
		p.fail(NotUTF8, firstInvalid(p.src))
		return p.refusal
	}
	if p.projection() && p.blank() < len(p.src) {
		p.where = where{part: -1}
		p.fail(TrailingBytes, p.at)
	}
	return p.refusal
}

func firstInvalid(b []byte) int {
	for at := 0; at < len(b); {
		r, n := utf8.DecodeRune(b[at:])
		if r == utf8.RuneError && n == 1 {
			return at
		}
		at += n
	}
	return -1
}

// blank passes over white space.
func (p *parser) blank() int {
	p.at = jsonscan.Blank(p.src, p.at)
	return p.at
}

func (p *parser) peek() byte {
	if p.at < len(p.src) {
		return p.src[p.at]
	}
	return 0
}

// begins checks that a value of a type begins here, as its first byte tells.
func (p *parser) begins(c byte) bool {
	switch got := p.peek(); {
	case got == c:
		return true
	case got == '{' || got == '[' || got == '"' || got == '-' || '0' <= got && got <= '9',
		jsonscan.Word(p.src, p.at) >= 0:
		return p.fail(WrongType, p.at)
	}
	return p.fail(NotJSON, p.at)
}

// list walks the elements of an array or the members of an object: item is
// called at each, behind the blanks.
func (p *parser) list(open byte, item func() bool) bool {
	if !p.begins(open) {
		return false
	}
	end := open + 2 // ']' behind '[', '}' behind '{'
	p.at++
	if p.blank(); p.peek() == end {
		p.at++
		return true
	}
	for item() {
		p.blank()
		switch p.peek() {
		case end:
			p.at++
			return true
		case ',':
			p.at++
			p.blank()
		default:
			return p.fail(NotJSON, p.at)
		}
	}
	return false
}

// fields walks an object whose names are a closed set. It calls field with the
// number of each name, at its value; seen gets a bit for each.
func (p *parser) fields(names []string, seen *uint, field func(n int) bool) bool {
	outer := p.where
	ok := p.list('{', func() bool {
		p.where = outer
		at := p.at
		name, ok := p.name()
		if !ok {
			return false
		}
		n := index(names, name)
		if n < 0 {
			p.into(shown(name))
			return p.fail(UnknownField, at)
		}
		p.into(names[n])
		if *seen&(1<<n) != 0 {
			return p.fail(DuplicateName, at)
		}
		*seen |= 1 << n
		return field(n)
	})
	if ok {
		p.where = outer
	}
	return ok
}

// into makes the path one longer.
func (p *parser) into(name string) {
	if p.where.field == "" {
		p.where.field = name
	} else {
		p.where.sub = name
	}
}

func index(names []string, name []byte) int {
	for i, n := range names {
		if n == string(name) {
			return i
		}
	}
	return -1
}

// name walks a member's name and its colon.
func (p *parser) name() ([]byte, bool) {
	if p.peek() != '"' {
		return nil, p.fail(NotJSON, p.at)
	}
	name, ok := p.short()
	if !ok {
		return nil, false
	}
	if p.blank(); p.peek() != ':' {
		return nil, p.fail(NotJSON, p.at)
	}
	p.at++
	p.blank()
	return name, true
}

// literal walks a string.
func (p *parser) literal() (s span, escaped, ok bool) {
	if !p.begins('"') {
		return span{}, false, false
	}
	end, escaped := jsonscan.String(p.src, p.at)
	if end < 0 {
		return span{}, false, p.fail(NotJSON, p.at)
	}
	s = span{p.at, end}
	p.at = end
	return s, escaped, true
}

// short walks a string and is what it says: valid until the next. One that is
// longer than everything it is compared with is as it is written.
func (p *parser) short() ([]byte, bool) {
	s, escaped, ok := p.literal()
	if !ok {
		return nil, false
	}
	return p.saidShort(s, escaped), true
}

func (p *parser) saidShort(s span, escaped bool) []byte {
	if !escaped || s.to-s.from > 6*NameBytesMax {
		return p.src[s.from+1 : s.to-1]
	}
	return jsonscan.AppendSaid(p.small[:0], s.of(p.src))
}

var topFields = []string{"v", "status", "parts"}

func (p *parser) projection() bool {
	p.blank()
	var seen uint
	p.doc.bytes = len(`{"v":1,"status":"","parts":[]}`)
	ok := p.fields(topFields, &seen, func(n int) bool {
		switch n {
		case 0:
			return p.version()
		case 1:
			return p.status()
		}
		return p.parts()
	})
	return ok && p.complete(topFields, seen, 0b111)
}

// complete checks that the fields of want are there.
func (p *parser) complete(names []string, seen, want uint) bool {
	for n, name := range names {
		if want&^seen&(1<<n) != 0 {
			p.into(name)
			return p.fail(MissingField, p.at)
		}
	}
	return true
}

func (p *parser) version() bool {
	if c := p.peek(); c < '0' || '9' < c { // every number is wrong but 1
		if c != '-' && !p.begins('1') {
			return false
		}
	}
	end := jsonscan.Number(p.src, p.at)
	if end < 0 {
		return p.fail(NotJSON, p.at)
	}
	if string(p.src[p.at:end]) != "1" {
		return p.fail(UnknownVersion, p.at)
	}
	p.at = end
	return true
}

func (p *parser) status() bool {
	at := p.at
	s, ok := p.short()
	if !ok {
		return false
	}
	switch string(s) {
	case string(OK):
		p.doc.status = OK
	case string(Error):
		p.doc.status = Error
	default:
		return p.fail(UnknownStatus, at)
	}
	p.doc.bytes += len(p.doc.status)
	return true
}

func (p *parser) parts() bool {
	at := p.at
	ok := p.list('[', func() bool {
		if p.doc.n == PartsMax {
			return p.over(TooManyParts, p.at, PartsMax+1, PartsMax)
		}
		p.where = where{part: p.doc.n}
		if !p.part(&p.doc.parts[p.doc.n]) {
			return false
		}
		p.where = where{part: -1, field: "parts"}
		p.doc.n++
		return true
	})
	if ok && p.doc.n == 0 {
		return p.fail(NoParts, at)
	}
	return ok
}

// count adds to what counts against BytesMax.
func (p *parser) count(n, at int) bool {
	p.doc.bytes += n
	if p.doc.bytes > BytesMax {
		return p.over(TooLarge, at, int64(p.doc.bytes), BytesMax)
	}
	return true
}
