package server

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"

	"durafs/control"
)

// fieldShownMax bounds what of a document is shown in a problem.
const fieldShownMax = 200

var rawType = reflect.TypeFor[json.RawMessage]()

// decode reads the one JSON object b into v, a pointer to a struct, strictly
// (see scan). A null counts as left out.
func decode(b []byte, v any) *control.Problem {
	if err := scan(b, reflect.TypeOf(v)); err != nil {
		return scanProblem(err)
	}
	if !isObject(b) {
		return problem(400, control.CodeBadJSON, "the body must be a JSON object")
	}
	err := json.Unmarshal(b, v)
	if err == nil {
		return nil
	}
	var kind *json.UnmarshalTypeError
	if errors.As(err, &kind) {
		field := bounded(kind.Field, fieldShownMax)
		p := problem(400, control.CodeBadField, fmt.Sprintf("%q takes another kind of value than a JSON %s", field, bounded(kind.Value, fieldShownMax)))
		p.Field = field
		return p
	}
	return problem(400, control.CodeBadField, bounded(err.Error(), fieldShownMax))
}

func scanProblem(e *scanError) *control.Problem {
	code := control.CodeBadJSON
	switch e.kind {
	case errTrailing:
		code = control.CodeTrailingBytes
	case errUnknown:
		code = control.CodeUnknownField
	case errDuplicate:
		code = control.CodeDuplicateName
	case errNull:
		code = control.CodeBadField
	case errDepth:
		code = control.CodeTooDeep
	}
	p := problem(400, code, e.Error())
	p.Field = bounded(e.field, fieldShownMax)
	if e.kind == errDepth {
		p.Limit = depthMax
	}
	return p
}

func isObject(b []byte) bool {
	for _, c := range b {
		switch c {
		case ' ', '\t', '\n', '\r':
			continue
		}
		return c == '{'
	}
	return false
}

// bounded cuts s to n bytes, at a rune.
func bounded(s string, n int) string {
	if len(s) <= n {
		return s
	}
	for n > 0 && s[n]&0xc0 == 0x80 {
		n--
	}
	return s[:n] + "…"
}
