package projection

import (
	"bytes"
	"slices"
	"strings"
	"unicode/utf8"

	"durafs/internal/jsonscan"
)

// Same reports whether two projections show the same: the rule by which a
// result that is sent once more is taken for the one that was committed. Texts
// and images have to be equal; values of json parts may differ in spelling, as
// SameJSON says.
func Same(a, b Projection) bool {
	if a.Status != b.Status || a.Code != b.Code || len(a.Parts) != len(b.Parts) {
		return false
	}
	for i, p := range a.Parts {
		q := b.Parts[i]
		x, ok := p.(JSON)
		y, too := q.(JSON)
		if p != q && !(ok && too && SameJSON([]byte(x), []byte(y))) {
			return false
		}
	}
	return true
}

// sameDepthMax bounds how deep SameJSON looks: it passes over what is inside a
// value once for each level above.
const sameDepthMax = 64

// SameJSON reports whether two JSON texts say the same: whatever blanks there
// are, however strings are escaped, in whatever order members stand. Numbers
// are compared by their digits: 1.0 is not 1, since a reader of whole numbers
// tells them apart. What is no JSON, or nests deeper than 64, is the same only
// as the same bytes.
func SameJSON(a, b []byte) bool {
	return bytes.Equal(a, b) || bytes.Equal(AppendSaid(nil, a), AppendSaid(nil, b))
}

// AppendSaid appends one spelling for all JSON texts that say the same, as
// SameJSON means it: without blanks, strings in their canonical spelling,
// members in the order of their names. It is for comparing, and for digests.
func AppendSaid(dst, text []byte) []byte {
	if !utf8.Valid(text) || !jsonscan.Valid(text, sameDepthMax) {
		return append(append(dst, '!'), text...) // no JSON begins so
	}
	return appendSaid(dst, trim(text))
}

func trim(b []byte) []byte { return bytes.Trim(b, " \t\r\n") }

// appendSaid appends a valid value without blanks around it.
func appendSaid(dst, v []byte) []byte {
	switch v[0] {
	case '"':
		return jsonscan.AppendCanonical(dst, v)
	case '[':
		dst = append(dst, '[')
		for i, e := range elements(v) {
			if i > 0 {
				dst = append(dst, ',')
			}
			dst = appendSaid(dst, e)
		}
		return append(dst, ']')
	case '{':
		dst = append(dst, '{')
		for i, m := range sortedMembers(v) {
			if i > 0 {
				dst = append(dst, ',')
			}
			dst = append(jsonscan.AppendLiteral(dst, m.name), ':')
			dst = appendSaid(dst, m.value)
		}
		return append(dst, '}')
	}
	return append(dst, v...)
}

// sortedMembers are those of a valid object in the order of their names; of a
// name that is there twice, in their own.
func sortedMembers(v []byte) []member {
	list := members(v)
	slices.SortStableFunc(list, func(x, y member) int { return strings.Compare(x.name, y.name) })
	return list
}

// member is a member of an object: what its name says, and its value.
type member struct {
	name  string
	value []byte
}

// members are those of a valid object.
func members(src []byte) (list []member) {
	at := jsonscan.Blank(src, 1)
	for src[at] != '}' {
		end, _ := jsonscan.String(src, at)
		name := saidBy(src[at:end])
		at = jsonscan.Name(src, at)
		end = jsonscan.Value(src, at, sameDepthMax)
		list = append(list, member{name, src[at:end]})
		at = next(src, end)
	}
	return list
}

// elements are those of a valid array.
func elements(src []byte) (list [][]byte) {
	at := jsonscan.Blank(src, 1)
	for src[at] != ']' {
		end := jsonscan.Value(src, at, sameDepthMax)
		list = append(list, src[at:end])
		at = next(src, end)
	}
	return list
}

// next passes over the comma behind an element, if there is one.
func next(src []byte, at int) int {
	if at = jsonscan.Blank(src, at); src[at] == ',' {
		at = jsonscan.Blank(src, at+1)
	}
	return at
}
