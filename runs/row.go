package runs

import (
	"bytes"
	"encoding/json"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
)

// Bounds of rows.
const (
	RowBytesMax     = 32 << 20 // at the door
	RowTextBytesMax = 64 << 10 // in the log; a larger row keeps a preview there
	RowDepthMax     = 1000     // of nested arrays and objects
	previewHead     = 8 << 10  // of a large row's text, in its preview
)

// A stored line is the agent's object with "seq":N put first, or the store's
// own with "by" and "time" besides. Line breaks between tokens are dropped
// when a row comes in; every other byte stays. So taking out of a line what
// was put in gives the agent's bytes again.
//
//	{"a":1}                   → {"seq":7,"a":1}
//	{ }                       → {"seq":7 }
//	{"type":"paused"}, store  → {"seq":7,"by":"store","time":"2026-…Z","type":"paused"}
//
// Times have nine digits behind the point, so that a line's length is known
// before its time is.
const timeForm = "2006-01-02T15:04:05.000000000Z"

// appendLine renders a row, its line break included.
func appendLine(dst, text []byte, flags uint8, seq uint64, at int64) []byte {
	open := openBrace(text) + 1
	dst = append(dst, text[:open]...)
	dst = append(dst, `"seq":`...)
	dst = strconv.AppendUint(dst, seq, 10)
	if flags&rowByStore != 0 {
		dst = append(dst, `,"by":"store","time":"`...)
		dst = time.Unix(0, at).UTC().AppendFormat(dst, timeForm)
		dst = append(dst, '"')
	}
	if !emptyObject(text[open:]) {
		dst = append(dst, ',')
	}
	dst = append(dst, text[open:]...)
	return append(dst, '\n')
}

// lineBytes is the length of what appendLine renders.
func lineBytes(text []byte, flags uint8, seq uint64) int {
	n := len(text) + len(`"seq":`) + digits(seq) + len("\n")
	if flags&rowByStore != 0 {
		n += len(`,"by":"store","time":""`) + len(timeForm)
	}
	if !emptyObject(text[openBrace(text)+1:]) {
		n++
	}
	return n
}

func digits(n uint64) int {
	d := 1
	for ; n >= 10; n /= 10 {
		d++
	}
	return d
}

// openBrace is where the object begins, behind blanks, or -1.
func openBrace(text []byte) int {
	for i, c := range text {
		switch c {
		case '{':
			return i
		case ' ', '\t':
		default:
			return -1
		}
	}
	return -1
}

func emptyObject(afterOpen []byte) bool {
	for _, c := range afterOpen {
		if c != ' ' && c != '\t' {
			return c == '}'
		}
	}
	return true
}

// scanned is what checking a row found.
type scanned struct {
	text []byte // without line breaks
	key  []byte // what stands in the key field, with its type in front
	kind []byte // the values of type and time, as they stand, for a preview
	time []byte
}

// scanRow checks a row: one JSON object in valid UTF-8, without the store's
// own names at its top. Rows need no other field; type and time are what
// readers understand best.
func scanRow(src []byte, keyField string) (scanned, *Refusal) {
	if len(src) > RowBytesMax {
		r := refuse(RowTooLarge, "it has %d bytes, and the limit is %d", len(src), RowBytesMax)
		r.Size, r.Limit = int64(len(src)), RowBytesMax
		return scanned{}, r
	}
	if !utf8.Valid(src) {
		return scanned{}, refuse(RowInvalid, "it is not valid UTF-8")
	}
	s := scanner{src: src}
	s.blank()
	if s.peek() != '{' {
		if s.value(0); s.end() {
			return scanned{}, refuse(RowNotObject, "it is JSON, but not an object")
		}
		return scanned{}, refuse(RowInvalid, "it is not valid JSON")
	}
	out := scanned{}
	if r := s.row(&out, keyField); r != nil {
		return scanned{}, r
	}
	out.text = dropBreaks(src)
	return out, nil
}

// dropBreaks drops line breaks. In valid JSON they stand between tokens only.
func dropBreaks(src []byte) []byte {
	if bytes.IndexByte(src, '\n') < 0 && bytes.IndexByte(src, '\r') < 0 {
		return src
	}
	out := make([]byte, 0, len(src))
	for _, c := range src {
		if c != '\n' && c != '\r' {
			out = append(out, c)
		}
	}
	return out
}

// row walks the top object's members.
func (s *scanner) row(out *scanned, keyField string) *Refusal {
	var refusal *Refusal
	keys := 0
	s.object(0, func(name, value []byte) {
		switch {
		case string(name) == "seq" || string(name) == "by":
			refusal = refuse(ReservedName, "it has the field %q, which is the store's", name)
			refusal.Field = string(name)
		case keyField != "" && string(name) == keyField:
			keys++
			out.key = keyValue(value)
		}
		switch string(name) {
		case "type":
			out.kind = value
		case "time":
			out.time = value
		}
	})
	switch {
	case !s.end():
		return refuse(RowInvalid, "it is not valid JSON at byte %d", s.at)
	case refusal != nil:
		return refusal
	case keyField != "" && (keys != 1 || out.key == nil):
		r := refuse(KeyMissing, "it has no one key in the field %s", quote(keyField))
		r.Field = keyField
		return r
	}
	return nil
}

// keyValue is a key as it is compared: a string by what it says, a number by
// its digits. Nil for anything else.
func keyValue(value []byte) []byte {
	switch c := value[0]; {
	case c == '"':
		var text string
		if json.Unmarshal(value, &text) != nil || text == "" {
			return nil
		}
		if strings.ContainsRune(text, utf8.RuneError) {
			// It may stand for a lone surrogate, of which there are many.
			return value
		}
		return append([]byte{'s'}, text...)
	case c == '-' || '0' <= c && c <= '9':
		return append([]byte{'#'}, value...)
	}
	return nil
}
