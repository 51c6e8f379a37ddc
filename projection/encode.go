package projection

import (
	"strconv"

	"durafs/internal/jsonscan"
)

// Encode writes the durable form of a projection of this run. It reads what it
// wrote before it returns it, and returns nothing that Decode would refuse or
// read as something else; the error is then a *Refusal.
func Encode(p Projection, run string) ([]byte, error) {
	if r := fits(nil, BytesMax, run); r != nil {
		return nil, r
	}
	if p.Code != "" {
		return encodeSentinel(p)
	}
	if r := roughly(p); r != nil {
		return nil, r
	}
	b := p.append(nil)
	back, err := Decode(b, run)
	if err != nil {
		return nil, err
	}
	if i := p.differs(back); i != same {
		w := where{part: i}
		return nil, &Refusal{Code: NotCanonical, Path: w.path(), At: -1}
	}
	return b, nil
}

// encodeSentinel writes the one projection that has a code.
func encodeSentinel(p Projection) ([]byte, error) {
	if sentinel := failed(); p.Code != sentinel.Code || p.differs(sentinel) != same {
		return nil, &Refusal{Code: UnknownField, Path: "code", At: -1}
	}
	return []byte(Sentinel), nil
}

// roughly checks what would be written before memory is taken for it: the
// canonical form is no shorter than what it says.
func roughly(p Projection) *Refusal {
	if len(p.Parts) > PartsMax {
		return &Refusal{Code: TooManyParts, Path: "parts", At: -1, Size: int64(len(p.Parts)), Limit: PartsMax}
	}
	n := len(p.Status)
	for _, part := range p.Parts {
		n += weight(part)
	}
	if n > BytesMax {
		return &Refusal{Code: TooLarge, At: -1, Size: int64(n), Limit: BytesMax}
	}
	return nil
}

// weight is what a part brings at least.
func weight(part Part) int {
	switch part := part.(type) {
	case Text:
		return len(part)
	case JSON:
		return len(part)
	case Image:
		return len(part.MediaType) + len(part.Ref.Run) + len(part.Ref.Name)
	}
	return 0
}

// append writes p as it is, whatever it says.
func (p Projection) append(b []byte) []byte {
	b = append(b, `{"v":1,"status":"`...)
	b = append(b, p.Status...)
	b = append(b, `","parts":[`...)
	for i, part := range p.Parts {
		if i > 0 {
			b = append(b, ',')
		}
		b = appendPart(b, part)
	}
	return append(b, `]}`...)
}

func appendPart(b []byte, part Part) []byte {
	switch part := part.(type) {
	case Text:
		b = append(b, `{"kind":"text","text":`...)
		b = jsonscan.AppendLiteral(b, string(part))
	case JSON:
		b = append(b, `{"kind":"json","value":`...)
		b = append(b, part...)
	case Image:
		b = append(b, `{"kind":"image","media_type":"`...)
		b = append(b, part.MediaType...)
		b = append(b, `","ref":`...)
		b = appendRef(b, part.Ref)
	}
	return append(b, '}')
}

func appendRef(b []byte, r Ref) []byte {
	b = append(b, `{"run":`...)
	b = jsonscan.AppendLiteral(b, r.Run)
	b = append(b, `,"name":`...)
	b = jsonscan.AppendLiteral(b, r.Name)
	b = append(b, `,"b3":"`...)
	b = append(b, r.B3.String()...)
	b = append(b, `","bytes":`...)
	b = strconv.AppendInt(b, r.Bytes, 10)
	return append(b, '}')
}

// What differs found, besides a part's number.
const (
	same  = -2
	apart = -1 // not in the parts alone
)

// differs is the first part in which p is not q.
func (p Projection) differs(q Projection) int {
	if p.Status != q.Status || p.Code != q.Code || len(p.Parts) != len(q.Parts) {
		return apart
	}
	for i, part := range p.Parts {
		if part != q.Parts[i] {
			return i
		}
	}
	return same
}
