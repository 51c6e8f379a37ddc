package projection

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Code says which rule was broken. Codes are stable: programs compare them.
type Code string

// The codes.
const (
	NotUTF8         Code = "not-utf8"
	NotJSON         Code = "not-json"
	TrailingBytes   Code = "trailing-bytes"
	NotCanonical    Code = "not-canonical"
	WrongType       Code = "wrong-type"
	UnknownField    Code = "unknown-field"
	MissingField    Code = "missing-field"
	DuplicateName   Code = "duplicate-name"
	UnknownVersion  Code = "unknown-version"
	UnknownStatus   Code = "unknown-status"
	UnknownKind     Code = "unknown-kind"
	TooLarge        Code = "too-large"
	NoParts         Code = "no-parts"
	TooManyParts    Code = "too-many-parts"
	TooDeep         Code = "too-deep"
	TooManyNodes    Code = "too-many-nodes"
	NotFinite       Code = "not-finite"
	BadMediaType    Code = "bad-media-type"
	WrongSignature  Code = "wrong-signature"
	BadBase64       Code = "bad-base64"
	BadRun          Code = "bad-run"
	OtherRun        Code = "other-run"
	BadName         Code = "bad-name"
	BadDigest       Code = "bad-digest"
	BadLength       Code = "bad-length"
	UnknownArtifact Code = "unknown-artifact"
	OtherBytes      Code = "other-bytes"
)

// said tells each code to a reader.
var said = map[Code]string{
	NotUTF8:         "is not valid UTF-8",
	NotJSON:         "is not valid JSON",
	TrailingBytes:   "has bytes behind the end",
	NotCanonical:    "is not in the canonical form",
	WrongType:       "has another JSON type",
	UnknownField:    "is no field here",
	MissingField:    "is missing",
	DuplicateName:   "has a name twice",
	UnknownVersion:  "is another version than 1",
	UnknownStatus:   "is neither ok nor error",
	UnknownKind:     "is no kind of part: text, json or image",
	TooLarge:        "is too large",
	NoParts:         "has no part",
	TooManyParts:    "has too many parts",
	TooDeep:         "nests too deep",
	TooManyNodes:    "brings the values in json parts above the limit",
	NotFinite:       "has a number that is not finite as a double",
	BadMediaType:    "is none of image/png, image/jpeg, image/gif, image/webp",
	WrongSignature:  "has bytes that are not of the media type",
	BadBase64:       "is not canonical base64",
	BadRun:          "is no run's id",
	OtherRun:        "is another run",
	BadName:         "is no payload's name",
	BadDigest:       "is not 64 lower-case hexadecimal digits",
	BadLength:       "is not a whole number from 1 to the limit",
	UnknownArtifact: "is not among the run's payloads",
	OtherBytes:      "is not what the run has under this name",
}

// Codes lists every code there is, sorted.
func Codes() []Code {
	all := make([]Code, 0, len(said))
	for c := range said {
		all = append(all, c)
	}
	slices.Sort(all)
	return all
}

// Refusal is the error of what is no projection, or no candidate for one.
type Refusal struct {
	Code Code
	// Path is the field, like parts[3].ref.b3; "" is the whole.
	Path string
	// At is the byte offset in what was read, -1 where it has none.
	At int
	// Limit and Size are the bound that was passed and what was found at least,
	// else zero.
	Limit, Size int64
}

// Error says which field, and what is wrong with it.
func (r *Refusal) Error() string {
	var b strings.Builder
	b.WriteString("projection: ")
	if r.Path == "" {
		b.WriteString("it")
	} else {
		b.WriteString(r.Path)
	}
	b.WriteString(" " + said[r.Code])
	if r.Limit > 0 {
		fmt.Fprintf(&b, ": %d, and the limit is %d", r.Size, r.Limit)
	}
	if r.At >= 0 {
		fmt.Fprintf(&b, " (at byte %d)", r.At)
	}
	return b.String()
}

// fieldShownMax bounds what a path shows of a name that is no field.
const fieldShownMax = 32

// where is a path while its parts are still apart: most are never needed.
type where struct {
	part       int // -1 outside of parts
	field, sub string
}

func (w where) path() string {
	var b strings.Builder
	if w.part >= 0 {
		b.WriteString("parts[" + strconv.Itoa(w.part) + "]")
	}
	for _, name := range []string{w.field, w.sub} {
		if name != "" {
			if b.Len() > 0 {
				b.WriteByte('.')
			}
			b.WriteString(name)
		}
	}
	return b.String()
}

// shown is a name of any bytes and length as it stands in a path.
func shown(name []byte) string {
	if len(name) > fieldShownMax {
		return shown(name[:fieldShownMax]) + "…"
	}
	q := strconv.QuoteToASCII(string(name))
	if q = q[1 : len(q)-1]; q == "" {
		return `""`
	}
	return q
}
