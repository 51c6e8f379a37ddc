package projection

import (
	"slices"
	"strings"

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
	if string(a) == string(b) {
		return true
	}
	if !jsonscan.Valid(a, sameDepthMax) || !jsonscan.Valid(b, sameDepthMax) {
		return false
	}
	return sameValue(trim(a), trim(b))
}

func trim(b []byte) []byte { return []byte(strings.Trim(string(b), " \t\r\n")) }

// sameValue compares two valid values without blanks around them.
func sameValue(a, b []byte) bool {
	if string(a) == string(b) {
		return true
	}
	if a[0] != b[0] {
		return false
	}
	switch a[0] {
	case '{':
		return sameMembers(members(a), members(b))
	case '[':
		return slices.EqualFunc(elements(a), elements(b), sameValue)
	case '"':
		return saidBy(a) == saidBy(b)
	}
	return false // numbers and words
}

func sameMembers(a, b []member) bool {
	byName := func(x, y member) int { return strings.Compare(x.name, y.name) }
	if len(a) != len(b) {
		return false
	}
	if !slices.EqualFunc(a, b, func(x, y member) bool { return x.name == y.name }) {
		slices.SortStableFunc(a, byName) // of a name that is there twice the order counts
		slices.SortStableFunc(b, byName)
	}
	return slices.EqualFunc(a, b, func(x, y member) bool { return x.name == y.name && sameValue(x.value, y.value) })
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
