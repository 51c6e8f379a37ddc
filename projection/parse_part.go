package projection

import (
	"strconv"
	"unicode/utf8"

	"durafs/internal/jsonscan"
)

// The fields of a part, and which of them each kind has. A name has the same
// type in each, so that a part can be read before its kind is known: JSON gives
// names no order.
var partFields = []string{"kind", "text", "value", "media_type", "ref", "data"}

const (
	hasKind uint = 1 << iota
	hasText
	hasValue
	hasMedia
	hasRef
	hasData
)

var kindFields = [...]uint{
	noKind:    ^uint(0),
	textKind:  hasKind | hasText,
	jsonKind:  hasKind | hasValue,
	imageKind: hasKind | hasMedia | hasRef | hasData,
}

var kindNames = [...]string{textKind: "text", jsonKind: "json", imageKind: "image"}

func (p *parser) part(d *part) bool {
	outer := p.where
	begin := p.at
	var seen uint
	ok := p.fields(partFields, &seen, func(n int) bool {
		if !p.allowed(d.kind, 1<<n) {
			return p.fail(UnknownField, p.at)
		}
		switch uint(1) << n {
		case hasKind:
			return p.kind(d)
		case hasText:
			return p.text(d)
		case hasValue:
			return p.json(d)
		case hasMedia:
			return p.media(d)
		case hasRef:
			return p.ref(&d.ref)
		}
		return p.data(d)
	})
	if !ok {
		return false
	}
	p.where = outer
	return p.shape(d, seen) && p.weigh(d, begin) && p.signature(d)
}

// allowed reports whether a part of this kind may have the field.
func (p *parser) allowed(k kind, field uint) bool {
	return kindFields[k]&field != 0 && (field != hasData || p.form == candidate)
}

// shape checks that a part has the fields of its kind and no other.
func (p *parser) shape(d *part, seen uint) bool {
	if seen&hasKind == 0 {
		return p.complete(partFields, seen, hasKind)
	}
	for n, name := range partFields {
		if seen&(1<<n) != 0 && !p.allowed(d.kind, 1<<n) {
			p.into(name)
			return p.fail(UnknownField, p.at)
		}
	}
	want := kindFields[d.kind] &^ hasData
	if d.kind == imageKind && seen&hasData != 0 {
		if seen&hasRef != 0 { // which of the two would be the image?
			p.into("data")
			return p.fail(UnknownField, p.at)
		}
		want &^= hasRef
		d.data = true
	}
	return p.complete(partFields, seen, want)
}

// weigh counts the canonical bytes of a part.
func (p *parser) weigh(d *part, at int) bool {
	n := len(`{"kind":"","":}`) + len(kindNames[d.kind])
	if p.doc.n > 0 {
		n += len(",")
	}
	switch d.kind {
	case textKind:
		d.size = d.text.to - d.text.from
		if !d.same {
			d.size, d.same = jsonscan.Canonical(d.text.of(p.src))
		}
		return p.count(n+len("text")+d.size, at)
	case jsonKind:
		return p.count(n+len("value")+d.size, at)
	}
	return p.count(n+len("ref")+len(`"media_type":"",`)+len(d.media)+p.refBytes(d), at)
}

// refBytes is the length of a reference in the canonical form, were its run's
// id as long as an id can be. In a candidate it is the one to the artifact.
func (p *parser) refBytes(d *part) int {
	n := len(`{"run":"","name":"","b3":"","bytes":}`) + RunBytesMax + 2*len(Digest{})
	if p.form == candidate {
		n += len(".projection--") + decimals(p.call) + decimals(uint64(p.doc.n))
	} else {
		size, _ := jsonscan.Canonical(d.ref.name.of(p.src))
		n += size - len(`""`)
	}
	if d.data {
		return n + decimals(uint64(decodedBytes(d.text.of(p.src))))
	}
	return n + decimals(uint64(d.ref.bytes))
}

func decimals(n uint64) int {
	var buf [20]byte
	return len(strconv.AppendUint(buf[:0], n, 10))
}

func (p *parser) kind(d *part) bool {
	at := p.at
	s, ok := p.short()
	if !ok {
		return false
	}
	n := index(kindNames[:], s)
	if n <= 0 {
		return p.fail(UnknownKind, at)
	}
	d.kind = kind(n)
	return true
}

func (p *parser) text(d *part) bool {
	s, escaped, ok := p.literal()
	d.text, d.same = s, !escaped
	return ok
}

// data walks an image's bytes in base64. Their length is checked before they
// are looked at.
func (p *parser) data(d *part) bool {
	s, escaped, ok := p.literal()
	if !ok {
		return false
	}
	d.text = span{s.from + 1, s.to - 1}
	b := d.text.of(p.src)
	switch {
	case len(b) > ImageBase64Max:
		return p.over(TooLarge, s.from, int64(len(b)), ImageBase64Max)
	case escaped || !canonical64(b):
		return p.fail(BadBase64, s.from)
	case decodedBytes(b) > ImageBytesMax:
		return p.over(TooLarge, s.from, int64(decodedBytes(b)), ImageBytesMax)
	}
	return true
}

// signature checks that an image's bytes are of its media type. Those of a
// reference are elsewhere.
func (p *parser) signature(d *part) bool {
	var buf [HeadBytes]byte
	if d.data && !d.media.Matches(head64(&buf, d.text.of(p.src))) {
		p.into("data")
		return p.fail(WrongSignature, d.text.from-1)
	}
	return true
}

func (p *parser) media(d *part) bool {
	at := p.at
	s, ok := p.short()
	if !ok {
		return false
	}
	m, ok := ParseMediaType(string(s[:min(len(s), mediaTypeBytesMax+1)]))
	if !ok {
		return p.fail(BadMediaType, at)
	}
	d.media = m
	return true
}

var refFields = []string{"run", "name", "b3", "bytes"}

func (p *parser) ref(r *reference) bool {
	var seen uint
	ok := p.fields(refFields, &seen, func(n int) bool {
		switch n {
		case 0:
			return p.refRun()
		case 1:
			return p.refName(r)
		case 2:
			return p.refDigest(r)
		}
		return p.refLength(r)
	})
	return ok && p.complete(refFields, seen, 0b1111)
}

func (p *parser) refRun() bool {
	at := p.at
	s, ok := p.short()
	if !ok {
		return false
	}
	if string(s) != p.run {
		return p.fail(OtherRun, at)
	}
	return true
}

func (p *parser) refName(r *reference) bool {
	s, escaped, ok := p.literal()
	if !ok {
		return false
	}
	r.name, r.nameEscaped = s, escaped
	if !goodName(p.saidShort(s, escaped)) {
		return p.fail(BadName, s.from)
	}
	return true
}

// goodName is the rule for names of payloads, the store's own among them.
func goodName(name []byte) bool {
	if len(name) == 0 || len(name) > NameBytesMax {
		return false
	}
	switch string(name) {
	case ".", "..", "__proto__", "constructor", "prototype":
		return false
	}
	for len(name) > 0 {
		r, n := utf8.DecodeRune(name)
		if r < 0x20 || 0x7f <= r && r < 0xa0 || r == '/' || r == utf8.RuneError && n == 1 {
			return false
		}
		name = name[n:]
	}
	return true
}

func (p *parser) refDigest(r *reference) bool {
	at := p.at
	s, ok := p.short()
	if !ok {
		return false
	}
	if r.b3, ok = parseDigest(s); !ok {
		return p.fail(BadDigest, at)
	}
	return true
}

// parseDigest is the inverse of Digest.String.
func parseDigest(s []byte) (d Digest, ok bool) {
	if len(s) != 2*len(d) {
		return d, false
	}
	for i, c := range s {
		var v byte
		switch {
		case '0' <= c && c <= '9':
			v = c - '0'
		case 'a' <= c && c <= 'f':
			v = c - 'a' + 10
		default:
			return d, false
		}
		d[i/2] = d[i/2]<<4 | v
	}
	return d, true
}

func (p *parser) refLength(r *reference) bool {
	at := p.at
	if c := p.peek(); (c < '0' || '9' < c) && c != '-' && !p.begins('1') {
		return false
	}
	if p.at = jsonscan.Number(p.src, at); p.at < 0 {
		return p.fail(NotJSON, at)
	}
	n, ok := whole(p.src[at:p.at])
	switch {
	case !ok || n == 0:
		return p.fail(BadLength, at)
	case n > ImageBytesMax:
		return p.over(TooLarge, at, n, ImageBytesMax)
	}
	r.bytes = n
	return true
}

// whole is the value of a number that is written as a whole one, without sign,
// point and exponent. Larger ones than can matter are not told apart.
func whole(number []byte) (n int64, ok bool) {
	for _, c := range number {
		if c < '0' || '9' < c {
			return 0, false
		}
		n = min(n*10+int64(c-'0'), exponentMax)
	}
	return n, true
}
